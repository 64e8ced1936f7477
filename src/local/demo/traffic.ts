/** The demo's producer: a steady stream of events, some posted one by one, some in batches. */
import { setTimeout as sleep } from "node:timers/promises";
import type { ApiClient } from "../api-client.ts";
import { seededRandom } from "../seeded-random.ts";
import { newEvents } from "./catalogue.ts";

export const EVENTS = 300;
const SEED = 20_26;
const PER_TICK = { single: 5, batch: 10 };
const TICK_MS = 1_000;

type Accepted = Readonly<{ id: string; deliveries: readonly Readonly<{ destination_id: string }>[] }>;

/** An accepted event: where it goes, and when its acceptance was heard (epoch ms). */
export type Posted = Readonly<{ id: string; destinations: readonly string[]; at: number }>;

/** Posts all events; `posted` grows while it does. */
export async function postTraffic(api: ApiClient, posted: Posted[]): Promise<void> {
  const random = seededRandom(SEED);
  const note = (accepted: readonly Accepted[]) => {
    const at = Date.now();
    const events = accepted.map(({ id, deliveries }) => ({
      id,
      destinations: deliveries.map(({ destination_id: destination }) => destination),
      at,
    }));
    posted.push(...events);
  };
  while (posted.length < EVENTS) {
    const next = sleep(TICK_MS);
    for (const event of newEvents(PER_TICK.single, random)) {
      note([await api.post<Accepted>("/v1/events", event)]);
    }
    const events = newEvents(PER_TICK.batch, random);
    note((await api.post<{ events: Accepted[] }>("/v1/events/batch", { events })).events);
    await next;
  }
}
