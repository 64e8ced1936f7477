/**
 * Repeats "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015): clients contend for one row with optimistic
 * locking, and the losers back off. If the waits of `src/core/retry/backoff.ts` and this engine are right, the
 * article's ranking must come out. Network 10 ms ± 2, base 5 ms, cap 2 s.
 */

import { backoffSeconds, type Jitter, jittered } from "../../src/core/retry/backoff.ts";
import type { Random } from "../../src/core/seeded-random.ts";
import { BEGINNING } from "../../src/simulator/scenario.ts";
import { createEngine } from "./engine.ts";
import type { Section } from "./runs.ts";

export type Contention = Readonly<{ clients: number; jitter: Jitter; calls: number; ms: number }>;

/** The production functions take any unit: here it is the millisecond. */
const DELAYS = { base: 5, factor: 2, cap: 2_000 };
const RUNS = 20;

/** Two numbers of clients, with each kind of jitter in the article. */
export function contention(seed: number): Section<readonly Contention[]> {
  const runs = [20, 100].flatMap((clients) =>
    (["none", "equal", "full", "decorrelated"] as const).map((jitter) => ({
      name: `${clients} clients contend with ${jitter}`,
      play: () => contend(clients, jitter, seed),
    })),
  );
  return { runs, read: (played) => runs.map((run) => played(run)) };
}

/** The mean of several runs. */
export async function contend(clients: number, jitter: Jitter, seed: number): Promise<Contention> {
  const runs: { calls: number; ms: number }[] = [];
  for (let run = 0; run < RUNS; run++) runs.push(await contendOnce(clients, jitter, seed + run));
  const mean = (read: (run: { calls: number; ms: number }) => number) =>
    runs.reduce((sum, run) => sum + read(run), 0) / RUNS;
  return { clients, jitter, calls: mean((run) => run.calls), ms: mean((run) => run.ms) };
}

async function contendOnce(clients: number, jitter: Jitter, seed: number) {
  const engine = createEngine(seed);
  let version = 0;
  let calls = 0;
  let left = clients;

  const network = (then: () => void) => engine.after(Math.max(1, normal(10, 2, engine.random)), then);

  /** Reads the version, then writes unless it has changed; each is a round trip. */
  function attempt(lost: number, previous: number | undefined): void {
    network(() => {
      const seen = version;
      network(() => network(() => write(seen, lost, previous)));
    });
  }

  function write(seen: number, lost: number, previous: number | undefined): void {
    calls += 1;
    const won = seen === version;
    if (won) version += 1;
    network(() => (won ? leave() : backOff(lost + 1, previous)));
  }

  function backOff(lost: number, previous: number | undefined): void {
    const wait = jittered(backoffSeconds(DELAYS, lost), jitter, previous, DELAYS, engine.random());
    engine.after(wait, () => attempt(lost, wait));
  }

  function leave(): void {
    left -= 1;
  }

  for (let client = 0; client < clients; client++) attempt(0, undefined);
  await engine.run(() => left === 0, Number.POSITIVE_INFINITY);
  return { calls, ms: engine.now() - BEGINNING };
}

/** A normally distributed number, by the method of Box and Muller. */
function normal(mean: number, deviation: number, random: Random): number {
  const radius = Math.sqrt(-2 * Math.log(1 - random()));
  return mean + deviation * radius * Math.cos(2 * Math.PI * random());
}
