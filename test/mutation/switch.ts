/**
 * Which mutant is active, and which are reached, in the process that runs the tests. The instrumented files
 * (instrument.ts) use it through `globalThis`, so it has to be imported before them.
 */

type Constant = Readonly<{
  evaluate: () => unknown;
  assign: (value: unknown) => void;
  value: unknown;
  /** The mutants that its value depends on, through other constants too. */
  mutants: ReadonlySet<number>;
}>;

/** More rounds of loops, and more places reached, than any test has: a mutant beyond that never ends. */
const MOST_ROUNDS = 3_000_000;
const MOST_PLACES = 20_000_000;

/** No test takes as long: each round may be slow. */
const MOST_MS = 10_000;
/** Reading the clock takes longer than what is counted. */
const COUNTED = 1_024;

/** Tests may put another clock into its place. */
const { now } = Date;

/**
 * The CPU time of this thread, in ms, which does not depend on how busy the machine is. In workerd it is the clock's, which
 * stands still while nothing is awaited.
 */
export function spentMs(): number {
  if (typeof process.threadCpuUsage !== "function") return now();
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

let active = 0;
let begunAt = 0;
let rounds = 0;
let places = 0;
let reached = new Set<number>();
const constants = new Map<string, Constant>();
/** The constants that are being evaluated, the innermost last. */
const evaluating: Set<number>[] = [];

/** Whether a mutant is active; and notes that it has been reached. */
function isActive(id: number): boolean {
  (evaluating.at(-1) ?? reached).add(id);
  if (active !== 0 && isTooMuch(++places, MOST_PLACES)) throw new Error("The recursion has no end.");
  return id === active;
}

/** Notes that a constant is used. */
function use(key: string): void {
  const mutants = constants.get(key)?.mutants;
  if (!mutants) return;
  const into = evaluating.at(-1) ?? reached;
  for (const id of mutants) into.add(id);
}

/** Evaluates a constant so that it can be evaluated again. */
function constant<T>(key: string, evaluate: () => T, assign: (value: T) => void): T {
  const mutants = new Set<number>();
  const value = evaluated(evaluate, mutants);
  constants.set(key, { evaluate, assign, value, mutants } as Constant);
  return value;
}

function evaluated<T>(evaluate: () => T, mutants: Set<number>): T {
  evaluating.push(mutants);
  try {
    return evaluate();
  } finally {
    evaluating.pop();
  }
}

function countRound(): void {
  if (active !== 0 && isTooMuch(++rounds, MOST_ROUNDS)) throw new Error("The loop has no end.");
}

function isTooMuch(count: number, most: number): boolean {
  return count > most || (count % COUNTED === 0 && spentMs() - begunAt > MOST_MS);
}

/**
 * Runs something with a mutant active, 0 for none. Throws when a constant cannot be evaluated with it.
 * @returns the mutants that it has reached
 */
export async function withMutant(id: number, run: () => Promise<void>): Promise<ReadonlySet<number>> {
  const changed = [...constants.values()].filter(({ mutants }) => mutants.has(id));
  reached = new Set();
  rounds = 0;
  places = 0;
  begunAt = spentMs();
  active = id;
  try {
    // In the order of the imports, so that each is made of what the others are now.
    for (const { evaluate, assign } of changed) assign(evaluated(evaluate, new Set()));
    await run();
  } finally {
    active = 0;
    for (const { assign, value } of changed) assign(value);
  }
  return reached;
}

Object.assign(globalThis, { __mutants: { m: isActive, u: use, s: constant, t: countRound } });
