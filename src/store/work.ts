/** What a consumer or a drain needs to work on deliveries, in one round trip whatever their number. */
import type { InferSelectModel } from "drizzle-orm";
import type { DeliveryMessage } from "../delivery/message.ts";
import type { Destination } from "./destination-settings.ts";
import { modelOf, type RawRow } from "./row-model.ts";
import { deliveries, destinations } from "./schema.ts";

export type DeliveryRow = InferSelectModel<typeof deliveries>;

export type EventRow = Readonly<{ id: number; type: string; body: string; acceptedAt: number }>;

/** One delivery with all that an attempt needs. */
export type Work = Readonly<{
  event: EventRow;
  destination: Destination;
  /** Undefined before the first outcome. */
  row: DeliveryRow | undefined;
}>;

const EVENTS = `SELECT id, type, body, accepted_at AS acceptedAt FROM events
  WHERE id IN (SELECT value ->> 'event' FROM json_each(?1))`;
const DESTINATIONS = `SELECT * FROM destinations
  WHERE id IN (SELECT value ->> 'destination' FROM json_each(?1))`;
const ROWS = `SELECT d.* FROM json_each(?1) m JOIN deliveries d
  ON d.destination_id = m.value ->> 'destination' AND d.event_id = m.value ->> 'event'`;

/** Loads what the messages name, in their order; undefined where the event or the destination is unknown. */
export async function loadWork(
  db: D1Database,
  messages: readonly DeliveryMessage[],
): Promise<(Work | undefined)[]> {
  const wanted = JSON.stringify(messages);
  const results = await db.batch<RawRow>(
    [EVENTS, DESTINATIONS, ROWS].map((statement) => db.prepare(statement).bind(wanted)),
  );
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

function keyOf({ eventId, destinationId }: Pick<DeliveryRow, "eventId" | "destinationId">): string {
  return `${eventId} ${destinationId}`;
}
