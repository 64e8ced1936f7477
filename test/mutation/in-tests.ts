/**
 * Runs each test of a file once for every mutant that it reaches and that no other test has killed, inside of the test
 * process: a setup file. run.ts says which mutants are alive, and reads the file's `meta`.
 */
import fc from "fast-check";
import { afterAll, aroundEach, beforeAll, inject, type RunnerTestCase, type RunnerTestSuite } from "vitest";
import { NONE, Rounds, type TestReport } from "./rounds.ts";
import { spentMs, withMutant } from "./switch.ts";

export type Assignment = Readonly<{
  /** The mutants to try, and in how many further tests at most. */
  alive: ReadonlyArray<readonly [id: number, tries: number]>;
  /** Tests that are done, by id: they run once. */
  done: readonly string[];
  /** The mutants that a test has tried before the file was started again, and the one that it begins with. */
  tried: Readonly<Record<string, readonly number[]>>;
  first: Readonly<Record<string, number>>;
  /** A test that takes longer tries nothing in this run. */
  mostMs: number;
  /** After so many milliseconds the rest is left to another run. */
  budgetMs: number;
}>;

declare module "vitest" {
  interface ProvidedContext {
    mutation: Assignment;
  }
  interface TaskMeta {
    mutation?: TestReport[];
  }
}

/** Until the result says that it is over. */
const FOREVER = 1_000_000_000;

// A failed property is not shrunk: its failure is sufficient.
fc.configureGlobal({ endOnFailure: true });

const { alive, done, tried, first, mostMs, budgetMs } = inject("mutation");
const tries = new Map(alive);
/** Tests may put another clock into its place. */
const { now } = Date;
let begunAt = 0;
const byTest = new Map<RunnerTestCase, Rounds>();
const warm = new Set<Rounds>();
let isStopped = false;
let isFresh = true;

// biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from it.
beforeAll(({}, file) => {
  begunAt = now();
  for (const test of testsIn(file as RunnerTestSuite))
    if (!done.includes(test.id) && !test.fails) test.repeats = FOREVER;
});

// biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from it.
afterAll(({}, file) => {
  file.meta.mutation = [...byTest.values()].map(({ report }) => report);
});

aroundEach(async (runTest, { task }) => {
  if (isStopped) return over(task);
  if (task.repeats !== FOREVER) return runTest();
  const rounds = byTest.get(task) ?? newRounds(task);
  byTest.set(task, rounds);
  const mutant = rounds.next((id) => (tries.get(id) ?? 0) > 0);
  const from = spentMs();
  const reached = await withMutant(mutant, runTest).catch(async () => {
    await runTest();
    return undefined;
  });
  const hasFailed = reached === undefined || task.result?.state === "fail";
  const isSlow = mutant === NONE && takesTooLong(rounds, spentMs() - from);
  if (mutant !== NONE) {
    isFresh = false;
    tries.set(mutant, hasFailed ? 0 : (tries.get(mutant) ?? 0) - 1);
  }
  const error = task.result?.errors?.[0]?.message;
  if (error !== undefined) rounds.report.errors[mutant] = error.slice(0, 300);
  const goesOn = rounds.after(hasFailed, reached ?? new Set());
  if (isSlow && goesOn) rounds.report.state = "slow";
  if (rounds.report.state === "afresh" || now() - begunAt > budgetMs) isStopped = true;
  if (task.result) Object.assign(task.result, { state: "run", errors: undefined });
  if (!goesOn || isSlow || isStopped) over(task);
});

/** The first time, a test may take longer, because its modules are compiled. */
function takesTooLong(rounds: Rounds, tookMs: number): boolean {
  if (warm.has(rounds)) return tookMs > mostMs;
  warm.add(rounds);
  return tookMs > 4 * mostMs;
}

function newRounds(test: RunnerTestCase): Rounds {
  const before = new Set(tried[test.id]);
  const begin = first[test.id];
  const untried = (reached: ReadonlySet<number>) => [
    ...[...reached].filter((id) => (tries.get(id) ?? 0) > 0 && !before.has(id) && id !== begin),
    ...(begin === undefined ? [] : [begin]),
  ];
  const name = test.suite && test.suite !== test.file ? `${test.suite.name} ${test.name}` : test.name;
  return new Rounds(test.id, name, untried, isFresh);
}

function testsIn(suite: RunnerTestSuite): RunnerTestCase[] {
  return suite.tasks.flatMap((task) => (task.type === "suite" ? testsIn(task) : [task]));
}

/** Vitest no longer repeats a test that skips itself. */
function over({ result }: RunnerTestCase): void {
  if (result) Object.assign(result, { pending: true });
}
