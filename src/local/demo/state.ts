/**
 * Where every delivery stands, asked of the public API the way any user could: one list of deliveries for
 * each destination that still has something under way, and one list of destinations.
 */

import type { Hit } from "../receiver.ts";
import type { ApiClient } from "../stack.ts";
import { type Fate, type Posted, QUIET_S } from "./scenario.ts";

/** What the demo reads of a delivery, as the API shows it. */
type DeliveryJson = Readonly<{
  state: "queued" | "waiting" | "retrying" | "delivered" | "dead" | "cancelled";
  reason?: string;
  event_id: string;
  waiting_until?: string;
  delivered_at?: string;
}>;

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

// §§ What the receiver saw of one destination, in figures. Breakwater's own word is not evidence of what it
// did; the log of the other side is.

export type Evidence = Readonly<{
  attempts: number;
  /** Successful receptions beyond the first of an event. */
  duplicates: number;
  unsigned: number;
  /** Events of which two attempts had different bytes. */
  altered: number;
  refused: number;
  /** Requests under way at once, at the most. */
  atOnce: number;
  quiets: number;
  /** Of each request that arrived while the receiver had asked for quiet: how long after it had, in ms. */
  early: readonly number[];
}>;

/** Requests that were on their way when the receiver asked for quiet are not held against anybody. */
const ON_THE_WAY_MS = 250;

export function evidenceOf(hits: readonly Hit[]): Evidence {
  const byEvent = [...Map.groupBy(hits, ({ id }) => id).values()];
  const quiets = hits.filter(({ status }) => status === 429);
  return {
    attempts: hits.length,
    duplicates: byEvent.reduce((sum, same) => sum + Math.max(0, same.filter(succeeded).length - 1), 0),
    unsigned: hits.filter(({ verified }) => !verified).length,
    altered: byEvent.filter((same) => new Set(same.map(({ body }) => body)).size > 1).length,
    refused: hits.filter((hit) => !succeeded(hit)).length,
    atOnce: Math.max(0, ...hits.map(({ at }) => hits.filter((other) => isOpenAt(other, at)).length)),
    quiets: quiets.length,
    early: hits.flatMap(({ at }) => quiets.flatMap(({ answeredAt = at }) => intoQuiet(at - answeredAt))),
  };
}

function succeeded({ status = 0 }: Hit): boolean {
  return status >= 200 && status < 300;
}

function isOpenAt({ at, answeredAt = Number.POSITIVE_INFINITY }: Hit, moment: number): boolean {
  return at <= moment && moment < answeredAt;
}

function intoQuiet(ms: number): number[] {
  return ms > ON_THE_WAY_MS && ms < QUIET_S * 1000 ? [ms] : [];
}

// §§ What the gate of a destination is doing at this moment, told from the outside: from its status and from
// what its waiting deliveries say they wait for.

export type CircuitSummary = Readonly<
  | { kind: "open" }
  /** Open, and working off what has waited. */
  | { kind: "draining"; reason: string }
  | { kind: "held"; until: number }
  | { kind: "circuit_open"; until: number }
  | { kind: "probing" }
  | { kind: "paused" }
  | { kind: "deleted" }
>;

export function circuitSummaryOf(standing: DemoStanding, now: number): CircuitSummary {
  if (standing.status === "deleted") return { kind: "deleted" };
  if (standing.status === "paused") return { kind: "paused" };
  const first = standing.deliveries.find(({ state }) => state === "waiting");
  if (!first) return { kind: "open" };
  const until = Date.parse(first.waiting_until ?? "");
  switch (first.reason) {
    case "circuit_open":
      return until > now ? { kind: "circuit_open", until } : { kind: "probing" };
    case "probing":
      return { kind: "probing" };
    case "hold":
      return until > now ? { kind: "held", until } : { kind: "draining", reason: "hold" };
    default:
      return { kind: "draining", reason: first.reason ?? "" };
  }
}

/** In a few words, for the table. */
export function circuitText(door: CircuitSummary, standing: DemoStanding, now: number): string {
  switch (door.kind) {
    case "open":
      return "open";
    case "draining":
      return isSlow(door)
        ? `open, ${standing.customer.fate.settings.max_concurrency} at a time`
        : "open, draining";
    case "held":
      return `held ${secondsTo(door.until, now)} s`;
    case "circuit_open":
      return `circuit open ${secondsTo(door.until, now)} s`;
    case "probing":
      return "probing with one";
    case "paused":
      return "paused: gone";
    case "deleted":
      return `deleted, ${countOf(standing, "cancelled")} cancelled`;
  }
}

/** Whether deliveries wait for those before them, and for nothing else. */
export function isSlow(door: CircuitSummary): boolean {
  return door.kind === "draining" && (door.reason === "slow" || door.reason === "concurrency");
}

/** Whole seconds, never less than one while there is something to wait for. */
export function secondsTo(until: number, now: number): number {
  return Math.max(1, Math.ceil((until - now) / 1000));
}

// §§ Whether the demo may be believed: every promise that it shows is checked against what the receiver saw.

/** What was let in before the receiver asked for quiet hears of it from the gate within a second, and then stops. */
const LET_IN_MS = 1_000 + ON_THE_WAY_MS;

/** What went wrong, in sentences; empty when nothing did. */
export function faultsOf(standing: DemoStanding, posted: readonly Posted[], hits: readonly Hit[]): string[] {
  const { customer, planned } = standing;
  const { unsigned, altered, atOnce, early } = evidenceOf(hits);
  const limit = customer.fate.settings.max_concurrency;
  const late = early.filter((ms) => ms > LET_IN_MS).length;
  const ended = countOf(standing, "delivered", "dead", "cancelled");
  const faults = [
    unsigned > 0 && `${unsigned} requests had a signature that did not verify`,
    altered > 0 && `${altered} events changed their bytes between attempts`,
    atOnce > limit && `${atOnce} requests were under way at once; its limit is ${limit}`,
    late > 0 && `${late} requests were let in while it had asked for quiet`,
    ended < planned && `${planned - ended} of ${planned} deliveries have not ended`,
    ...endFaults(standing, posted, hits),
  ];
  return faults.flatMap((fault) => (fault ? [`${customer.fate.name}: ${fault}`] : []));
}

function endFaults(
  standing: DemoStanding,
  posted: readonly Posted[],
  hits: readonly Hit[],
): (string | false)[] {
  const { customer } = standing;
  const delivered = countOf(standing, "delivered");
  if (customer.fate.ends === "given up") {
    return [delivered > 0 && `${delivered} deliveries to a receiver that is gone count as delivered`];
  }
  const arrived = new Set(hits.filter(succeeded).map(({ id }) => id));
  const missing = posted.filter(
    ({ id, destinations }) => destinations.includes(customer.id) && !arrived.has(id),
  );
  return [missing.length > 0 && `${missing.length} accepted events did not arrive, ${missing[0]?.id} first`];
}
