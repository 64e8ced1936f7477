/**
 * The storm benchmark: `npm run bench:storm`. Every sender in every scenario, in virtual time, from one seed.
 * Prints the tables and writes figures.md beside the code, and for docs/benchmarks.md the pictures and the results.
 *
 * `npm run bench:storm -- outage-1h slow` runs only the scenarios named and writes nothing; `default-policy`
 * stands for what the default policy is chosen by, which takes longest, and `shared-receiver` for a host that many
 * tenants share, which is saved with `--save`.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { benchArgs, type SharedResults, save } from "./results.ts";
import { type Contention, contend } from "./storm/aws.ts";
import { type Comparison, compare } from "./storm/compare.ts";
import { behindTheGate, contenders } from "./storm/contenders.ts";
import { type PolicyFigures, policyFigures, policySection } from "./storm/default-policy.ts";
import { goalsOf } from "./storm/goals.ts";
import { pictures } from "./storm/pictures.ts";
import {
  contentionTable,
  goalTable,
  reportOf,
  resultsOf,
  section,
  sharedTable,
  wideText,
} from "./storm/report.ts";
import { erratic, outageOfAnHour, quiet, scenarios } from "./storm/scenarios.ts";
import { sharedReceiver } from "./storm/shared-receiver.ts";
import { wideDrain } from "./storm/wide-drain.ts";

const SEED = 1;
const WIDE = 20_000;
/** Tenants of the shared host, and events of each in the hour. */
const MANY = [1_000, 20] as const;
const SOME = [100, 100] as const;
const FIGURES = `${import.meta.dirname}/storm/figures.md`;
const PICTURES = `${import.meta.dirname}/../.github/pictures`;

const { words: named, save: isSaved } = benchArgs();
const startedAt = performance.now();

/** Overwrites itself on a terminal; elsewhere it stays silent. */
function progress(what: string): void {
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${seconds} s  ${what}`);
}

function show(...blocks: readonly string[]): void {
  if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
  for (const block of blocks) console.log(`${block}\n`);
}

async function compareAll(): Promise<Comparison[]> {
  const comparisons: Comparison[] = [];
  for (const scenario of scenarios) {
    if (named.length > 0 && !named.includes(scenario.name)) continue;
    const comparison = await compare(scenario, contenders, SEED, progress);
    comparisons.push(comparison);
    show(...section(comparison));
  }
  return comparisons;
}

async function presetsBehindTheGate(): Promise<Comparison[]> {
  const hour = await compare(outageOfAnHour(3_000), behindTheGate, SEED, progress);
  const long = await compare(quiet, behindTheGate, SEED, progress);
  const uncertain = await compare(erratic, behindTheGate, SEED, progress);
  show("# Presets behind the gate", ...section(hour), ...section(long), ...section(uncertain));
  return [hour, long, uncertain];
}

async function comparePolicies(): Promise<PolicyFigures[]> {
  const all: PolicyFigures[] = [];
  for await (const one of policyFigures(SEED, progress)) {
    all.push(one);
    show(...policySection(one));
  }
  return all;
}

async function contendAll(): Promise<Contention[]> {
  const all: Contention[] = [];
  for (const clients of [20, 100]) {
    for (const jitter of ["none", "equal", "full", "decorrelated"] as const) {
      progress(`${clients} clients contend with ${jitter}`);
      all.push(await contend(clients, jitter, SEED));
    }
  }
  show(contentionTable(all));
  return all;
}

async function shareReceiver(): Promise<SharedResults["runs"]> {
  const runs: SharedResults["runs"][number][] = [];
  for (const [title, [tenants, each], isGrouped] of [
    ["1,000 tenants in a group", MANY, true],
    ["1,000 without", MANY, false],
    ["100 in a group", SOME, true],
    ["100 without", SOME, false],
  ] as const) {
    progress(`a shared host: ${title}`);
    runs.push({ name: title, isGrouped, ...(await sharedReceiver(tenants, each, isGrouped, SEED)) });
  }
  show("# One host of many tenants", sharedTable(runs));
  if (isSaved || named.length === 0) save("shared", { seed: SEED, runs });
  return runs;
}

const comparisons = await compareAll();
if (named.includes("default-policy")) {
  await comparePolicies();
}
if (named.includes("shared-receiver")) await shareReceiver();
if (named.length === 0) {
  const presets = await presetsBehindTheGate();
  const policies = await comparePolicies();
  const contention = await contendAll();
  const wide = await wideDrain(WIDE, SEED);
  const shared = await shareReceiver();
  const goals = goalsOf(comparisons, wide);
  show(wideText(wide), goalTable(goals));
  writeFileSync(
    FIGURES,
    reportOf({ seed: SEED, comparisons, behindTheGate: presets, policies, goals, wide, shared, contention }),
  );
  mkdirSync(PICTURES, { recursive: true });
  save("storm", resultsOf({ seed: SEED, comparisons, goals }));
  for (const { file, svg } of pictures(comparisons)) writeFileSync(`${PICTURES}/${file}`, svg);
}
