/**
 * Deliveries that are to be sent again. *Requeueing* is the only way back from an end. The delivery waits with fresh
 * budgets of attempts and of time and keeps its log. It is a new generation, so that no late write about the old one can
 * end it.
 */
import type { DeliveryKey } from "../core/bundle.ts";
import { homeOf, inShares } from "./bundles.ts";
import type { RawRow } from "./columns.ts";
import { type Databases, select } from "./databases.ts";
import type { DeliveryRow } from "./delivery.ts";
import { rawDelivery } from "./packs.ts";
import { bundleIdOf, endedOf, hasBit } from "./sql.ts";

/** SQL: the columns of a requeued delivery. @param giveUpAt its age limit until its first attempt, epoch ms */
export const requeued = (giveUpAt: string) => `
  state = 'waiting', attempts = 0, next_attempt_at = NULL, ended_at = NULL, generation = generation + 1,
  first_attempt_at = NULL, give_up_at = ${giveUpAt}`;

type PackedRequeue = Readonly<{
  list: string;
  reason: string;
  replay: string;
  giveUpAt: string;
  mask: typeof endedOf;
}>;

/**
 * SQL: has deliveries `v` of a JSON list of rows wait in rows of their own, if their bits in the packs
 * `p` still say that they have ended. A trigger clears the bits. To be continued with further conditions.
 */
export const requeuePacked = ({ list, reason, replay, giveUpAt, mask }: PackedRequeue) => `
  INSERT INTO deliveries (destination_id, event_id, state, reason, generation, give_up_at, last_status, replay, log)
  SELECT v.value ->> 'destinationId', v.value ->> 'eventId', 'waiting', ${reason}, 1, ${giveUpAt},
    v.value ->> 'lastStatus', ${replay}, v.value -> 'log'
  FROM json_each(${list}) v CROSS JOIN packs p ON p.destination_id = v.value ->> 'destinationId'
    AND p.bundle_id = ${bundleIdOf("(v.value ->> 'eventId')")}
  WHERE ${hasBit(mask("p"), "(v.value ->> 'eventId')")}`;

const REQUEUE_ENDED = `
  UPDATE deliveries SET ${requeued("v.giveUpAt")}, reason = 'retried', replay = NULL
  FROM (SELECT value ->> 'destinationId' AS destination, value ->> 'eventId' AS event,
    value ->> 'giveUpAt' AS giveUpAt FROM json_each(?1)) v
  WHERE destination_id = v.destination AND event_id = v.event
    AND state IN ('delivered', 'dead', 'cancelled') AND reason IS NOT 'event_removed'
  RETURNING *`;

const packedAgain = {
  list: "?1",
  reason: "'retried'",
  replay: "NULL",
  giveUpAt: "v.value ->> 'giveUpAt'",
  mask: endedOf,
};
const REQUEUE_ENDED_PACKED = `${requeuePacked(packedAgain)} ON CONFLICT DO NOTHING RETURNING *`;

/** A delivery to requeue: its key, its state in a pack, and its new age limit, epoch ms. */
type Requeue = Pick<DeliveryRow, "destinationId" | "eventId" | "lastStatus" | "log" | "giveUpAt">;

/**
 * Requeues deliveries that have ended, in rows or in packs. Returns those that this call has requeued: any other had not,
 * or no longer, ended.
 */
export async function requeueEnded(
  databases: Databases,
  ended: readonly Requeue[],
): Promise<readonly DeliveryRow[]> {
  return inShares(databases, ended, async (db, rows) => {
    const list = JSON.stringify(rows);
    const statements = [REQUEUE_ENDED, REQUEUE_ENDED_PACKED].map((sql) => db.prepare(sql).bind(list));
    return (await db.batch<RawRow>(statements)).flatMap(({ results }) => results.map(rawDelivery));
  });
}

const HASTEN = `
  UPDATE deliveries SET state = 'waiting', reason = 'retried', next_attempt_at = NULL
  FROM (SELECT value ->> 'destinationId' AS destination, value ->> 'eventId' AS event FROM json_each(?1)) v
  WHERE destination_id = v.destination AND event_id = v.event
    AND state = 'retrying' AND reason IS NOT 'in_flight'
  RETURNING *`;

/**
 * Has deliveries that are to be retried later wait for a drain now, with the attempts that they have made. Returns those: any
 * other has ended, waits already, or is in flight.
 */
export async function hastenRetries(
  databases: Databases,
  retrying: readonly DeliveryKey[],
): Promise<readonly DeliveryRow[]> {
  return inShares(databases, retrying, async (db, share) => {
    const keys = share.map(({ destinationId, eventId }) => ({ destinationId, eventId }));
    return (await select<RawRow>(db, HASTEN, keys)).map(rawDelivery);
  });
}

/** Only if it has ended: recording an attempt writes the whole log. */
const FORGET_EXCERPT = `
  UPDATE deliveries SET log = (
    SELECT json_group_array(json(iif(e.value ->> 'at' = ?3, json_remove(e.value, '$.excerpt', '$.archived'), e.value)))
    FROM json_each(log) e)
  WHERE destination_id = ?1 AND event_id = ?2 AND state IN ('delivered', 'dead', 'cancelled')`;

/** Removes the recorded response of the attempt at `at` (epoch ms). */
export async function forgetExcerpt(
  databases: Databases,
  { destinationId, eventId }: DeliveryKey,
  at: number,
): Promise<void> {
  await homeOf(databases, eventId)?.prepare(FORGET_EXCERPT).bind(destinationId, eventId, at).run();
}
