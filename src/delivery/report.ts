/** Making verdicts durable: one write for all of them, repeated when it fails, because it is safe to repeat. */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import { recordOutcomes } from "../store/record.ts";
import type { Verdict } from "./verdicts.ts";

const TRIES = 3;
const PAUSE_MS = 250;

/**
 * Resolves when the verdicts are in D1, with the destinations that are paused by them, because they are gone.
 * Throws when they cannot be written.
 */
export async function report(
  services: Services,
  verdicts: readonly Verdict[],
): Promise<readonly Destination[]> {
  const rows = verdicts.flatMap(({ row }) => row ?? []);
  const gone = [
    ...new Set(verdicts.filter((verdict) => verdict.gone).map(({ work }) => work.destination.id)),
  ];
  for (let attempt = 1; ; attempt++) {
    try {
      const paused = await recordOutcomes(services, rows, gone, services.now());
      return pausedOf(services, verdicts, paused);
    } catch (error) {
      services.log({ what: "record_failed", deliveries: rows.length, attempt, error: faultOf(error) });
      if (attempt === TRIES) throw error;
      await services.sleep(PAUSE_MS * attempt);
    }
  }
}

/** Those that were active until now: each is one line. */
function pausedOf(
  { log }: Services,
  verdicts: readonly Verdict[],
  paused: readonly string[],
): readonly Destination[] {
  return paused.flatMap((id) => {
    log({ what: "destination_paused", destination: id, because: "gone" });
    return verdicts.find(({ work }) => work.destination.id === id)?.work.destination ?? [];
  });
}
