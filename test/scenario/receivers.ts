/**
 * Customers' endpoints with bad days: one is always well, the others fail, ask for quiet or hang for a few
 * seconds, recover, and fall ill again. When and for how long follows from the seed.
 */
import type { Reply } from "../../src/local/receiver.ts";
import { seededRandom } from "../../src/local/seeded-random.ts";

/** What each endpoint answers while it is ill; by its path. */
const illnesses = {
  "/steady": undefined,
  "/fails": { status: 500 },
  "/busy": { status: 429, headers: { "retry-after": "1" } },
  // Longer than any attempt may take: the sender will have hung up.
  "/hangs": { status: 504, afterMs: 3_000 },
} satisfies Record<string, Reply | undefined>;

export const paths = Object.keys(illnesses) as readonly (keyof typeof illnesses)[];

/** Good times and bad ones take up to so long. */
const WELL_MS = 8_000;
const ILL_MS = 6_000;
/** How long an answer takes: something must be in flight when a kill comes. */
const ANSWER_MS = 20;

export type Endpoints = Readonly<{
  answer: (path: string, at: number) => Reply;
  /** From now on all are well. */
  recover: () => void;
}>;

export function endpoints(seed: number): Endpoints {
  const turns = new Map(paths.map((path, i) => [path as string, moods(seededRandom(seed * 31 + i))]));
  let recovered = false;
  function answer(path: string, at: number): Reply {
    const ill = !recovered && turns.get(path)?.(at);
    const illness = illnesses[path as keyof typeof illnesses];
    return ill && illness ? illness : { status: 200, afterMs: ANSWER_MS };
  }
  return {
    answer,
    recover: () => {
      recovered = true;
    },
  };
}

/** Whether somebody is ill at a time, the first included, so that something fails however short the test is. */
function moods(random: () => number): (at: number) => boolean {
  let ill = true;
  let until: number | undefined;
  return (at) => {
    until ??= at + random() * ILL_MS;
    while (until <= at) {
      ill = !ill;
      until += random() * (ill ? ILL_MS : WELL_MS);
    }
    return ill;
  };
}
