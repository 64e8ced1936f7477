/** Making verdicts durable: one write for all of them, repeated when it fails, because it is safe to repeat. */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { recordOutcomes } from "../store/record.ts";
import type { Verdict } from "./verdicts.ts";

const TRIES = 3;
const PAUSE_MS = 250;

/** Resolves when the verdicts are in D1; throws when they cannot be written. */
export async function report(services: Services, verdicts: readonly Verdict[]): Promise<void> {
  const rows = verdicts.flatMap(({ row }) => row ?? []);
  const gone = [
    ...new Set(verdicts.filter((verdict) => verdict.gone).map(({ work }) => work.destination.id)),
  ];
  for (let attempt = 1; ; attempt++) {
    try {
      await recordOutcomes(services, rows, gone, services.now());
      break;
    } catch (error) {
      services.log({ what: "record_failed", deliveries: rows.length, attempt, error: faultOf(error) });
      if (attempt === TRIES) throw error;
      await services.sleep(PAUSE_MS * attempt);
    }
  }
  for (const destination of gone) services.log({ what: "destination_paused", destination, because: "gone" });
}
