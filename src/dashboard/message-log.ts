/** What was sent to a destination, the newest event first: read with the API's own functions. */
import { showDeliveries } from "../api/deliveries-shown.ts";
import type { DeliveryJson } from "../api/delivery-schema.ts";
import { eventId, eventNumber } from "../id.ts";
import type { Services } from "../services.ts";
import { storedDeliveries } from "../store/deliveries-read.ts";
import { END, isEnd, type MergedPage, type Positions, START } from "../store/delivery-pages.ts";
import { type EventName, eventNames } from "../store/event-names.ts";
import { overBy } from "../store/over.ts";
import { queuedDeliveries } from "../store/planned-deliveries.ts";

export const logStates = ["all", "queued", "waiting", "retrying", "delivered", "dead"] as const;

export type LogState = (typeof logStates)[number];

export type LogEntry = Readonly<{ delivery: DeliveryJson; event: EventName | undefined }>;

export type MessageLog = Readonly<{
  state: LogState;
  entries: readonly LogEntry[];
  /** Whether this is the newest page. */
  isFirst: boolean;
  /** The event before which the next page starts, or one of each database; absent on the last page. */
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
  const positions = before === undefined ? undefined : positionsOf(destinationId, before);
  const { found, next } = await pageOf(services, state, destinationId, positions);
  const [shown, names] = await Promise.all([
    showDeliveries(services, found),
    eventNames(
      services,
      found.map(({ eventId }) => eventId),
    ),
  ]);
  const entries = found.flatMap(({ eventId }, i) => {
    const delivery = shown[i];
    return delivery ? [{ delivery, event: names.get(eventId) }] : [];
  });
  return { state, entries, isFirst: positions === undefined, ...(next && { next: placeOf(next) }) };
}

/**
 * The event that each database is gone on with, one after the other; "end" where there is nothing more, and with a
 * hyphen a place that no delivery was found at.
 */
function placeOf(positions: Positions): string {
  const parts = positions.map((key) =>
    isEnd(key) ? "end" : `${key.destinationId === "" ? "-" : ""}${eventId(key.eventId)}`,
  );
  return parts.join(".");
}

/** Undefined when it names no event at all: a page like that is the newest one. */
function positionsOf(destinationId: string, place: string): Positions | undefined {
  const keys = place.split(".").map((part) => {
    const number = eventNumber(part.replace(/^-/, ""));
    const key = { destinationId: part.startsWith("-") ? "" : destinationId, eventId: number ?? 0 };
    return part === "end" ? END : number === undefined ? START : key;
  });
  return keys.every((key) => key === START) ? undefined : keys;
}

function pageOf(
  services: Services,
  state: LogState,
  destinationId: string,
  before: Positions | undefined,
): Promise<MergedPage> {
  const filter = { destinationId, before, limit: PAGE, over: overBy(services) };
  if (state === "queued") return queuedDeliveries(services, filter);
  return storedDeliveries(services, state === "all" ? undefined : state, filter);
}
