/**
 * Where every delivery stands, asked of the public API the way any user could: one list of deliveries for
 * each destination that still has something under way, and one list of destinations.
 */
import type { DeliveryJson } from "../../api/delivery-schema.ts";
import type { ApiClient } from "../api-client.ts";
import type { Fate } from "./fates.ts";
import type { Posted } from "./traffic.ts";

/** A destination of the demo. */
export type Customer = Readonly<{ id: string; path: string; fate: Fate }>;

export type DemoStanding = Readonly<{
  customer: Customer;
  /** Deliveries that accepted events have promised it. */
  planned: number;
  /** Those of them that have an outcome of any kind. */
  deliveries: readonly DeliveryJson[];
  status: "active" | "paused" | "deleted";
}>;

export type State = DeliveryJson["state"];

type Page<T> = Readonly<{ data: readonly T[]; next_cursor: string | null }>;
type Listed = Readonly<{ id: string; status: "active" | "paused" }>;

export function countOf({ deliveries }: DemoStanding, ...states: readonly State[]): number {
  return deliveries.filter(({ state }) => states.includes(state)).length;
}

export function hasEnded(standing: DemoStanding): boolean {
  return countOf(standing, "delivered", "dead", "cancelled") === standing.planned;
}

/**
 * `before` is what was seen last: what has ended is not asked for again. One request after the other:
 * wrangler dev before 4.129.1 dies when a connection of its own is used again after five idle seconds
 * (cloudflare/workers-sdk#15252), and many at once leave many idle.
 */
export async function readStandings(
  api: ApiClient,
  customers: readonly Customer[],
  posted: readonly Posted[],
  before: readonly DemoStanding[],
): Promise<DemoStanding[]> {
  const { data: listed } = await api.get<Page<Listed>>("/v1/destinations?limit=100");
  const standings: DemoStanding[] = [];
  for (const customer of customers) {
    const planned = posted.filter(({ destinations }) => destinations.includes(customer.id)).length;
    const status = listed.find(({ id }) => id === customer.id)?.status ?? "deleted";
    const last = before.find((standing) => standing.customer === customer);
    const done = last && last.planned === planned && hasEnded(last);
    const deliveries = done ? last.deliveries : await deliveriesTo(api, customer.id);
    standings.push({ customer, planned: Math.max(planned, deliveries.length), deliveries, status });
  }
  return standings;
}

async function deliveriesTo(api: ApiClient, destination: string): Promise<DeliveryJson[]> {
  const found: DeliveryJson[] = [];
  let cursor = "";
  do {
    const path = `/v1/deliveries?destination_id=${destination}&limit=100${cursor}`;
    const page = await api.get<Page<DeliveryJson>>(path);
    found.push(...page.data);
    cursor = page.next_cursor ? `&cursor=${page.next_cursor}` : "";
  } while (cursor);
  return found;
}
