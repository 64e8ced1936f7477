/** Polling for a condition, instead of sleeping for a guessed time. */
import { setTimeout as sleep } from "node:timers/promises";

type Patience = Readonly<{ withinMs: number; everyMs?: number; otherwise: () => string }>;

/** Polls until `isSo`; throws the text of `otherwise` when that takes too long. */
export async function until(
  isSo: () => boolean | Promise<boolean>,
  { withinMs, everyMs = 50, otherwise }: Patience,
): Promise<void> {
  const deadline = Date.now() + withinMs;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`Not within ${withinMs / 1000} s: ${otherwise()}`);
    await sleep(everyMs);
  }
}
