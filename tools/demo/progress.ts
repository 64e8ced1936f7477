/**
 * The demo's knowledge of each customer: from Breakwater's public API, as any user could read it, and from the
 * receiver's log, against which everything shown is checked.
 */

import type { Delivery, Destination } from "../../client/src/api.ts";
import type { Hit } from "../receiver.ts";
import type { ApiClient } from "../stack.ts";
import { type Posted, type Profile, RETRY_AFTER_S } from "./scenario.ts";

export type Customer = Readonly<{ id: string; path: string; profile: Profile }>;

export type Progress = Readonly<{
  customer: Customer;
  /** Deliveries of accepted events. */
  planned: number;
  /** Deliveries that the API lists. */
  deliveries: readonly Delivery[];
  status: "active" | "paused" | "deleted";
}>;

type State = Delivery["state"];

type Page<T> = Readonly<{ data: readonly T[]; next_cursor: string | null }>;

export function countInStates({ deliveries }: Progress, ...states: readonly State[]): number {
  return deliveries.filter(({ state }) => states.includes(state)).length;
}

export function allEnded(progress: Progress): boolean {
  return countInStates(progress, "delivered", "dead", "cancelled") === progress.planned;
}

/**
 * Reads the progress of every customer: one list of destinations, and the deliveries of each destination whose
 * deliveries had not all ended in `before`. The requests follow each other: wrangler dev before 4.129.1 dies when one
 * of its connections is used again after five idle seconds (cloudflare/workers-sdk#15252), and concurrent requests
 * leave many idle ones.
 */
export async function readProgress(
  api: ApiClient,
  customers: readonly Customer[],
  posted: readonly Posted[],
  before: readonly Progress[],
): Promise<Progress[]> {
  const { data: listed } = await api.get<Page<Destination>>("/v1/destinations?limit=100");
  const all: Progress[] = [];
  for (const customer of customers) {
    const planned = posted.filter(({ destinations }) => destinations.includes(customer.id)).length;
    const status = listed.find(({ id }) => id === customer.id)?.status ?? "deleted";
    const last = before.find((progress) => progress.customer === customer);
    const done = last && last.planned === planned && allEnded(last);
    const deliveries = done ? last.deliveries : await deliveriesTo(api, customer.id);
    all.push({ customer, planned: Math.max(planned, deliveries.length), deliveries, status });
  }
  return all;
}

async function deliveriesTo(api: ApiClient, destination: string): Promise<Delivery[]> {
  const found: Delivery[] = [];
  let cursor = "";
  do {
    const path = `/v1/deliveries?destination_id=${destination}&limit=100${cursor}`;
    const page = await api.get<Page<Delivery>>(path);
    found.push(...page.data);
    cursor = page.next_cursor ? `&cursor=${page.next_cursor}` : "";
  } while (cursor);
  return found;
}

/** The evidence of the receiver's log about one destination. Breakwater's own statements are no evidence. */
export type Evidence = Readonly<{
  attempts: number;
  /** Successful receptions beyond the first of an event. */
  duplicates: number;
  unsigned: number;
  /** Events of which two attempts had different bytes. */
  altered: number;
  failed: number;
  /** The most requests in flight at once. */
  atOnce: number;
  holds: number;
  /** For each request that arrived before Retry-After was over: how long after the 429 it arrived, in ms. */
  early: readonly number[];
}>;

/** Requests that were on their way when the 429 was answered do not count as early. */
const ON_THE_WAY_MS = 250;

export function evidenceOf(hits: readonly Hit[]): Evidence {
  const byEvent = [...Map.groupBy(hits, ({ id }) => id).values()];
  const holds = hits.filter(({ status }) => status === 429);
  return {
    attempts: hits.length,
    duplicates: byEvent.reduce((sum, same) => sum + Math.max(0, same.filter(succeeded).length - 1), 0),
    unsigned: hits.filter(({ verified }) => !verified).length,
    altered: byEvent.filter((same) => new Set(same.map(({ body }) => body)).size > 1).length,
    failed: hits.filter((hit) => !succeeded(hit)).length,
    atOnce: Math.max(0, ...hits.map(({ at }) => hits.filter((other) => isOpenAt(other, at)).length)),
    holds: holds.length,
    early: hits.flatMap(({ at }) => holds.flatMap(({ answeredAt = at }) => earlyBy(at - answeredAt))),
  };
}

function succeeded({ status = 0 }: Hit): boolean {
  return status >= 200 && status < 300;
}

function isOpenAt({ at, answeredAt = Number.POSITIVE_INFINITY }: Hit, moment: number): boolean {
  return at <= moment && moment < answeredAt;
}

function earlyBy(ms: number): number[] {
  return ms > ON_THE_WAY_MS && ms < RETRY_AFTER_S * 1000 ? [ms] : [];
}

/** Leases admitted before the 429 learn of the hold from the gate within a second, and stop. */
const ADMITTED_MS = 1_000 + ON_THE_WAY_MS;

/** Which promises were broken, by the receiver's log, in sentences; empty when none was. */
export function brokenPromises(progress: Progress, posted: readonly Posted[], hits: readonly Hit[]) {
  const { customer, planned } = progress;
  const { unsigned, altered, atOnce, early } = evidenceOf(hits);
  const limit = customer.profile.settings.max_concurrency;
  const late = early.filter((ms) => ms > ADMITTED_MS).length;
  const ended = countInStates(progress, "delivered", "dead", "cancelled");
  const faults = [
    unsigned > 0 && `${unsigned} requests had a signature that did not verify`,
    altered > 0 && `${altered} events changed their bytes between attempts`,
    atOnce > limit && `${atOnce} requests were under way at once; its limit is ${limit}`,
    late > 0 && `${late} requests were admitted during its Retry-After`,
    ended < planned && `${planned - ended} of ${planned} deliveries have not ended`,
    ...endFaults(progress, posted, hits),
  ];
  return faults.flatMap((fault) => (fault ? [`${customer.profile.name}: ${fault}`] : []));
}

function endFaults(progress: Progress, posted: readonly Posted[], hits: readonly Hit[]): (string | false)[] {
  const { customer } = progress;
  const delivered = countInStates(progress, "delivered");
  if (customer.profile.ends === "dead") {
    return [delivered > 0 && `${delivered} deliveries to a receiver that is gone count as delivered`];
  }
  const arrived = new Set(hits.filter(succeeded).map(({ id }) => id));
  const missing = posted.filter(
    ({ id, destinations }) => destinations.includes(customer.id) && !arrived.has(id),
  );
  return [missing.length > 0 && `${missing.length} accepted events did not arrive, ${missing[0]?.id} first`];
}
