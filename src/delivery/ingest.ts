/**
 * Accepting events: commit, then promise. When this returns, the events and their plans are in D1. The
 * messages are sent behind the answer; whatever becomes of them, the sweep finds an event without outcome.
 */

import type { Services } from "../services.ts";
import { type AcceptedEvent, insertEvents } from "../store/events.ts";
import { enqueue } from "./enqueue.ts";

/** `data` is any JSON value, or a value whose numbers were kept with `JSON.rawJSON`. */
export type PostedEvent = Readonly<{ tenant: string; type: string; data: unknown }>;

/** Stores the events, all or none, in the order given, and has them delivered. */
export async function accept(
  services: Services,
  posted: readonly PostedEvent[],
): Promise<readonly AcceptedEvent[]> {
  const now = services.now();
  const timestamp = new Date(now).toISOString();
  const events = posted.map(({ tenant, type, data }) => ({
    tenant,
    type,
    body: JSON.stringify({ type, timestamp, data }),
  }));
  const accepted = await insertEvents(services.db, events, now);
  services.background(enqueue(services, accepted));
  return accepted;
}
