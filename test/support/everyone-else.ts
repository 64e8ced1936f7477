/**
 * A crowded database: a hundred thousand events and deliveries of a hundred tenants, in every state, and one tenant that
 * has a thousand of everything; and a catalogue of event types that is nearly full. Written by a few statements, in a few seconds.
 *
 * Ids of destinations and keys are spread so that those of the one tenant lie between those of the others.
 */
import { env } from "cloudflare:workers";
import { eventAt, MAX_EVENTS } from "../../src/core/bundle.ts";
import { MOST_TYPES } from "../../src/store/event-types.ts";
import { emptyDatabase, NOW } from "./api.ts";
import { type BundleRow, bundlesOf, type EventRow, insertBundles } from "./bundle-rows.ts";

export const CROWDED = "crowded";
const FOREIGN_EVENTS = 100_000;
/** How many destinations, keys, sessions, replays and deliveries of one event the tenant has. */
const THOUSAND = 1_000;
const FOREIGN_BUNDLES = FOREIGN_EVENTS / MAX_EVENTS;
/** The bundle of an event for all of the tenant's destinations. */
const WIDE_BUNDLE = FOREIGN_BUNDLES + 1;
export const WIDE_EVENT = eventAt(WIDE_BUNDLE, 0);
const OWN_EVENTS = 3_000;
const FOREIGN_DESTINATIONS = 2_000;
const DAY_MS = 86_400_000;

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";

/** SQL of an id. The first character spreads ids over all others; the second marks the owner. */
const idOf = (kind: string, owner: "f" | "m", n: string) =>
  `'${kind}_' || substr('${ALPHABET}', ${n} % 32 + 1, 1) || '${owner}' || printf('%018d', ${n})`;

/** The id of the tenant's n-th object of a kind. */
export function idOfOwn(kind: "dst" | "key" | "rpl" | "era" | "act", n: number): string {
  return `${kind}_${ALPHABET[n % 32]}m${String(n).padStart(18, "0")}`;
}

export function foreignDestination(n: number): string {
  return idOfOwn("dst", n).replace("m", "f");
}

const numbers = (count: number) =>
  `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`;

const destinationsOf = (owner: "f" | "m", count: number, tenant: string) => `
  INSERT INTO destinations (id, tenant, url, event_types, filter, secret, created_at, updated_at, deleted_at)
  ${numbers(count)}
  SELECT ${idOf("dst", owner, "i")}, ${tenant}, 'https://example.com/' || i, '["order.*"]',
    '{"order.total":{"gte":1},"order.status":["a","b"]}', 'x', ${NOW - 40 * DAY_MS}, ${NOW - 40 * DAY_MS},
    iif(${owner === "f" ? "i % 20 = 0" : "0"}, ${NOW - DAY_MS}, NULL) FROM n`;

/** Six in ten are delivered; one in ten each is waiting, retrying, dead and cancelled. */
const STATE = (n: string) => `CASE ${n} % 10 WHEN 0 THEN 'waiting' WHEN 1 THEN 'retrying' WHEN 2 THEN 'dead'
  WHEN 3 THEN 'cancelled' ELSE 'delivered' END`;

const DELIVERY_COLUMNS = `destination_id, event_id, state, reason, attempts, next_attempt_at, give_up_at,
  ended_at, last_status, log`;

const deliveryOf = (destination: string, event: string, n: string) => `${destination}, ${event}, ${STATE(n)},
  CASE ${n} % 10 WHEN 0 THEN 'circuit_open' WHEN 1 THEN 'http_503' WHEN 2 THEN 'exhausted' END,
  1 + ${n} % 3, iif(${n} % 10 = 1, ${NOW} + ${n} % 3600000, NULL), ${NOW + DAY_MS},
  iif(${n} % 10 > 1, ${NOW} - 1000, NULL), 503, '[{"at":${NOW},"latencyMs":5,"status":503}]'`;

/** Bundles of a hundred events each, spread over the past thirty days. */
function bundlesFrom(count: number, eventOf: (i: number) => EventRow): BundleRow[] {
  const events = Array.from({ length: count }, (_, i) => ({
    type: "order.paid",
    data: { order: { total: i + 1 } },
    ...eventOf(i + 1),
  }));
  const bundles = bundlesOf(events);
  return bundles.map(({ events }, i) => ({
    events,
    acceptedAt: NOW - (bundles.length - 1 - i) * Math.floor((30 * DAY_MS) / bundles.length),
  }));
}

