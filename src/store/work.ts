/** What a consumer or a drain needs to work on deliveries, in one round trip whatever their number. */
import type { InferSelectModel } from "drizzle-orm";
import type { DeliveryMessage } from "../delivery/message.ts";
import type { Destination } from "./destination-settings.ts";
import { modelOf, type RawRow } from "./row-model.ts";
import { deliveries, destinations } from "./schema.ts";

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

/** Loads what the messages name, in their order; undefined where the event or the destination is unknown. */
export async function loadWork(
  db: D1Database,
  messages: readonly DeliveryMessage[],
): Promise<(Work | undefined)[]> {
  if (messages.length === 0) return [];
  const results = await db.batch<RawRow>(statementsFor(db, messages));
  const [eventRows = [], destinationRows = [], deliveryRows = []] = results.map(({ results }) => results);
  const events = new Map((eventRows as EventRow[]).map((event) => [event.id, event]));
  const targets = new Map(destinationRows.map((raw) => [raw.id, modelOf(destinations, raw)]));
  const rows = new Map(deliveryRows.map((raw) => modelOf(deliveries, raw)).map((row) => [keyOf(row), row]));
  return messages.map((message) => {
    const event = events.get(message.event);
    const destination = targets.get(message.destination);
    const row = rows.get(keyOf({ eventId: message.event, destinationId: message.destination }));
    return event && destination && { event, destination, row };
  });
}

/**
 * D1 bills the rows that `json_each` makes of a parameter as rows read, but not those of VALUES. So the
 * keys are spelled out: events as the whole numbers that they are, destinations as parameters, of which
 * there may be a hundred, as many as there are messages in a batch.
 */
function statementsFor(db: D1Database, messages: readonly DeliveryMessage[]): D1PreparedStatement[] {
  const events = [...new Set(messages.map(({ event }) => event))];
  const places = [...new Set(messages.map(({ destination }) => destination))];
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
        `WITH wanted (id) AS (VALUES ${places.map((_, i) => `(?${i + 1})`)})
         SELECT d.* FROM wanted CROSS JOIN destinations d ON d.id = wanted.id`,
      )
      .bind(...places),
    db
      .prepare(
        `WITH wanted (event, destination) AS (VALUES ${pairs})
         SELECT d.* FROM wanted CROSS JOIN deliveries d
         ON d.destination_id = wanted.destination AND d.event_id = wanted.event`,
      )
      .bind(...places),
  ];
}

function keyOf({ eventId, destinationId }: Pick<DeliveryRow, "eventId" | "destinationId">): string {
  return `${eventId} ${destinationId}`;
}
