/**
 * The demo's scenario: five customers, what each subscribes to and how its endpoint behaves, and the events that
 * are posted. Waits are short so that hours fit into a minute; the mechanism is the same.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { AcceptedEvent, AcceptedEvents } from "../../client/src/api.ts";
import { oneOf, seededRandom } from "../../src/core/seeded-random.ts";
import { type Hit, type ReceiverServer, type Reply, startReceiver } from "../receiver.ts";
import type { ApiClient } from "../stack.ts";

/** A request to one endpoint: its number there, from 1, and the time since the first. */
type EndpointRequest = Readonly<{ nth: number; sinceFirstMs: number }>;

export type Profile = Readonly<{
  name: string;
  behaviour: string;
  eventTypes: readonly string[];
  /** As `POST /v1/destinations` takes them. */
  settings: Readonly<{ max_concurrency: number } & Record<string, unknown>>;
  answer: (request: EndpointRequest) => Reply;
  ends: "delivered" | "dead";
}>;

const OUTAGE_MS = 15_000;
export const RETRY_AFTER_S = 5;
/** One endpoint answers 429 to every 20th request, three times. */
const RATE_LIMIT_EVERY = 20;
const RATE_LIMITS = 3;

export const profiles: readonly Profile[] = [
  {
    name: "storefront",
    behaviour: "healthy",
    eventTypes: ["order.*"],
    settings: { max_concurrency: 10 },
    answer: () => ({ status: 200, afterMs: 20 }),
    ends: "delivered",
  },
  {
    name: "billing",
    behaviour: "500 for 15 s",
    eventTypes: ["invoice.*"],
    settings: {
      max_concurrency: 10,
      retry: { schedule: [2, 4, 6], jitter: "equal", max_attempts: 20 },
      breaker: { min_attempts: 3, window_s: 30, cooldown_s: 3, max_cooldown_s: 6 },
    },
    answer: ({ sinceFirstMs }) => ({ status: sinceFirstMs < OUTAGE_MS ? 500 : 200, afterMs: 20 }),
    ends: "delivered",
  },
  {
    name: "crm",
    behaviour: "429 at times",
    eventTypes: ["user.*"],
    settings: { max_concurrency: 10, retry: { schedule: [2, 4, 6], jitter: "equal", max_attempts: 20 } },
    answer: ({ nth }) =>
      nth % RATE_LIMIT_EVERY === 0 && nth <= RATE_LIMITS * RATE_LIMIT_EVERY
        ? { status: 429, headers: { "retry-after": String(RETRY_AFTER_S) } }
        : { status: 200, afterMs: 20 },
    ends: "delivered",
  },
  {
    name: "warehouse",
    behaviour: "takes 1.5 s",
    eventTypes: ["order.paid", "shipment.*"],
    settings: { max_concurrency: 4, timeout_ms: 5_000 },
    answer: () => ({ status: 200, afterMs: 1_500 }),
    ends: "delivered",
  },
  {
    name: "old-app",
    behaviour: "410, gone",
    eventTypes: ["user.updated"],
    settings: { max_concurrency: 10 },
    answer: () => ({ status: 410 }),
    ends: "dead",
  },
];

/** Starts the endpoints on one server. Each behaves by its profile, which sees only its own requests. */
export function startEndpoints(): Promise<ReceiverServer> {
  const seen = new Map<string, { nth: number; firstAt: number }>();
  return startReceiver(({ path, at }: Hit) => {
    const profile = profiles.find(({ name }) => path === `/${name}`);
    if (!profile) return { status: 404 };
    const { nth, firstAt } = seen.get(path) ?? { nth: 0, firstAt: at };
    seen.set(path, { nth: nth + 1, firstAt });
    return profile.answer({ nth: nth + 1, sinceFirstMs: at - firstAt });
  });
}

export const EVENTS = 300;
const SEED = 20_26;
const PER_TICK = { single: 5, batch: 10 };
const TICK_MS = 1_000;

/** An accepted event: where it goes, and when the 202 arrived (epoch ms). */
export type Posted = Readonly<{ id: string; destinations: readonly string[]; at: number }>;

/** Posts events at a steady rate, some one by one and some in batches; `posted` grows meanwhile. */
export async function postTraffic(api: ApiClient, posted: Posted[]): Promise<void> {
  const random = seededRandom(SEED);
  const record = (accepted: readonly AcceptedEvent[]) => {
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
      record([await api.post<AcceptedEvent>("/v1/events", event)]);
    }
    const events = newEvents(PER_TICK.batch, random);
    record((await api.post<AcceptedEvents>("/v1/events/batch", { events })).events);
    await next;
  }
}

// The events: what a shop's systems would post, the same for the same seed.

type NewEvent = Readonly<{ type: string; data: unknown }>;

type Random = () => number;

const products = ["mug-blue", "tea-assam-250", "scarf-wool", "lamp-oak", "notebook-a5"] as const;
const firstNames = ["Ada", "Jonas", "Mei", "Tomás", "Leila", "Sam", "Ingrid", "Kofi"] as const;
const carriers = ["DHL", "PostNL", "UPS"] as const;

const order = (random: Random) => {
  const quantity = 1 + Math.floor(random() * 3);
  return {
    order_id: idOf("ord", random),
    customer_id: idOf("cus", random),
    items: [{ sku: oneOf(products, random), quantity }],
    total: { amount: quantity * priceOf(random), currency: "EUR" },
  };
};

const invoice = (random: Random) => ({
  invoice_id: idOf("inv", random),
  order_id: idOf("ord", random),
  amount_due: { amount: priceOf(random), currency: "EUR" },
});

const user = (random: Random) => {
  const name = oneOf(firstNames, random);
  const email = `${name
    .normalize("NFD")
    .replace(/[^A-Za-z]/g, "")
    .toLowerCase()}@example.com`;
  return { user_id: idOf("usr", random), name, email, marketing: random() < 0.5 };
};

const shipment = (random: Random) => ({
  shipment_id: idOf("shp", random),
  order_id: idOf("ord", random),
  carrier: oneOf(carriers, random),
});

/** A type is listed as often as its share of the traffic. */
const kinds = [
  { type: "order.created", data: order },
  { type: "order.created", data: order },
  { type: "order.paid", data: order },
  { type: "invoice.created", data: invoice },
  { type: "invoice.paid", data: invoice },
  { type: "user.created", data: user },
  { type: "user.updated", data: user },
  { type: "shipment.dispatched", data: shipment },
] as const;

function newEvents(count: number, random: Random): NewEvent[] {
  return Array.from({ length: count }, () => {
    const { type, data } = oneOf(kinds, random);
    return { type, data: data(random) };
  });
}

function idOf(prefix: string, random: Random): string {
  return `${prefix}_${Math.floor(random() * 36 ** 8)
    .toString(36)
    .padStart(8, "0")}`;
}

/** In cents. */
function priceOf(random: Random): number {
  return 495 + 100 * Math.floor(random() * 120);
}
