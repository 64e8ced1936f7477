/**
 * Virtual time: a heap of actions, run in order of time and, at the same time, in order of arrival. Nothing
 * depends on the machine's clock or speed.
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
  /** Moves on to the next moment and runs all that is due then. Returns how many actions that were. */
  step: () => number;
}>;

type Entry = Readonly<{ time: number; order: number; action: () => void }>;

export function virtualTime(seed: number): VirtualTime {
  const heap: Entry[] = [];
  let now = BEGINNING;
  let order = 0;

  function at(time: number, action: () => void): void {
    // It would never come, and what comes after it neither.
    if (Number.isNaN(time)) throw new RangeError("The time of an action must be a number");
    order += 1;
    push(heap, { time: Math.max(now, Math.ceil(time)), order, action });
  }

  function step(): number {
    now = heap[0]?.time ?? now;
    let run = 0;
    for (let entry = heap[0]; entry && entry.time === now; entry = heap[0]) {
      pop(heap);
      entry.action();
      run += 1;
    }
    return run;
  }

  const after = (ms: number, action: () => void) => at(now + ms, action);
  return { now: () => now, at, after, random: seededRandom(seed), nextAt: () => heap[0]?.time, step };
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
