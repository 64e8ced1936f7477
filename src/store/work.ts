/** What a consumer or a drain needs to work on deliveries, in one round trip whatever their number. */
import type { InferSelectModel } from "drizzle-orm";
import type { DeliveryMessage } from "../delivery/message.ts";
import type { Destination } from "./destination-settings.ts";
import { modelOf, type RawRow } from "./row-model.ts";
import { deliveries, destinations } from "./schema.ts";
import { type Databases, sharesOf } from "./shards.ts";

export type DeliveryRow = InferSelectModel<typeof deliveries>;

export type EventRow = Readonly<{
  id: number;
  type: string;
  body: string;
  acceptedAt: number;
  /** Not to be delivered before this; null: at once. */
  deliverAt: number | null;
}>;

/** From when on an event could be delivered: its age counts from here. Epoch ms. */
export function dueAtOf({ acceptedAt, deliverAt }: Pick<EventRow, "acceptedAt" | "deliverAt">): number {
  return deliverAt ?? acceptedAt;
}

/** One delivery with all that an attempt needs. */
export type Work = Readonly<{
  event: EventRow;
  destination: Destination;
  /** Undefined before the first outcome. */
  row: DeliveryRow | undefined;
}>;

/**
 * Loads what the messages name, in their order; undefined where the event or the destination is unknown. One
 * round trip to each database that has some of the events, all at once, and one to the first in any case.
 */
export async function loadWork(
  databases: Databases,
  messages: readonly DeliveryMessage[],
): Promise<(Work | undefined)[]> {
  if (messages.length === 0) return [];
  const shares = sharesOf(databases, messages, ({ event }) => event);
  const { db: first } = databases;
  const [[places = [], ...stored], ...others] = await Promise.all([
    rowsOf(first, [destinationsOf(first, messages), ...storedOf(first, shares.get(first) ?? [])]),
    ...[...shares].filter(([db]) => db !== first).map(([db, share]) => rowsOf(db, storedOf(db, share))),
  ]);
  const known = [stored, ...others];
  const events = new Map(
    known.flatMap(([rows = []]) => rows as EventRow[]).map((event) => [event.id, event]),
  );
  const targets = new Map(places.map((raw) => [raw.id, modelOf(destinations, raw)]));
  const outcomes = known.flatMap(([, rows = []]) => rows).map((raw) => modelOf(deliveries, raw));
  const rows = new Map(outcomes.map((row) => [keyOf(row), row]));
  return messages.map((message) => {
    const event = events.get(message.event);
    const destination = targets.get(message.destination);
    const row = rows.get(keyOf({ eventId: message.event, destinationId: message.destination }));
    return event && destination && { event, destination, row };
  });
}

async function rowsOf(db: D1Database, statements: D1PreparedStatement[]): Promise<RawRow[][]> {
  return (await db.batch<RawRow>(statements)).map(({ results }) => results);
}

/*
 * D1 bills the rows that `json_each` makes of a parameter as rows read, but not those of VALUES. So the
 * keys are spelled out: events as the whole numbers that they are, destinations as parameters, of which
 * there may be a hundred, as many as there are messages in a batch.
 */

function destinationsOf(db: D1Database, messages: readonly DeliveryMessage[]): D1PreparedStatement {
  const places = placesOf(messages);
  return db
    .prepare(
      `WITH wanted (id) AS (VALUES ${places.map((_, i) => `(?${i + 1})`)})
       SELECT d.* FROM wanted CROSS JOIN destinations d ON d.id = wanted.id`,
    )
    .bind(...places);
}

/** The events, and the deliveries that have a row; nothing for nothing. */
function storedOf(db: D1Database, messages: readonly DeliveryMessage[]): D1PreparedStatement[] {
  if (messages.length === 0) return [];
  const events = [...new Set(messages.map(({ event }) => event))];
  const places = placesOf(messages);
  const parameter = new Map(places.map((destination, i) => [destination, `?${i + 1}`]));
  const pairs = messages.map(({ event, destination }) => `(${event}, ${parameter.get(destination)})`);
  return [
    db.prepare(
      `WITH wanted (id) AS (VALUES ${events.map((event) => `(${event})`)})
       SELECT e.id, e.type, e.body, e.accepted_at AS acceptedAt, e.deliver_at AS deliverAt
       FROM wanted CROSS JOIN events e ON e.id = wanted.id`,
    ),
    db
      .prepare(
        `WITH wanted (event, destination) AS (VALUES ${pairs})
         SELECT d.* FROM wanted CROSS JOIN deliveries d
         ON d.destination_id = wanted.destination AND d.event_id = wanted.event`,
      )
      .bind(...places),
  ];
}

function placesOf(messages: readonly DeliveryMessage[]): string[] {
  return [...new Set(messages.map(({ destination }) => destination))];
}

function keyOf({ eventId, destinationId }: Pick<DeliveryRow, "eventId" | "destinationId">): string {
  return `${eventId} ${destinationId}`;
}
