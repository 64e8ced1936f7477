/** Making verdicts durable: one write for all of them, repeated when it fails, because it is safe to repeat. */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { recordOutcomes } from "../store/record.ts";
import type { StatusChange } from "../store/status-changes.ts";
import type { Verdict } from "./verdicts.ts";

const TRIES = 3;
const PAUSE_MS = 250;

/**
 * Resolves when the verdicts are in D1, with the pauses of destinations that are gone.
 * Throws when they cannot be written.
 */
export async function report(
  services: Services,
  verdicts: readonly Verdict[],
): Promise<readonly StatusChange[]> {
  const rows = verdicts.flatMap(({ row }) => row ?? []);
  const gone = [
    ...new Set(verdicts.filter((verdict) => verdict.gone).map(({ work }) => work.destination.id)),
  ];
  // One time for every repeat: by it the pauses of this write are found, whichever of the repeats has made them.
  const now = services.now();
  for (let attempt = 1; ; attempt++) {
    try {
      return await recordOutcomes(services, rows, gone, now);
    } catch (error) {
      services.log({ what: "record_failed", deliveries: rows.length, attempt, error: faultOf(error) });
      if (attempt === TRIES) throw error;
      await services.sleep(PAUSE_MS * attempt);
    }
  }
}
