/** Whether a delivery has ended, by its row or its bit, for queries of tests and benches. */
import { endedOf, hasBit } from "../../src/store/sql.ts";

/** SQL of the condition, given SQL of the event's and the destination's id. */
export function hasEndedSql(event: string, destination: string): string {
  return `(EXISTS (SELECT 1 FROM deliveries d
      WHERE d.event_id = ${event} AND d.destination_id = ${destination} AND d.ended_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM packs k
      WHERE k.destination_id = ${destination} AND k.bundle_id = ${event} / 128 AND ${hasBit(endedOf("k"), event)}))`;
}
