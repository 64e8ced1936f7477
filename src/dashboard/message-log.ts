/** What was sent to a destination, the newest event first: read with the API's own functions. */
import { showDeliveries } from "../api/deliveries-shown.ts";
import type { DeliveryJson } from "../api/delivery-schema.ts";
import { eventId, eventNumber } from "../id.ts";
import type { Services } from "../services.ts";
import { storedDeliveries } from "../store/deliveries-read.ts";
import type { DeliveryKey } from "../store/delivery-filter.ts";
import { type EventName, eventNames } from "../store/event-names.ts";
import { queuedDeliveries } from "../store/planned-deliveries.ts";

export const logStates = ["all", "queued", "waiting", "retrying", "delivered", "dead"] as const;

export type LogState = (typeof logStates)[number];

export type LogEntry = Readonly<{ delivery: DeliveryJson; event: EventName | undefined }>;

export type MessageLog = Readonly<{
  state: LogState;
  entries: readonly LogEntry[];
  /** Whether this is the newest page. */
  isFirst: boolean;
  /** The event before which the next page starts; absent on the last one. */
  next?: string;
}>;

const PAGE = 25;

type Asked = Readonly<{ state: LogState; before: string | undefined }>;

/** The newest page, or the one of what is older than the event `before`. */
export async function readLog(
  services: Services,
  destinationId: string,
  { state, before }: Asked,
): Promise<MessageLog> {
  const row = before === undefined ? undefined : eventNumber(before);
  const key = row === undefined ? undefined : { destinationId, eventId: row };
  const { found, next } = await pageOf(services.db, state, destinationId, key);
  const [shown, names] = await Promise.all([
    showDeliveries(services, found),
    eventNames(
      services.db,
      found.map(({ eventId }) => eventId),
    ),
  ]);
  const entries = found.flatMap(({ eventId }, i) => {
    const delivery = shown[i];
    return delivery ? [{ delivery, event: names.get(eventId) }] : [];
  });
  return { state, entries, isFirst: key === undefined, ...(next && { next: eventId(next.eventId) }) };
}

function pageOf(db: D1Database, state: LogState, destinationId: string, before: DeliveryKey | undefined) {
  const filter = { destinationId, before, limit: PAGE };
  if (state === "queued") return queuedDeliveries(db, filter);
  return storedDeliveries(db, state === "all" ? undefined : state, filter);
}
