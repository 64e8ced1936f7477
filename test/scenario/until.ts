/** Polling for a condition, instead of sleeping for a guessed time. */
import { setTimeout as sleep } from "node:timers/promises";

type Patience = Readonly<{ everyMs?: number; otherwise: () => string }>;

/** Longer than anything takes, also on a machine that is busy with other things. */
const PATIENT_MS = 900_000;

/** Polls until `isSo`; throws the text of `otherwise` when that takes too long. */
export async function until(
  isSo: () => boolean | Promise<boolean>,
  { everyMs = 50, otherwise }: Patience,
): Promise<void> {
  const deadline = Date.now() + PATIENT_MS;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`Not within ${PATIENT_MS / 1000} s: ${otherwise()}`);
    await sleep(everyMs);
  }
}
