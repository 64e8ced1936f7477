/**
 * Virtual time: a heap of actions, run in order of time and, at the same time, in order of arrival.
 *
 * Code that awaits runs in it too, as long as it awaits nothing but this engine's promises: after every
 * moment in which one was resolved, the real event loop turns once, so that all that follows from it has
 * happened before time moves on. Nothing depends on the machine's clock or speed.
 */
import { type Random, seededRandom } from "./random.ts";

export type Deferred<T> = Readonly<{ promise: Promise<T>; resolve: (value: T) => void }>;

export type Engine = Readonly<{
  /** Epoch milliseconds, whole. */
  now: () => number;
  after: (ms: number, action: () => void) => void;
  at: (time: number, action: () => void) => void;
  sleep: (ms: number) => Promise<void>;
  deferred: <T>() => Deferred<T>;
  random: Random;
  /** Runs until `done`, until nothing is left to do, or until `horizonAt`. */
  run: (done: () => boolean, horizonAt: number) => Promise<void>;
}>;

type Entry = Readonly<{ time: number; order: number; action: () => void }>;

/** When every simulation begins: 1 January 2026, so that no time is 0. */
export const BEGINNING = Date.UTC(2026, 0, 1);

export function createEngine(seed: number): Engine {
  const heap: Entry[] = [];
  let now = BEGINNING;
  let order = 0;
  let resolved = false;

  function at(time: number, action: () => void): void {
    order += 1;
    push(heap, { time: Math.max(now, Math.ceil(time)), order, action });
  }

  function deferred<T>(): Deferred<T> {
    const { promise, resolve } = Promise.withResolvers<T>();
    const resolveHere = (value: T) => {
      resolved = true;
      resolve(value);
    };
    return { promise, resolve: resolveHere };
  }

  function sleep(ms: number): Promise<void> {
    const { promise, resolve } = deferred<void>();
    at(now + ms, resolve);
    return promise;
  }

  async function run(done: () => boolean, horizonAt: number): Promise<void> {
    while (!done()) {
      const next = heap[0];
      if (!next || next.time > horizonAt) return;
      now = next.time;
      for (let entry = heap[0]; entry && entry.time === now; entry = heap[0]) {
        pop(heap);
        entry.action();
      }
      if (resolved) await settled();
      resolved = false;
    }
  }

  const after = (ms: number, action: () => void) => at(now + ms, action);
  return { now: () => now, at, after, sleep, deferred, random: seededRandom(seed), run };
}

/** Every promise that could go on has gone on. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
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
