/** The destinations of the scene, and how each of them stands. */
import { about, type Door, door, NOW, quiet, turns } from "./doors.ts";

const SECOND = 1000;
const DAY = 24 * 60 * 60 * SECOND;

export type Part = Readonly<{
  /** Columns of the table `destinations` that are not the usual ones. */
  row: Readonly<{ id: string; tenant: string; url: string } & Record<string, unknown>>;
  door: Door;
}>;

function part(
  name: string,
  tenant: string,
  url: string,
  stands: Door,
  columns: Record<string, unknown> = {},
): Part {
  const id = `dst_${name
    .toLowerCase()
    .replaceAll(/[^a-z]/g, "")
    .replaceAll(/[ilou]/g, "v")
    .padEnd(20, "0")}`;
  return { row: { id, tenant, url, description: name, ...columns }, door: stands };
}

const warehouse = about(46, 1);
const search = about(31, 2);
const fraud = about(58, 3);
const mail = about(12, 4);

/** Fails since six minutes: the circuit has opened, and each probe since has failed. */
export const billing = part(
  "Billing",
  "acme",
  "https://billing.acme.example/webhooks",
  door(
    (ago) =>
      ago > 6
        ? { first: mail(ago) }
        : { first: ago === 6 ? 14 : 0, retries: 2, failures: ago === 6 ? 12 : 2 },
    {
      circuit: "open",
      circuitUntil: NOW + 27 * SECOND,
      trips: 7,
      window: 1,
      tookMs: 2_140,
      refusal: { reason: "circuit_open", until: NOW + 27 * SECOND },
      history: turns([372, "circuit_opened", { times: 7 }]),
    },
  ),
  { event_types: ["order.*", "invoice.paid"], max_concurrency: 8 },
);

/** Was down, is replayed what it missed, and takes it well. */
export const ledger = part(
  "Ledger",
  "acme",
  "https://ledger.acme.example/in",
  door((ago) => ({ first: mail(ago), ...(ago > 9 && { failures: 4, retries: 3 }) }), {
    inFlight: 2,
    window: 6,
    tookMs: 184,
    history: turns([2_460, "circuit_opened"], [860, "circuit_closed"]),
  }),
);

const cast = [
  billing,
  ledger,
  part(
    "Warehouse",
    "acme",
    "https://warehouse.acme.example/events",
    door((ago) => ({ first: warehouse(ago) }), { inFlight: 3, tookMs: 92 }),
  ),
  part(
    "Search index",
    "acme",
    "https://search.acme.example/hooks/orders",
    door((ago) => ({ first: search(ago), failures: ago === 0 ? 3 : 0 }), {
      heldUntil: NOW + 94 * SECOND,
      window: 4,
      tookMs: 240,
      refusal: { reason: "hold", until: NOW + 94 * SECOND },
      history: turns([26, "held", { until: NOW + 94 * SECOND }]),
    }),
  ),
  part(
    "Fraud check",
    "globex",
    "https://risk.globex.example/score",
    door((ago) => ({ first: fraud(ago) }), { inFlight: 9, tookMs: 310 }),
    { max_concurrency: 40 },
  ),
  part(
    "Mail",
    "globex",
    "https://mail.globex.example/outgoing",
    door(
      (ago) => (ago > 3 ? { first: mail(ago), failures: mail(ago) } : { first: 6, retries: 8, failures: 1 }),
      {
        inFlight: 4,
        window: 4,
        tookMs: 655,
        history: turns([840, "circuit_opened"], [170, "circuit_closed"]),
      },
    ),
  ),
  part(
    "CRM",
    "initech",
    "https://crm.initech.example/sync",
    door((ago) => ({ first: ago === 0 ? 1 : 0, failures: ago === 0 ? 1 : 0 }), {
      circuit: "half_open",
      trips: 3,
      window: 1,
      inFlight: 1,
      refusal: { reason: "probing", until: null },
      history: turns([140, "circuit_opened"]),
    }),
  ),
  part("Old shop", "initech", "https://shop.initech.example/callback", door(quiet), {
    status: "paused",
    status_reason: "gone",
    status_changed_at: NOW - 3 * DAY,
  }),
  part("Reports", "initech", "https://reports.initech.example/", door(quiet), {
    status: "paused",
    status_reason: "manual",
    status_changed_at: NOW - 2 * 60 * 60 * SECOND,
  }),
  part("Archive", "initech", "https://archive.initech.example/put", door(quiet)),
] as const satisfies readonly Part[];

export const parts: readonly Part[] = cast;
export const doors: ReadonlyMap<string, Door> = new Map(parts.map(({ row, door }) => [row.id, door]));
