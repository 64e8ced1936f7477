/** Plays contenders in alternating rounds, so that other load on the machine affects all of them alike. */
import type { Contender, Running } from "./throughput/contender.ts";

/** The order of a round. Each round begins with another contender, so that none always runs under the same load. */
export function inTurn<T>(all: readonly T[], round: number): readonly T[] {
  const first = round % all.length;
  return [...all.slice(first), ...all.slice(0, first)];
}

/**
 * Starts the contenders that are installed, plays round 0 as a warm-up and then `rounds` more, and stops all of them,
 * whatever happens.
 * @param log receives a line for each contender that is left out or could not be stopped
 */
export async function playRounds<C extends Contender>(
  contenders: readonly C[],
  endpoints: readonly string[],
  rounds: number,
  play: (contender: C, running: Running, round: number) => Promise<void>,
  log: (text: string) => void = console.log,
): Promise<void> {
  const entered: [C, Running][] = [];
  try {
    for (const contender of contenders) {
      const missing = contender.missing();
      if (missing) log(`Without ${contender.name}: ${missing}.`);
      else entered.push([contender, await contender.start(endpoints)]);
    }
    for (let round = 0; round <= rounds; round++)
      for (const [contender, running] of inTurn(entered, round)) await play(contender, running, round);
  } finally {
    const stopped = await Promise.allSettled(entered.map(([, running]) => running.stop()));
    for (const one of stopped)
      if (one.status === "rejected") log(`Could not stop a contender: ${one.reason}`);
  }
}
