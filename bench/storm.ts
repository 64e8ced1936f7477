/**
 * `npm run bench:storm`: every sender in every scenario, in virtual time, from one seed. Prints the tables, writes
 * figures.md beside the code, and the pictures and results for docs/benchmarks.md.
 *
 * `npm run bench:storm -- outage-1h slow` runs only the named scenarios and writes nothing. `default-policy` names the
 * comparisons behind the default policy, and `shared-receiver` a host that many tenants share, whose figures `--save`
 * saves. `--processes=1` leaves the other cores alone. After an interruption the next run continues with what is left,
 * if the commit is the same and the code unmodified.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { projectRoot } from "../tools/wrangler.ts";
import { benchArgs, commit, save } from "./results.ts";
import { contention } from "./storm/aws.ts";
import { comparisonOf } from "./storm/compare.ts";
import { contenders, presetsBehindTheGate } from "./storm/contenders.ts";
import { policyFigures, policySection } from "./storm/default-policy.ts";
import { goalsOf } from "./storm/goals.ts";
import { pictures } from "./storm/pictures.ts";
import { contentionTable, goalTable, reportOf, resultsOf, section, wideText } from "./storm/report.ts";
import { isHelper, playAll, type Section } from "./storm/runs.ts";
import { erratic, outageOfAnHour, quiet, scenarios } from "./storm/scenarios.ts";
import { sharedReceivers } from "./storm/shared-receiver.ts";
import { sharedTable } from "./storm/shared-table.ts";
import { wideDrainOf } from "./storm/wide-drain.ts";

const SEED = 1;
const WIDE = 20_000;
const FIGURES = `${import.meta.dirname}/storm/figures.md`;
const PICTURES = `${projectRoot}/.github/pictures`;
const RESULTS = `${projectRoot}/.wrangler/storm`;

const { words: named, save: isSaved } = benchArgs();
const isWhole = named.length === 0;
const startedAt = performance.now();

/** Prints one line of progress, which overwrites the one before on a terminal. */
function progress(what: string): void {
  const line = `${Math.round((performance.now() - startedAt) / 1000)} s  ${what}`.slice(0, 100);
  process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}` : `${line}\n`);
}

function processes(): number {
  const given = process.argv.find((word) => word.startsWith("--processes="))?.split("=")[1];
  return given === undefined ? availableParallelism() : Math.max(1, Math.trunc(Number(given)) || 1);
}

/** Results of modified code are discarded: the next run cannot know what has changed since. */
function resultsFolder(code: string): string {
  const place = `${RESULTS}/${code}`;
  if (code.endsWith("+") && !isHelper) rmSync(place, { recursive: true, force: true });
  return place;
}

function only<Content>(name: string, ...sections: Section<Content>[]): Section<Content>[] {
  return isWhole || named.includes(name) ? sections : [];
}

const policies = only("default-policy", ...policyFigures(SEED));
const shared = only("shared-receiver", sharedReceivers(SEED));
const compared = scenarios.flatMap((scenario) =>
  only(scenario.name, comparisonOf(scenario, contenders, SEED)),
);
const gated = only(
  "presets",
  ...[outageOfAnHour(3_000), quiet, erratic].map((scenario) =>
    comparisonOf(scenario, presetsBehindTheGate, SEED),
  ),
);
const wide = wideDrainOf(WIDE, SEED);
const contended = contention(SEED);

const sections = [...policies, ...shared, ...compared, ...gated, ...(isWhole ? [wide, contended] : [])];
const place = resultsFolder(commit([":/"]));
const played = await playAll(
  sections.flatMap(({ runs }) => runs),
  { place, processes: processes(), progress },
);
const read = <Content>(all: readonly Section<Content>[]) => all.map((one) => one.read(played));

const comparisons = read(compared);
const presets = read(gated);
const [tenants] = read(shared);
const blocks = [
  ...comparisons.flatMap(section),
  ...presets.flatMap(section),
  ...read(policies).flatMap(policySection),
  ...(tenants ? [sharedTable(tenants)] : []),
];
if (tenants && (isWhole || isSaved)) save("shared", { seed: SEED, runs: tenants });
if (tenants && isWhole) {
  const drained = wide.read(played);
  const goals = goalsOf(comparisons, drained);
  const clients = contended.read(played);
  blocks.push(contentionTable(clients), wideText(drained), goalTable(goals));
  const report = { seed: SEED, comparisons, behindTheGate: presets, policies: read(policies), goals };
  writeFileSync(FIGURES, reportOf({ ...report, wide: drained, shared: tenants, contention: clients }));
  mkdirSync(PICTURES, { recursive: true });
  save("storm", resultsOf({ seed: SEED, comparisons, goals }));
  for (const { file, svg } of pictures(comparisons)) writeFileSync(`${PICTURES}/${file}`, svg);
  rmSync(place, { recursive: true });
}
console.log(`\n${blocks.join("\n\n")}`);
