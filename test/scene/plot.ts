/** The events of the scene, and what became of them at Billing and Ledger. */
import { eventAt } from "../../src/core/bundle.ts";
import type { BundleRow } from "../support/bundle-rows.ts";
import { billing, ledger } from "./cast.ts";
import { NOW } from "./doors.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const AGE_LIMIT = 72 * HOUR;

type Row = Readonly<Record<string, unknown>>;
type Scene = Readonly<{ bundles: readonly BundleRow[]; deliveries: readonly Row[]; replays: readonly Row[] }>;

type Tried = Readonly<{ at: number; status?: number; error?: string; latencyMs: number; excerpt?: string }>;

const down = { status: 503, latencyMs: 2_104, excerpt: "upstream connect error: connection refused" };

/** The one whose page is shown: tried, refused, tried again, and now held at the door. */
const HERO = 9_001;

/** Each event of the scene is alone in the bundle of its number. */
const eventOf = (bundle: number) => eventAt(bundle, 0);

export const HERO_EVENT = eventOf(HERO);

function event(
  id: number,
  type: string,
  acceptedAt: number,
  data: object,
  destinations: string[],
): BundleRow {
  return { id, acceptedAt, events: [{ tenant: "acme", type, data, destinations }] };
}

function delivery(destination: string, bundle: number, acceptedAt: number, more: Row): Row {
  return {
    destination_id: destination,
    event_id: eventOf(bundle),
    give_up_at: acceptedAt + AGE_LIMIT,
    ...more,
  };
}

function ended(log: readonly Tried[], state: "delivered" | "dead", reason: string | null): Row {
  const last = log.at(-1);
  return {
    state,
    reason,
    attempts: log.length,
    ended_at: (last?.at ?? 0) + (last?.latencyMs ?? 0),
    last_status: last?.status ?? null,
    log,
  };
}

function waiting(log: readonly Tried[]): Row {
  return {
    state: "waiting",
    reason: "circuit_open",
    attempts: log.length,
    last_status: log.at(-1)?.status ?? null,
    log,
  };
}

const fine = (at: number): Tried => ({ at, status: 200, latencyMs: 143 });

function hero(): Scene {
  const at = NOW - 6 * MINUTE - 41 * SECOND;
  const data = { order: "A-20418", total: "149.90", currency: "EUR", items: 3 };
  const tries = [0.8, 33, 121].map((s) => ({ ...down, at: at + s * SECOND }));
  return {
    bundles: [event(HERO, "order.created", at, data, [billing.row.id, ledger.row.id])],
    deliveries: [
      delivery(billing.row.id, HERO, at, waiting(tries)),
      delivery(
        ledger.row.id,
        HERO,
        at,
        ended(
          [{ at: at + 700, error: "timeout", latencyMs: 15_000 }, fine(at + 41 * SECOND)],
          "delivered",
          null,
        ),
      ),
    ],
    replays: [],
  };
}

/** Older than the trouble: all is well, but for one that Billing refused for good. */
function before(): Scene {
  const ids = Array.from({ length: 9 }, (_, i) => HERO - 1 - i);
  const at = (id: number) => NOW - (8 + (HERO - id) * 2.4) * MINUTE;
  const types = ["order.paid", "invoice.paid", "order.created"] as const;
  return {
    bundles: ids.map((id) =>
      event(id, types[id % 3] ?? "order.paid", at(id), { order: `A-${id}` }, [billing.row.id]),
    ),
    deliveries: ids.map((id) => {
      const end =
        id % 5 === 0
          ? ended(
              [{ at: at(id) + 600, status: 422, latencyMs: 88, excerpt: "unknown currency" }],
              "dead",
              "permanent",
            )
          : ended([fine(at(id) + 900)], "delivered", null);
      return delivery(billing.row.id, id, at(id), end);
    }),
    replays: [],
  };
}

/** Posted since: at the door, in order. */
function since(): Scene {
  const ids = Array.from({ length: 34 }, (_, i) => HERO + 1 + i);
  const at = (id: number) => NOW - (6 - (id - HERO) * 0.16) * MINUTE;
  return {
    bundles: ids.map((id) =>
      event(id, id % 2 ? "order.created" : "order.paid", at(id), { order: `A-${id}` }, [billing.row.id]),
    ),
    deliveries: ids.map((id) => delivery(billing.row.id, id, at(id), waiting([]))),
    replays: [],
  };
}

/** What Ledger missed yesterday is sent again: about half of it is there. */
function replayed(): Scene {
  const ids = Array.from({ length: 30 }, (_, i) => 8_000 + i);
  const at = (id: number) => NOW - 20 * HOUR + (id - 8_000) * 7 * SECOND;
  return {
    bundles: ids.map((id) => event(id, "payout.sent", at(id), { payout: id }, [ledger.row.id])),
    deliveries: ids.map((id) =>
      delivery(ledger.row.id, id, at(id), ended([{ ...down, at: at(id) + 700 }], "dead", "exhausted")),
    ),
    replays: [
      {
        id: "rpl_7k2m9q4x8v3n6t5w1c0z",
        tenant: "acme",
        destination_id: ledger.row.id,
        include: "dead",
        since: NOW - 30 * 24 * HOUR,
        until: NOW - 4 * MINUTE,
        rate_per_minute: 100,
        state: "running",
        cursor: eventOf(8_029),
        total: 1_240,
        requeued: 612,
        delivered: 588,
        failed: 2,
        pace: 141.4,
        next_step_at: NOW + 4 * SECOND,
        created_at: NOW - 5 * MINUTE,
        updated_at: NOW - 6 * SECOND,
      },
    ],
  };
}

export const scenes: readonly Scene[] = [hero(), before(), since(), replayed()];