/** SQL of the id of the i-th event from a bundle on. */
const eventFrom = (bundle: number) => `(${bundle} + (i - 1) / ${MAX_EVENTS}) * 128 + (i - 1) % ${MAX_EVENTS}`;

const ownId = idOf("dst", "m", "i");
/** The tenant's ordinary traffic goes to ten of its destinations. */
const busyId = idOf("dst", "m", "(1 + i % 10)");
const foreignId = idOf("dst", "f", `(1 + i % ${FOREIGN_DESTINATIONS})`);

const applicationsOf = (count: number, id: string) => `
  INSERT INTO applications (id, uid, name, created_at, updated_at) ${numbers(count)}
  SELECT ${id}, 'uid-' || ${id}, 'A name', ${NOW}, ${NOW} FROM n`;

/** Requested actions, of which one in ten waits for a decision. */
const actionsOf = (owner: "f" | "m", count: number, tenant: string) => `
  INSERT INTO agent_actions (id, tenant, tool, input, state, created_at, expires_at) ${numbers(count)}
  SELECT ${idOf("act", owner, "i")}, ${tenant}, 'pause_destination', '{}', iif(i % 10 = 5, 'pending', 'done'),
    ${NOW - 30 * DAY_MS} + i, ${NOW} + iif(i % 100 = 5, i, -i) FROM n`;

const keysOf = (owner: "f" | "m", count: number, tenant: string) => `
  INSERT INTO api_keys (id, tenant, scopes, hash, created_at, revoked_at) ${numbers(count)}
  SELECT ${idOf("key", owner, "i")}, ${tenant}, '["read"]', 'x', ${NOW},
    iif(${owner === "f" ? "i % 2" : "0"}, ${NOW}, NULL) FROM n`;

/** Changes. The tenant's are spread among the others, and concern its destinations. */
const changesOf = (owner: "f" | "m", count: number, tenant: string, offset: number) => `
  INSERT INTO audit_entries (id, at, tenant, actor, action, subject) ${numbers(count)}
  SELECT (${NOW - DAY_MS}) * 1024 + i * 100 + ${offset}, ${NOW - DAY_MS}, ${tenant},
    '{"kind":"admin_key","key":null,"session":null}', 'destination.paused', ${idOf("dst", owner, `(1 + i % ${THOUSAND})`)} FROM n`;

/** Sessions, of which nearly all are valid: expired ones were removed before. */
const sessionsOf = (owner: "f" | "m", count: number, tenant: string) => `
  INSERT INTO sessions (id, key_id, tenant, scopes, created_at, expires_at) ${numbers(count)}
  SELECT '${owner}' || i, NULL, ${tenant}, '["read"]', ${NOW} - i * 60000, ${NOW} + ${DAY_MS / 2} - i * 60000 FROM n`;

const replaysOf = (owner: "f" | "m", count: number, tenant: string, among: number) => `
  INSERT INTO replays (id, tenant, destination_id, include, since, until, rate_per_minute, state, pace,
    next_step_at, created_at, updated_at, ended_at) ${numbers(count)}
  SELECT ${idOf("rpl", owner, "i")}, ${tenant}, ${idOf("dst", owner, `(1 + i % ${among})`)}, 'dead', 0, ${NOW},
    100, iif(i < 20, 'running', iif(i % 2, 'completed', 'cancelled')), 100, ${NOW} + 60000, ${NOW}, ${NOW},
    iif(i < 20, NULL, ${NOW}) FROM n`;

const erasuresOf = (owner: "f" | "m", count: number, tenant: string) => `
  INSERT INTO erasures (id, tenant, kind, state, next_step_at, created_at, updated_at, ended_at) ${numbers(count)}
  SELECT ${idOf("era", owner, "i")}, ${tenant}, 'event', iif(i < 20, 'running', 'completed'), ${NOW} + 60000, ${NOW}, ${NOW},
    iif(i < 20, NULL, ${NOW}) FROM n`;

