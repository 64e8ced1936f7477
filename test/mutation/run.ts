/**
 * The mutation run: which of the mutants of src/core, src/ingest, src/delivery and src/store the tests of the fast
 * lanes kill. It can be stopped at any time; the next call continues it.
 *
 *   npm run test:mutation -- --folder core --sample 0.2 --seed 1
 */
import { readFileSync } from "node:fs";
import { relative } from "node:path";
import { parseArgs } from "node:util";
import { createVitest, type TestProject, type TestSpecification, type Vitest } from "vitest/node";
import { explainedIn } from "./explained.ts";
import type { Assignment } from "./in-tests.ts";
import { FOLDERS, type Mutant, mutantsAt, newMutants, planned, ROOT } from "./plan.ts";
import { printed } from "./report.ts";
import { digestOf, keysOf, Results } from "./results.ts";
import { NONE } from "./rounds.ts";

/**
 * Mutants that quick tests kill cost little, so these tests come first, and a mutant has to survive fewer of those that
 * take longer. A test that is still slower tries nothing.
 */
const PASSES = [
  { pass: "instant", mostMs: 50, tries: 3_000 },
  { pass: "quick", mostMs: 400, tries: 100 },
  { pass: "slow", mostMs: 4_000, tries: 10 },
] as const;

const HELP = `Usage: npm run test:mutation -- [options]
  --folder <names>   of src, with commas between: ${FOLDERS.join(",")} (all)
  --file <texts>     only mutants of files whose paths have one of these in them
  --since <commit>   only mutants that the sources of this commit do not have
  --sample <share>   of the mutants, 0 to 1 (1)
  --seed <number>    of the sample (1)
  --project <name>   only tests of this Vitest project: pure or workers (both)
  --tests <texts>    only files of tests whose paths have one of these in them, also those that are done
  --pass <name>      only tests that are so fast: ${PASSES.map(({ pass }) => pass).join(", ")} (all in turn)
  --tries <number>   tests of one file that a mutant has to survive at most (3,000 instant, 100 quick, 10 slow ones)
  --most <number>    tests of all files that a mutant has to survive at most (any number)
  --report           runs nothing, prints what has been found
  --survivors        prints every survivor that is not explained
  --results <path>   (coverage/mutation.json)`;

const { values: given } = parseArgs({
  options: {
    folder: { type: "string", default: FOLDERS.join(",") },
    file: { type: "string", default: "" },
    since: { type: "string" },
    sample: { type: "string", default: "1" },
    seed: { type: "string", default: "1" },
    project: { type: "string" },
    tests: { type: "string" },
    pass: { type: "string" },
    tries: { type: "string" },
    most: { type: "string", default: "Infinity" },
    report: { type: "boolean", default: false },
    survivors: { type: "boolean", default: false },
    results: { type: "string", default: `${ROOT}coverage/mutation.json` },
    help: { type: "boolean", default: false },
  },
});

/** One run of a file, and how long it may take beyond it before it counts as hung. */
const BUDGET_MS = 180_000;
const GRACE_MS = 120_000;
const MOST_RUNS = 400;

const plan = planned();
const keys = keysOf(plan.mutants);
const sources = Object.fromEntries(
  [...plan.files.values()]
    .filter(({ sites }) => sites.length > 0)
    .map((one) => [one.file, digestOf(one.source)]),
);
const results = new Results(given.results, plan.mutants, sources);
const explained = explainedIn(plan.mutants);
const chosen = (
  given.since === undefined ? plan.mutants : newMutants(plan.mutants, mutantsAt(given.since))
).filter(isChosen);

function isChosen({ id, file }: Mutant): boolean {
  const [, folder = ""] = file.split("/");
  if (!given.folder.split(",").includes(folder) || !given.file.split(",").some((text) => file.includes(text)))
    return false;
  return (
    Number.parseInt(digestOf(`${given.seed} ${keys.get(id)}`).slice(0, 8), 16) / 2 ** 32 <
    Number(given.sample)
  );
}

/** The mutants that the files of tests have been run for. */
const SAMPLE = `${given.folder} ${given.file} ${given.since} ${given.sample} ${given.seed}\n`;

/** The files of tests, those first that are quick or near to the code. */
const ORDER = [
  /^test\/core\//,
  /\.node\.test/,
  /^test\/db\//,
  /^test\/ingest\//,
  /^test\/delivery\//,
  /^test\/(sharded|replay|maintenance|gate|secrets)\//,
  /^test\/[^/]*$/,
  /^test\/api\//,
];

function placeOf(file: string): number {
  const place = ORDER.findIndex((pattern) => pattern.test(file));
  return place < 0 ? ORDER.length : place;
}

