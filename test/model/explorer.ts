/**
 * An explicit-state model checker: from one state it takes every step that may come next, breadth first, until it has
 * seen every state or one in which something is broken. So a counter-example is as short as any.
 *
 * It also checks that nothing starves: from every state, steps that are no faults lead to a state in which everything
 * is at its end. If the bounds of the model cut such steps off, the world continues as a calm one, in which nothing
 * fails any more and which has no bounds.
 */
import { hash } from "node:crypto";

export type Step<State> = Readonly<{
  /** The step, as a sentence. */
  says: string;
  to: State;
  /** Nothing may rely on it. */
  isFault?: true;
}>;

/** As they are gathered. */
export type Steps<State> = Step<State>[];

/** Nothing is added where a step is not possible. */
export type Adder<State> = (says: string, to: State | undefined, isFault?: boolean) => void;

export function adderTo<State>(steps: Steps<State>, areFaults = false): Adder<State> {
  return (says, to, isFault = areFaults) => {
    if (to) steps.push({ says, to, ...(isFault && { isFault }) });
  };
}

export type Model<State> = Readonly<{
  initial: State;
  /** Everything that may happen next; nothing at the bounds of the model. */
  steps: (state: State) => readonly Step<State>[] | Promise<readonly Step<State>[]>;
  /** The fault of this state, as a sentence; undefined when there is none. */
  broken: (state: State) => string | undefined;
  /** States with the same key have the same future. */
  keyOf: (state: State) => string;
  /** The same state in a calm world. */
  calmed: (state: State) => State;
  /** The next step of a calm world; undefined when everything is at its end. */
  calm: (state: State) => Step<State> | undefined | Promise<Step<State> | undefined>;
}>;

export type CounterExample = Readonly<{ what: string; steps: readonly string[] }>;

export type Exploration = Readonly<{
  states: number;
  /** Steps taken, also those to states seen before. */
  transitions: number;
  /** Steps on the longest of the shortest paths to a state. */
  depth: number;
  counterExample: CounterExample | undefined;
}>;

const MOST_STATES = 5_000_000;
/** A calm world that takes longer than this never ends. */
const CALM_STEPS = 1_000;

export async function explore<State>(model: Model<State>): Promise<Exploration> {
  const { initial, steps, broken, keyOf } = model;
  const numbers = new Map([[digest(keyOf(initial)), 0]]);
  const graph = new Graph();
  const endsWell = calmChecker(model);
  let transitions = 0;
  let depth = 0;

  function result(counterExample?: CounterExample): Exploration {
    return { states: numbers.size, transitions, depth, counterExample };
  }

  let level: (readonly [State, number])[] = [[initial, 0]];
  while (level.length > 0) {
    const next: (readonly [State, number])[] = [];
    for (const [state, at] of level) {
      const taken = await steps(state);
      for (const { says, to, isFault } of taken) {
        transitions += 1;
        const key = digest(keyOf(to));
        const known = numbers.get(key);
        if (!isFault) graph.link(at, known ?? numbers.size);
        if (known !== undefined) continue;
        numbers.set(key, graph.add(at, says));
        const what = broken(to);
        if (what) return result({ what, steps: graph.wayTo(numbers.size - 1) });
        next.push([to, numbers.size - 1]);
      }
      if (taken.some(({ isFault }) => !isFault)) continue;
      const starving = await endsWell(state);
      if (starving) return result({ ...starving, steps: [...graph.wayTo(at), ...starving.steps] });
      graph.markEnd(at);
    }
    if (next.length > 0) depth += 1;
    if (numbers.size > MOST_STATES) throw new Error(`The model has more than ${MOST_STATES} states`);
    level = next;
  }
  const starving = graph.withoutEnd();
  if (starving === undefined) return result();
  return result({ what: "From here on no step leads to the end.", steps: graph.wayTo(starving) });
}

/** The states by number, how each was reached first, and which lead to which without a fault. */
class Graph {
  readonly #said: string[] = [""];
  readonly #parents: number[] = [-1];
  readonly #links: (readonly [from: number, to: number])[] = [];
  readonly #ends: number[] = [];

  /** The number of the new state. */
  add(parent: number, says: string): number {
    this.#said.push(says);
    this.#parents.push(parent);
    return this.#parents.length - 1;
  }

  link(from: number, to: number): void {
    this.#links.push([from, to]);
  }

  /** From this state the end has been reached. */
  markEnd(at: number): void {
    this.#ends.push(at);
  }

  wayTo(at: number): string[] {
    const way: string[] = [];
    for (let one = at; one > 0; one = this.#parents[one] ?? -1) way.push(this.#said[one] ?? "");
    return way.reverse();
  }

  /** The first state from which no end is reached. */
  withoutEnd(): number | undefined {
    const before = Map.groupBy(this.#links, ([, to]) => to);
    const reached = new Set(this.#ends);
    const open = [...this.#ends];
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      for (const [from] of before.get(at) ?? []) {
        if (reached.has(from)) continue;
        reached.add(from);
        open.push(from);
      }
    }
    const at = this.#parents.findIndex((_, i) => !reached.has(i));
    return at < 0 ? undefined : at;
  }
}

/** Returns a counter-example if the calm world that continues from a state does not reach its end. */
function calmChecker<State>({ calmed, calm, keyOf, broken }: Model<State>) {
  const known = new Set<string>();

  return async function check(from: State): Promise<CounterExample | undefined> {
    const passed = new Set<string>();
    const steps = ["From here on nothing goes wrong any more."];
    let state = calmed(from);
    for (;;) {
      const key = digest(keyOf(state));
      if (known.has(key)) break;
      if (passed.has(key)) return { what: "This has happened before: it never ends.", steps };
      passed.add(key);
      if (passed.size > CALM_STEPS) return { what: "And so on: it never ends.", steps: steps.slice(0, 30) };
      const next = await calm(state);
      if (!next) break;
      steps.push(next.says);
      state = next.to;
      const what = broken(state);
      if (what) return { what, steps };
    }
    for (const key of passed) known.add(key);
    return undefined;
  };
}

/** Keys are many, and some of them long. */
function digest(key: string): string {
  return key.length <= 200 ? key : hash("sha1", key, "base64");
}
