/**
 * The five customers of the demo: what each takes, what its endpoint is like, and what it asks of
 * Breakwater. The waits are short so that a story of hours fits into a minute; the mechanism is the same.
 */
import type { Reply } from "../receiver.ts";

/** A request to one endpoint: its number there, from 1, and the time since the first. */
export type Turn = Readonly<{ nth: number; sinceFirstMs: number }>;

export type Fate = Readonly<{
  name: string;
  behaviour: string;
  eventTypes: readonly string[];
  /** As `POST /v1/destinations` takes them. */
  settings: Readonly<{ max_concurrency: number } & Record<string, unknown>>;
  answer: (turn: Turn) => Reply;
  /** How its deliveries must end. */
  ends: "delivered" | "given up";
}>;

const OUTAGE_MS = 15_000;
export const QUIET_S = 5;
const QUIET_EVERY = 20;
const QUIETS = 3;

export const fates: readonly Fate[] = [
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
      nth % QUIET_EVERY === 0 && nth <= QUIETS * QUIET_EVERY
        ? { status: 429, headers: { "retry-after": String(QUIET_S) } }
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
    ends: "given up",
  },
];
