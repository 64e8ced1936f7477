/**
 * How far consumers are behind, of several polled destinations at once: for alerts and metrics. It costs a call to each
 * destination's gate and, for all of them together, a statement in each database that reads about two rows for each consumer.
 */
import { isPolled } from "../../delivery/kinds/sending.ts";
import type { ConsumerView } from "../../gate/inbox.ts";
import { atInbox } from "../../gate/inbox-client.ts";
import type { Services } from "../../services.ts";
import type { Destination } from "../../store/destination.ts";
import { oldestUnread } from "../../store/inbox.ts";
import { mapAtOnce } from "../../time.ts";

export type ConsumerLag = Readonly<{
  destination: Destination;
  consumer: ConsumerView;
  /** For how long the oldest event that it has not committed could be fetched; 0 if there is none. */
  lagMs: number;
}>;

/** Gates called at once. */
const AT_ONCE = 6;

/** The consumers of those destinations that are polled and whose gates answer. */
export async function lagsOf(services: Services, destinations: readonly Destination[]) {
  const each = await mapAtOnce(destinations.filter(isPolled), AT_ONCE, async (destination) => {
    const consumers = await atInbox(services, destination.id, "inboxConsumers");
    return (consumers ?? []).map((consumer) => ({ destination, consumer }));
  });
  const found = each.flat();
  const places = found.map(({ destination, consumer: { position } }) => ({
    destination: destination.id,
    position,
  }));
  const since = places.length === 0 ? [] : await oldestUnread(services, places);
  const now = services.now();
  return found.map((one, i) => ({ ...one, lagMs: lagMsOf(one.consumer, since[i] ?? null, now) }));
}

/** @param since when the oldest event that it has not committed was accepted, late ones excepted; null: there is none */
export function lagMsOf({ lateSince }: ConsumerView, since: number | null, now: number): number {
  return Math.max(0, now - Math.min(since ?? now, lateSince ?? now));
}
