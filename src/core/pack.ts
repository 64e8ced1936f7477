/**
 * Packs: the deliveries of one bundle at one destination that are in a plain state, in one row for all of them. Each
 * is one bit of a mask: delivered at the first attempt; or, without an attempt, waiting, in flight or cancelled. A
 * delivery in any other state has a row of its own.
 *
 * A mask is two integers of 50 bits, because D1's numbers are JavaScript's, which are exact below 2^53.
 */
import { digitsOf, numberAt } from "./digits.ts";

/** The bits of one integer of a mask. */
export const HALF = 50;

/** The bits of the events 0 to 49 of a bundle, and of those from 50 on. */
export type Mask = readonly [low: number, high: number];

/** @param indexes of events of a bundle, each once */
export function maskOf(indexes: Iterable<number>): Mask {
  let low = 0;
  let high = 0;
  for (const index of indexes) {
    if (index < HALF) low += 2 ** index;
    else high += 2 ** (index - HALF);
  }
  return [low, high];
}

/** The indexes whose bits are set, in ascending order. */
export function indexesIn([low, high]: Mask): number[] {
  return [...bitsOf(low, 0), ...bitsOf(high, HALF)];
}

function bitsOf(half: number, from: number): number[] {
  const indexes: number[] = [];
  // By division: bit operations know 32 bits.
  for (let rest = half, index = from; rest > 0; rest = Math.floor(rest / 2), index++)
    if (rest % 2 === 1) indexes.push(index);
  return indexes;
}

/** How a delivery ended, as its pack stores it. */
export type PackedEnd = Readonly<{
  index: number;
  /** When the attempt began, or when the delivery was cancelled. Epoch ms. */
  at: number;
  latencyMs: number;
  /** The receiver's status, 200 to 299; undefined for a cancelled delivery. */
  status: number | undefined;
}>;

/**
 * Ends as text, to be appended to the pack's: how many, the time of the first, and for each its index, how much later
 * it began, how long it took, and its status. About seven characters each.
 */
export function endsText(ends: readonly PackedEnd[]): string {
  if (ends.length === 0) return "";
  const first = Math.min(...ends.map(({ at }) => at));
  const numbers = ends.flatMap(({ index, at, latencyMs, status }) => [
    index,
    at - first,
    latencyMs,
    status === undefined ? 0 : status - 199,
  ]);
  return [ends.length, first, ...numbers].map(digitsOf).join("");
}

/** The ends in a text, in the order in which they were recorded; of a damaged text those that can be read. */
export function endsIn(text: string): PackedEnd[] {
  const numbers = numbersIn(text);
  const ends: PackedEnd[] = [];
  for (let at = 0; at < numbers.length; ) {
    const [count = 0, first = 0] = numbers.slice(at, at + 2);
    at += 2;
    const end = Math.min(at + 4 * count, numbers.length);
    for (; at + 3 < end; at += 4) {
      const [index = 0, later = 0, latencyMs = 0, code = 0] = numbers.slice(at, at + 4);
      ends.push({ index, at: first + later, latencyMs, status: code === 0 ? undefined : code + 199 });
    }
  }
  return ends;
}

function numbersIn(text: string): number[] {
  const numbers: number[] = [];
  for (let at = 0; at < text.length; ) {
    const [number, end] = numberAt(text, at);
    numbers.push(number);
    at = end;
  }
  return numbers;
}
