/** Calls that take time, as they do in production: the local D1, gates and queues answer in well under a millisecond. */
import type { Slowly } from "./bindings.ts";

export type { Slowly };

type Kind = Parameters<Slowly>[0];

/** Milliseconds there and back, from and to. */
const LATENCY_MS: Readonly<Record<Kind, readonly [number, number]>> = {
  d1: [5, 80],
  gate: [5, 60],
  queue: [5, 60],
};

/** Now and then a call takes a second. */
const SLOW_SHARE = 1 / 200;
const SLOW_MS = 1_000;

/**
 * Makes each call take a random time, a part of it on the way there and the rest on the way back: what is
 * killed meanwhile may have done its work without anybody hearing of it.
 * @param random uniform in [0, 1)
 */
export function slowlyBy(random: () => number, wait: (ms: number) => Promise<unknown>): Slowly {
  return async (kind, work) => {
    const [least, most] = LATENCY_MS[kind];
    const ms = random() < SLOW_SHARE ? SLOW_MS : least + random() * (most - least);
    const thereMs = ms * random();
    await wait(thereMs);
    try {
      return await work();
    } finally {
      await wait(ms - thereMs);
    }
  };
}
