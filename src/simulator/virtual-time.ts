/**
 * Virtual time: a heap of actions, run in order of time and, at the same time, in order of arrival, and promises that
 * it resolves. Nothing depends on the machine's clock or speed.
 */
import { type Random, seededRandom } from "../core/seeded-random.ts";
import { BEGINNING } from "./scenario.ts";

export type VirtualTime = Readonly<{
  /** Epoch milliseconds, whole. */
  now: () => number;
  after: (ms: number, action: () => void) => void;
  at: (time: number, action: () => void) => void;
  random: Random;
  /** When the next action is due; undefined when none is left. */
  nextAt: () => number | undefined;
  /** Resolves after the given milliseconds. */
  sleep: (ms: number) => Promise<void>;
  /** A promise that actions of the simulation resolve. */
  deferred: <T>() => Deferred<T>;
  /**
   * Runs the next action. Returns whether it has made or resolved a promise of this time: then code that awaits has to
   * continue before the next action (`promisesSettled`).
   */
  step: () => boolean;
}>;

type Deferred<T> = Readonly<{ promise: Promise<T>; resolve: (value: T) => void }>;

type Entry = Readonly<{ time: number; order: number; action: () => void }>;

export function virtualTime(seed: number): VirtualTime {
  const heap: Entry[] = [];
  let now = BEGINNING;
  let order = 0;
  let hasPromised = false;

  function at(time: number, action: () => void): void {
    // An action with such a time would never run, and neither would later ones.
    if (Number.isNaN(time)) throw new RangeError("The time of an action must be a number");
    order += 1;
    push(heap, { time: Math.max(now, Math.ceil(time)), order, action });
  }

  function step(): boolean {
    const entry = heap[0];
    if (!entry) return false;
    now = entry.time;
    hasPromised = false;
    pop(heap);
    entry.action();
    return hasPromised;
  }

  function deferred<T>(): Deferred<T> {
    const { promise, resolve } = Promise.withResolvers<T>();
    hasPromised = true;
    return {
      promise,
      resolve: (value) => {
        hasPromised = true;
        resolve(value);
      },
    };
  }

  function sleep(ms: number): Promise<void> {
    const { promise, resolve } = deferred<void>();
    after(ms, resolve);
    return promise;
  }

  const after = (ms: number, action: () => void) => at(now + ms, action);
  const nextAt = () => heap[0]?.time;
  return { now: () => now, at, after, random: seededRandom(seed), nextAt, sleep, deferred, step };
}

/** Awaits that one action may lead to, one after the other: twice as many as the lease runner and its sender have. */
const ROUNDS = 10;

/** Lets code continue that awaits nothing but promises of virtual time, and everything that follows from these. */
export async function promisesSettled(): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) await undefined;
}

function isBefore(a: Entry, b: Entry): boolean {
  return a.time < b.time || (a.time === b.time && a.order < b.order);
}

function push(heap: Entry[], entry: Entry): void {
  let hole = heap.length;
  while (hole > 0) {
    const parent = heap[(hole - 1) >> 1];
    if (!parent || isBefore(parent, entry)) break;
    heap[hole] = parent;
    hole = (hole - 1) >> 1;
  }
  heap[hole] = entry;
}

function pop(heap: Entry[]): void {
  const last = heap.pop();
  if (!last || heap.length === 0) return;
  let hole = 0;
  for (let child = sooner(heap, hole); ; child = sooner(heap, hole)) {
    const entry = heap[child];
    if (!entry || isBefore(last, entry)) break;
    heap[hole] = entry;
    hole = child;
  }
  heap[hole] = last;
}

/** The child of `hole` that comes first; beyond the heap when it has none. */
function sooner(heap: readonly Entry[], hole: number): number {
  const left = heap[2 * hole + 1];
  const right = heap[2 * hole + 2];
  return left && right && isBefore(right, left) ? 2 * hole + 2 : 2 * hole + 1;
}