async function run(): Promise<void> {
  const vitest = await createVitest("test", {
    config: `${ROOT}test/mutation/vitest.config.ts`,
    root: ROOT,
    watch: false,
    reporters: [{}],
    silent: true,
    fileParallelism: false,
    project: given.project === undefined ? ["pure", "workers", "three databases"] : [given.project],
  });
  await vitest.standalone();
  const specs = (await vitest.globTestSpecifications(given.tests?.split(",")))
    .map((spec) => ({ spec, file: relative(ROOT, spec.moduleId) }))
    .filter(({ file }) => !file.startsWith("test/mutation/"))
    .sort((a, b) => placeOf(a.file) - placeOf(b.file) || a.file.localeCompare(b.file));
  const passes = PASSES.filter(({ pass }) => pass === (given.pass ?? pass)).flatMap((pass) =>
    specs.map((one) => ({ ...one, ...pass })),
  );
  const begunAt = Date.now();
  let ran = 0;
  for (const [i, { spec, file, pass, mostMs, tries }] of passes.entries()) {
    const name = `${spec.project.name}: ${file}`;
    const digest = digestOf(`${SAMPLE}${readFileSync(spec.moduleId, "utf8")}`);
    const done = `${name} (${pass})`;
    if (given.tests === undefined && results.isDone(done, digest)) continue;
    if (!chosen.some(isWanted)) break;
    const from = Date.now();
    const killed = await tested(vitest, spec, name, { mostMs, tries }, () => results.hang(done, digest));
    results.finish(done, digest);
    ran++;
    const left = ((Date.now() - begunAt) / ran) * (passes.length - i - 1);
    const alive = chosen.filter(({ id }) => results.killer(id) === undefined).length;
    console.log(
      `${i + 1}/${passes.length} ${done}: ${killed} killed in ${seconds(Date.now() - from)}, ${alive} left; about ${Math.ceil(left / 60_000)} min`,
    );
  }
  await vitest.close();
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

/** The tests of each file that need not repeat the mutants of an earlier pass. */
const triedTests = new Map<string, ReadonlySet<string>>();

/** Tries all mutants in a file of tests, started again as often as necessary. Returns how many it has killed. */
async function tested(
  vitest: Vitest,
  spec: TestSpecification,
  name: string,
  { mostMs, tries: usual }: Readonly<{ mostMs: number; tries: number }>,
  onHang: () => void,
): Promise<number> {
  const done = new Set(triedTests.get(name));
  const tried: Record<string, number[]> = {};
  const first: Record<string, number> = {};
  const tries = new Map<number, number>();
  const mostTries = Number(given.tries ?? usual);
  let killed = 0;
  for (let runs = 0; runs < MOST_RUNS; runs++) {
    const alive = chosen.filter(isWanted).map(({ id }) => [id, mostTries - (tries.get(id) ?? 0)] as const);
    const assignment = { alive, done: [...done], tried, first, mostMs, budgetMs: BUDGET_MS };
    const reports = await reportsOf(vitest, spec, assignment, onHang);
    for (const { id, name: test, state, ...found } of reports) {
      for (const one of found.killed)
        results.kill(one, `${name} > ${test}: ${found.errors[one] ?? "cannot be evaluated"}`);
      for (const one of found.survived) {
        results.survive(one);
        tries.set(one, (tries.get(one) ?? 0) + 1);
      }
      killed += found.killed.length;
      tried[id] = [...(tried[id] ?? []), ...found.killed, ...found.survived];
      if (found.first !== undefined) first[id] = found.first;
      if (!["late", "afresh"].includes(state)) done.add(id);
      if (state === "done") triedTests.set(name, new Set(triedTests.get(name)).add(id));
      if (["broken", "unrepeatable"].includes(state))
        console.log(`  ${state}: ${test}: ${found.errors[NONE]}`);
    }
    results.save();
    if (reports.every(({ state }) => ["done", "slow", "broken"].includes(state))) break;
  }
  return killed;
}

function isWanted({ id }: Mutant): boolean {
  return results.killer(id) === undefined && !explained.has(id) && results.survived(id) < Number(given.most);
}

async function reportsOf(
  vitest: Vitest,
  spec: TestSpecification,
  assignment: Assignment,
  onHang: () => void,
) {
  (spec.project as TestProject).provide("mutation", assignment);
  const watchdog = setTimeout(() => {
    onHang();
    console.error(`${relative(ROOT, spec.moduleId)} does not end. The next call continues without it.`);
    process.exit(75);
  }, BUDGET_MS + GRACE_MS);
  const { testModules: all } = await vitest.runTestSpecifications([spec]);
  clearTimeout(watchdog);
  // The mutants of earlier runs are among them.
  const testModules = all.filter(
    ({ moduleId, project }) => moduleId === spec.moduleId && project === spec.project,
  );
  const errors = testModules.flatMap((module) => module.errors());
  for (const { message } of errors)
    console.log(`  ${relative(ROOT, spec.moduleId)}: ${message.slice(0, 300)}`);
  return testModules.flatMap((module) => module.meta().mutation ?? []);
}

if (given.help) console.log(HELP);
else {
  if (!given.report) await run();
  console.log(printed({ mutants: chosen, results, explained, lists: given.survivors }));
  process.exit(0);
}
