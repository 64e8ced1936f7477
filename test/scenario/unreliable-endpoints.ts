/**
 * Customers' endpoints: one always works; the others fail, answer 429 or hang for a few seconds, recover, and fail
 * again, at times that follow from the seed.
 */

import { seededRandom } from "../../src/core/seeded-random.ts";
import type { Reply } from "../../tools/receiver.ts";

/** The answers of each endpoint while it is failing, by path. */
const failures = {
  "/steady": undefined,
  "/fails": { status: 500 },
  "/busy": { status: 429, headers: { "retry-after": "1" } },
  // Longer than any attempt may take: the sender will have closed the connection.
  "/hangs": { status: 504, afterMs: 3_000 },
} satisfies Record<string, Reply | undefined>;

export const paths = Object.keys(failures) as readonly (keyof typeof failures)[];

/** The longest times of working and of failing. */
export type FailingTimes = Readonly<{ workingMs: number; failingMs: number }>;

const TIMES: FailingTimes = { workingMs: 8_000, failingMs: 6_000 };
/** The time of an answer, so that something is in flight when the stack is killed. */
const ANSWER_MS = 20;

/** How many requests of each endpoint fail first: a kill may lose the answers of the very first ones. */
const FAILED_FIRST = 20;

export type Endpoints = Readonly<{
  answer: (path: string, at: number) => Reply;
  /** From now on all work. */
  recover: () => void;
}>;

export function endpoints(seed: number, failedFirst = FAILED_FIRST): Endpoints {
  const schedules = new Map(
    paths.map((path, i) => [path as string, failingTimes(seededRandom(seed * 31 + i), TIMES)]),
  );
  const requests = new Map<string, number>();
  let recovered = false;
  function answer(path: string, at: number): Reply {
    const count = (requests.get(path) ?? 0) + 1;
    requests.set(path, count);
    const isFailing = !recovered && (schedules.get(path)?.(at) || count <= failedFirst);
    const failure = failures[path as keyof typeof failures];
    return isFailing && failure ? failure : { status: 200, afterMs: ANSWER_MS };
  }
  return {
    answer,
    recover: () => {
      recovered = true;
    },
  };
}

/** Whether an endpoint fails at a time. It begins failing, so that something fails however short the test is. */
export function failingTimes(
  random: () => number,
  { workingMs, failingMs }: FailingTimes,
): (at: number) => boolean {
  let isFailing = true;
  let until: number | undefined;
  return (at) => {
    until ??= at + random() * failingMs;
    while (until <= at) {
      isFailing = !isFailing;
      until += random() * (isFailing ? failingMs : workingMs);
    }
    return isFailing;
  };
}
