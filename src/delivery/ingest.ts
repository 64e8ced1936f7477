/**
 * Accepting events: commit, then promise. When this returns, the events and their plans are in D1. The
 * messages are sent behind the answer; whatever becomes of them, the sweep finds an event without outcome.
 */
import { capsOf } from "../config.ts";
import { isoTime } from "../iso-time.ts";
import { placeByKey, placeByTime } from "../policy/placement.ts";
import type { Services } from "../services.ts";
import { type AcceptedEvent, type DeliveryCap, insertEvents, type NewEvent } from "../store/events.ts";
import { type AcceptedOnce, insertEventsOnce } from "../store/events-once.ts";
import { allOf } from "../store/shards.ts";
import { noteRepeat } from "./dedupe.ts";
import { enqueue } from "./enqueue.ts";
import { fingerprintOf } from "./fingerprint.ts";
import { isSoon } from "./schedule.ts";

/** `data` is any JSON value, or a value whose numbers were kept with `JSON.rawJSON`. */
export type PostedEvent = Readonly<{
  tenant: string;
  type: string;
  data: unknown;
  /** Not before this, epoch ms; at once when it is over already. */
  deliverAt?: number | undefined;
}>;

/**
 * Stores the events, all or none, in the order given, and has them delivered. Rejects with `TooManyDeliveries`
 * where there are more of them than a request may plan, as does `acceptOnce`.
 */
export async function accept(
  services: Services,
  posted: readonly PostedEvent[],
): Promise<readonly AcceptedEvent[]> {
  const now = services.now();
  const place = placeByTime(tenantOf(posted), databasesFor(services), now);
  const accepted = await insertEvents(services, place, newEvents(posted, now), now, capFor(services));
  sendFor(services, accepted, now);
  return accepted;
}

/** The same, at most once for a key: a repeat stores and delivers nothing, and gets what was answered first. */
export async function acceptOnce(
  services: Services,
  posted: readonly PostedEvent[],
  key: string,
): Promise<AcceptedOnce> {
  const now = services.now();
  const once = { key, fingerprint: await fingerprintOf(posted) };
  const place = placeByKey(tenantOf(posted), key, databasesFor(services));
  const result = await insertEventsOnce(services, place, newEvents(posted, now), now, once, capFor(services));
  if (result.kind === "accepted") sendFor(services, result.events, now);
  if (result.kind === "replayed") services.background(noteRepeat(services, posted));
  return result;
}

/** A request goes to one database as a whole: the one of its last event's tenant, who owns its key too. */
function tenantOf(posted: readonly PostedEvent[]): string {
  return posted.at(-1)?.tenant ?? "";
}

function capFor({ config }: Services): DeliveryCap {
  const { deliveries: most, destinations } = capsOf(config);
  return { most, destinations };
}

/** How many databases, from the first on, take new events. */
function databasesFor(services: Services): number {
  return services.config.eventDatabases ?? allOf(services).length;
}

function sendFor(services: Services, accepted: readonly AcceptedEvent[], now: number): void {
  const soon = accepted.filter((event) => isSoon(event, now));
  services.background(enqueue(services, soon));
}

function newEvents(posted: readonly PostedEvent[], now: number): NewEvent[] {
  const timestamp = isoTime(now);
  return posted.map(({ tenant, type, data, deliverAt = 0 }) => ({
    tenant,
    type,
    body: JSON.stringify({ type, timestamp, data }),
    ...(deliverAt > now && { deliverAt }),
  }));
}
