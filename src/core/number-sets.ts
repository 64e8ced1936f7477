/**
 * Sets of whole numbers as short texts, for the deliveries of leases. A busy gate's state has tens of thousands of them
 * and is copied with every call, while a lookup is rare. Numbers that are close together, as those that drains lease at
 * the same time, take one character each; a run of neighbours, as the events of a bundle, takes a few characters at any
 * length.
 *
 * The numbers are sorted, and each is written as its distance from the one before. After it, a mark and another number
 * say how many follow it directly.
 */
import { runsOf } from "./bundle.ts";
import { digitsOf, numberAt } from "./digits.ts";

export type PackedNumbers = string;

const RUN_MARK = ".";
/** A shorter run takes no more characters when its numbers are written one by one. */
const SHORTEST_RUN = 4;

const MARK_CODE = RUN_MARK.charCodeAt(0);

/** @param numbers whole, not negative, in any order */
export function packNumbers(numbers: readonly number[]): PackedNumbers {
  const runs = runsOf(numbers.toSorted((a, b) => a - b));
  let text = "";
  let last = 0;
  for (let i = 0; i < runs.length; i += 2) {
    const [first = 0, end = 0] = runs.slice(i, i + 2);
    text += digitsOf(first - last);
    const following = end - first;
    text += following + 1 < SHORTEST_RUN ? "B".repeat(following) : RUN_MARK + digitsOf(following);
    last = end;
  }
  return text;
}

/** In ascending order. */
export function unpackNumbers(text: PackedNumbers): number[] {
  const numbers: number[] = [];
  eachRun(text, (first, last) => {
    for (let number = first; number <= last; number++) numbers.push(number);
  });
  return numbers;
}

/** Which of these numbers, in ascending order, are in the set. */
export function sharedWith(sorted: readonly number[], text: PackedNumbers): readonly number[] {
  const shared: number[] = [];
  eachRun(text, (first, last) => {
    for (let i = placeOf(sorted, first); i < sorted.length; i++) {
      const number = sorted[i] ?? 0;
      if (number > last) break;
      shared.push(number);
    }
  });
  return shared;
}

/** Calls `visit` for each run, in ascending order. Neighbours may be in several runs. */
function eachRun(text: PackedNumbers, visit: (first: number, last: number) => void): void {
  let last = 0;
  for (let at = 0; at < text.length; ) {
    const [distance, next] = numberAt(text, at);
    const first = last + distance;
    const isRun = text.charCodeAt(next) === MARK_CODE;
    const [following, end] = isRun ? numberAt(text, next + 1) : [0, next];
    last = first + following;
    visit(first, last);
    at = end;
  }
}

/** How many of the sorted numbers are less than `number`. */
function placeOf(sorted: readonly number[], number: number): number {
  let from = 0;
  let to = sorted.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((sorted[middle] ?? number) < number) from = middle + 1;
    else to = middle;
  }
  return from;
}