/** Event types. All but a few are archived, so that readers of the others skip them. */
const eventTypesUpTo = (count: number) => `
  INSERT INTO event_types (name, description, validates, archived_at, created_at, updated_at) ${numbers(count)}
  SELECT 'a.crowd.' || printf('%04d', i), 'One of a crowd', 0, iif(i <= 400, ${NOW}, NULL), ${NOW}, ${NOW} FROM n`;

/** Moves the rows of a state to packs. */
const packing = (state: "delivered" | "waiting", which: string) => [
  `INSERT INTO packs (destination_id, bundle_id, ${state}0, ${state}1, reason, give_up_at, ended_at)
   SELECT destination_id, event_id / 128, sum(iif(event_id % 128 < 50, 1 << (event_id % 128), 0)),
     sum(iif(event_id % 128 < 50, 0, 1 << (event_id % 128 - 50))), max(reason), max(give_up_at), max(ended_at)
   FROM deliveries WHERE state = '${state}' AND ${which} GROUP BY 1, 2
   ON CONFLICT DO UPDATE SET ${state}0 = excluded.${state}0, ${state}1 = excluded.${state}1`,
  `DELETE FROM deliveries WHERE state = '${state}' AND ${which}`,
];

const own = `'${CROWDED}'`;
const foreign = "'tenant' || (i % 100)";

/** Empties the first database and fills it. */
export async function inviteEveryone(): Promise<void> {
  await emptyDatabase();
  const ownDestinations = Array.from({ length: THOUSAND }, (_, i) => idOfOwn("dst", i + 1));
  await insertBundles(env.DB, [
    ...bundlesFrom(FOREIGN_EVENTS, (i) => ({
      tenant: `tenant${i % 100}`,
      destinations: [foreignDestination(1 + (i % FOREIGN_DESTINATIONS))],
    })),
    {
      acceptedAt: NOW - 1000,
      events: [{ tenant: CROWDED, type: "order.paid", destinations: ownDestinations }],
    },
    ...bundlesFrom(OWN_EVENTS, (i) => ({
      tenant: CROWDED,
      destinations: [idOfOwn("dst", 1 + (i % 10))],
    })),
  ]);
  const statements = [
    destinationsOf("f", FOREIGN_DESTINATIONS, foreign),
    destinationsOf("m", THOUSAND, own),
    // Foreign traffic.
    `INSERT INTO deliveries (${DELIVERY_COLUMNS}) ${numbers(FOREIGN_EVENTS)}
     SELECT ${deliveryOf(foreignId, eventFrom(1), "(i / 7)")} FROM n`,
    `INSERT INTO deliveries (${DELIVERY_COLUMNS}) ${numbers(THOUSAND)}
     SELECT ${deliveryOf(ownId, String(WIDE_EVENT), "i")} FROM n`,
    `INSERT INTO deliveries (${DELIVERY_COLUMNS}) ${numbers(OWN_EVENTS - 100)}
     SELECT ${deliveryOf(busyId, eventFrom(WIDE_BUNDLE + 1), "(i / 7)")} FROM n`,
    // Delivered ones are in packs, and so are half of the waiting ones.
    ...packing("delivered", "true"),
    ...packing("waiting", "event_id % 2"),
    applicationsOf(THOUSAND, "'app_' || i"),
    applicationsOf(1, own),
    keysOf("f", 10_000, foreign),
    keysOf("m", THOUSAND, own),
    changesOf("f", 50_000, foreign, 0),
    changesOf("m", THOUSAND, own, 7),
    sessionsOf("f", 10_000, foreign),
    sessionsOf("m", THOUSAND, own),
    replaysOf("f", 5_000, foreign, FOREIGN_DESTINATIONS),
    replaysOf("m", THOUSAND, own, THOUSAND),
    erasuresOf("f", 5_000, foreign),
    erasuresOf("m", THOUSAND, own),
    actionsOf("f", 5_000, foreign),
    actionsOf("m", THOUSAND, own),
    eventTypesUpTo(MOST_TYPES - 1),
    `INSERT INTO sweeps (id, watermark, heartbeat_at) VALUES (1, ${WIDE_BUNDLE - 1}, ${NOW - 60_000})`,
    `INSERT INTO cursors (name, at, row_id) VALUES ('keyed', 0, ${WIDE_BUNDLE - 1})`,
  ];
  for (const statement of statements) await env.DB.prepare(statement).run();
}
