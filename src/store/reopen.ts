/**
 * Letting a delivery that has ended begin again: the one way back from an end. It waits with a fresh budget
 * of attempts and of time; its log stays. It is another life, and has a number of its own, so that nothing said
 * about the old one can end the new (see record.ts).
 */
import type { DeliveryKey } from "./delivery-filter.ts";
import { modelOf, type RawRow } from "./row-model.ts";
import { type DeliveryRow, deliveries } from "./schema.ts";
import { type Databases, homeOf } from "./shards.ts";

/** The columns of a delivery that begins again; `?1` is its age limit until it is attempted, epoch ms. */
export const REQUEUED = `
  state = 'waiting', attempts = 0, next_attempt_at = NULL, ended_at = NULL, life = life + 1,
  first_attempt_at = NULL, give_up_at = ?1`;

const RETRY = `
  UPDATE deliveries SET ${REQUEUED}, reason = 'retried', replay = NULL
  WHERE destination_id = ?2 AND event_id = ?3 AND state = 'dead' RETURNING *`;

/** Lets a dead delivery wait again; undefined when it is not dead (any more). */
export async function requeueDead(
  databases: Databases,
  { destinationId, eventId }: DeliveryKey,
  giveUpAt: number,
): Promise<DeliveryRow | undefined> {
  const retry = homeOf(databases, eventId)?.prepare(RETRY).bind(giveUpAt, destinationId, eventId);
  const raw = await retry?.first<RawRow>();
  return raw ? modelOf(deliveries, raw) : undefined;
}
