/** Contenders in rounds: what else the machine does meets all of them alike. */
import type { Contender, Running } from "./throughput/contender.ts";

/** The order of a round: each begins with another one, so that none always runs under the same load. */
export function inTurn<T>(all: readonly T[], round: number): readonly T[] {
  const first = round % all.length;
  return [...all.slice(first), ...all.slice(0, first)];
}

/**
 * Starts those that are installed, has each play round 0, which warms up, and as many more as wanted, and stops all,
 * whatever happens.
 * @param tell hears who is left out, or could not be stopped
 */
export async function playRounds<C extends Contender>(
  contenders: readonly C[],
  endpoints: readonly string[],
  rounds: number,
  play: (contender: C, running: Running, round: number) => Promise<void>,
  tell: (text: string) => void = console.log,
): Promise<void> {
  const entered: [C, Running][] = [];
  try {
    for (const contender of contenders) {
      const missing = contender.missing();
      if (missing) tell(`Without ${contender.name}: ${missing}.`);
      else entered.push([contender, await contender.start(endpoints)]);
    }
    for (let round = 0; round <= rounds; round++)
      for (const [contender, running] of inTurn(entered, round)) await play(contender, running, round);
  } finally {
    const stopped = await Promise.allSettled(entered.map(([, running]) => running.stop()));
    for (const one of stopped) if (one.status === "rejected") tell(`Not removed: ${one.reason}`);
  }
}
