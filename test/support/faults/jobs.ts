/**
 * Scenarios of requests that change many deliveries at once, and of the jobs that they begin. A client that got no answer
 * repeats its request until it gets one.
 */

import { scopes } from "../../../src/core/scopes.ts";
import { createApp } from "../../../src/http/app.ts";
import { deliveryId } from "../../../src/ids.ts";
import type { Services } from "../../../src/services.ts";
import { rowsOfAll } from "../databases.ts";
import { replay } from "../platform.ts";
import { storedBodies } from "../stored-bodies.ts";
import { execute, newDestination, storedRows, TENANT, urlOf } from "../world.ts";
import { type Place, resume, type Scenario, SECOND } from "./scenario.ts";

type Bindings = { services: Services };

const app = createApp({
  services: (env) => (env as unknown as Bindings).services,
  authenticate: async () => ({ scopes }),
});

const context = {
  waitUntil: () => {},
  passThroughOnException: () => {},
  props: {},
} as unknown as ExecutionContext;

type Answer = Readonly<{ status: number; json: Readonly<Record<string, unknown>> }>;

/** Makes a request to the API and returns its answer; undefined if the Worker died first. */
async function request(
  { runtime }: Place,
  method: string,
  path: string,
  body?: object,
): Promise<Answer | undefined> {
  const headers = { authorization: "Bearer x", ...(body && { "content-type": "application/json" }) };
  const asked = new Request(`https://breakwater.test${path}`, {
    ...{ method, headers },
    ...(body && { body: JSON.stringify(body) }),
  });
  let answer: Answer | undefined;
  const isAlive = await runtime.invoke(`${method} ${path.split("/")[2]}`, async (services) => {
    // Failures in the background are repaired by others, and do not change the answer.
    const background = (work: Promise<unknown>) => services.background(work.catch(() => {}));
    const response = await app.fetch(
      asked,
      { services: { ...services, background } } as unknown as Env,
      context,
    );
    const text = await response.text();
    answer = { status: response.status, json: text === "" ? {} : JSON.parse(text) };
  });
  return isAlive ? answer : undefined;
}

/** Whether the request has been answered with success. */
async function isDone(place: Place, method: string, path: string, body?: object): Promise<boolean> {
  const answer = await request(place, method, path, body);
  return answer !== undefined && answer.status < 300;
}

/** Repeats an attempt until it is answered with success; later attempts do nothing. */
function until(attempt: (place: Place) => Promise<boolean>): (place: Place) => Promise<boolean> {
  const done = new WeakSet<object>();
  return async (place) => {
    if (done.has(place.world) || (await attempt(place))) done.add(place.world);
    return done.has(place.world);
  };
}

/** The first destination delivers, the second is paused, and the receiver of the third fails with a message. */
async function mixed({ world, platform, destinations: [, paused, failing = ""] }: Place): Promise<void> {
  await execute("UPDATE destinations SET status = 'paused' WHERE id = ?1", paused);
  world.receiver.script(urlOf(failing), () => new Response("what it was about", { status: 500 }));
  await platform.post(EVENTS);
  await platform.deliver();
}

const EVENTS = 3;

/**
 * Pauses one of the destinations and cancels everything that waits for it; cancels the deliveries to the others one by
 * one.
 */
const cancelled = until(async (place) => {
  const [all = "", ...single] = place.destinations;
  const ids = (await storedRows())
    .filter(({ destinationId, endedAt }) => single.includes(destinationId) && endedAt === null)
    .map(({ eventId, destinationId }) => deliveryId(eventId, destinationId));
  const cancelWaiting = () => isDone(place, "POST", `/v1/destinations/${all}/cancel-waiting`, {});
  for (const id of ids) if (!(await isDone(place, "POST", `/v1/deliveries/${id}/cancel`))) return false;
  return cancelWaiting();
});

const replayMissing = ({ runtime, destinations: [late = ""] }: Place) =>
  runtime.invoke("begin replay", (services) => replay(services, late, "missing"));

const erased = until((place) => isDone(place, "POST", "/v1/erasures", { tenant: TENANT, everything: true }));

const deleted = until((place) => isDone(place, "DELETE", `/v1/tenants/${TENANT}`));

/** Longer than an erasure waits between its passes. */
const QUIET_MS = 16 * 60 * SECOND;

/** A few rounds of an operator take longer than an erasure. */
const ROUND_MS = QUIET_MS / 3;

async function throughErasure({ platform }: Place): Promise<void> {
  await platform.drain();
  platform.later(QUIET_MS + SECOND);
  await platform.drain();
  await platform.cron();
  platform.later(SECOND);
  await platform.drain();
}

type Receipt = Readonly<{ events: number; deliveries: number; cancelled: number; endedAt: number | null }>;

/** The faults of the receipts, which together count everything once, and of the remaining rows. */
async function erasureFaults({ sent, destinations }: Place): Promise<string[]> {
  const receipts = await rowsOfAll<Receipt>(
    "SELECT events, deliveries, cancelled, ended_at AS endedAt FROM erasures",
  );
  const sum = (field: "events" | "deliveries" | "cancelled") =>
    receipts.reduce((total, one) => total + one[field], 0);
  const rows = (await storedRows()).filter(({ destinationId }) => destinations.includes(destinationId));
  const counted = rows.filter(({ reason }) => reason === "erased").length;
  const endedAt = Math.max(...receipts.map((one) => one.endedAt ?? 0));
  const bodies = await storedBodies();
  return [
    sum("events") !== EVENTS && `${sum("events")} events are on the receipts, of ${EVENTS}`,
    sum("deliveries") !== EVENTS * destinations.length &&
      `${sum("deliveries")} deliveries are on the receipts`,
    sum("cancelled") !== counted && `${sum("cancelled")} cancelled are on the receipts, of ${counted}`,
    bodies.filter((body) => body !== "").length !== (await foreignEvents()) && `bodies are left: ${bodies}`,
    /excerpt|note/.test(JSON.stringify(rows.map(({ log }) => log))) && "a receiver's answer is left",
    sent.some(({ at }) => at > endedAt) && "content was sent after the erasure had completed",
  ].filter((line) => line !== false);
}

async function foreignEvents(): Promise<number> {
  const rows = await rowsOfAll<{ n: number }>("SELECT count(*) AS n FROM events WHERE tenant <> ?1", TENANT);
  return rows.reduce((sum, { n }) => sum + n, 0);
}

async function missingFaults({ destinations: [late] }: Place): Promise<string[]> {
  type Counts = Readonly<{ requeued: number; delivered: number; failed: number }>;
  const replays = await rowsOfAll<Counts>("SELECT requeued, delivered, failed FROM replays");
  const sum = (field: keyof Counts) => replays.reduce((total, one) => total + one[field], 0);
  const rows = (await storedRows()).filter(({ destinationId }) => destinationId === late);
  const [plans] = await rowsOfAll<{ planned: number }>("SELECT sum(planned) AS planned FROM bundles");
  return [
    rows.length !== EVENTS && `${rows.length} of ${EVENTS} missing deliveries were made`,
    sum("requeued") !== EVENTS && `the replays have counted ${sum("requeued")} of ${EVENTS}`,
    sum("delivered") !== EVENTS && `the replays have counted ${sum("delivered")} as delivered`,
    sum("failed") !== 0 && `the replays have counted ${sum("failed")} as failed`,
    plans?.planned !== 2 * EVENTS && `the bundles count ${plans?.planned} deliveries`,
  ].filter((line) => line !== false);
}

const RIVAL = "dst_rival";

async function tenantFaults(): Promise<string[]> {
  const left = await rowsOfAll<{ what: string }>(
    `SELECT 'destination ' || id AS what FROM destinations
       WHERE tenant = ?1 AND (deleted_at IS NULL OR description IS NOT NULL OR sealed_headers IS NOT NULL)
     UNION ALL SELECT 'key ' || id FROM api_keys WHERE tenant = ?1 AND revoked_at IS NULL
     UNION ALL SELECT 'settings' FROM tenant_settings
       WHERE tenant = ?1 AND (contact_email IS NOT NULL OR deleted_at IS NULL)`,
    TENANT,
  );
  const rival = await rowsOfAll("SELECT id FROM destinations WHERE id = ?1 AND deleted_at IS NULL", RIVAL);
  return [...left.map(({ what }) => `${what} is left`), ...(rival.length === 1 ? [] : ["another's is gone"])];
}

export const requeueingScenarios: readonly Scenario[] = [
  {
    name: "what waits is cancelled, and its destinations are resumed then",
    ends: [["cancelled"], ["cancelled"]],
    async prepare({ platform }) {
      await execute("UPDATE destinations SET status = 'paused'");
      await platform.post(EVENTS);
      await platform.deliver();
    },
    async run(place) {
      if (!(await cancelled(place))) return;
      await resume(place);
      place.platform.later(SECOND);
      await place.platform.drain();
      await place.platform.cron();
    },
    async operator(place) {
      if (await cancelled(place)) await resume(place);
    },
    wrong: async ({ sent }) => sent.map(({ key }) => `${key} was sent`),
  },
  {
    name: "a delivery of a replay is cancelled",
    ends: [["delivered"], ["cancelled"]],
    async prepare({ world, platform, runtime, destinations: [, replayed = ""] }) {
      world.receiver.script(urlOf(replayed), 400);
      await platform.post(EVENTS);
      await platform.deliver();
      platform.later(SECOND);
      await runtime.invoke("begin replay", (services) => replay(services, replayed, "dead"));
      await platform.drain();
      await execute("UPDATE destinations SET status = 'paused' WHERE id = ?1", replayed);
    },
    async run(place) {
      await cancelled(place);
    },
    operator: (place) => cancelled(place).then(() => resume(place)),
    async wrong() {
      const counts = await rowsOfAll("SELECT requeued, delivered, failed FROM replays");
      const expected = JSON.stringify([{ requeued: EVENTS, delivered: 0, failed: EVENTS }]);
      return JSON.stringify(counts) === expected ? [] : [`the replay has counted ${JSON.stringify(counts)}`];
    },
  },
  {
    name: "a replay of missing events",
    ends: [["delivered"], ["delivered"]],
    async prepare({ platform, destinations: [late] }) {
      await execute(`UPDATE destinations SET event_types = '["none"]' WHERE id = ?1`, late);
      await platform.post(EVENTS);
      await platform.deliver();
      await execute("UPDATE destinations SET event_types = NULL WHERE id = ?1", late);
      platform.later(SECOND);
    },
    async run(place) {
      const { platform } = place;
      await replayMissing(place);
      await platform.drain();
      for (let step = 0; step < 3; step++) {
        platform.later(10 * SECOND);
        await platform.drain();
      }
      await platform.cron();
    },
    operator: replayMissing,
    wrong: missingFaults,
  },
];

export const erasingScenarios: readonly Scenario[] = [
  {
    name: "an erasure of everything",
    ends: [["delivered"], ["cancelled"], ["cancelled"]],
    prepare: mixed,
    async run(place) {
      await erased(place);
      await throughErasure(place);
    },
    operator: (place) => erased(place).then(() => place.platform.later(ROUND_MS)),
    wrong: erasureFaults,
  },
  {
    name: "a tenant is deleted",
    ends: [["delivered"], ["cancelled"], ["cancelled"]],
    async prepare(place) {
      await mixed(place);
      await newDestination({ id: RIVAL, tenant: "rival", description: "theirs" });
      await execute("UPDATE destinations SET description = 'mine' WHERE tenant = ?1", TENANT);
      await execute(
        "INSERT INTO tenant_settings (tenant, contact_email, created_at, updated_at) VALUES (?1, 'a@acme.example', 0, 0)",
        TENANT,
      );
      await execute(
        "INSERT INTO api_keys (id, hash, tenant, scopes, created_at) VALUES ('key_a', 'h', ?1, '[]', 0)",
        TENANT,
      );
    },
    async run(place) {
      await deleted(place);
      await throughErasure(place);
    },
    operator: (place) => deleted(place).then(() => place.platform.later(ROUND_MS)),
    wrong: async (place) => [...(await erasureFaults(place)), ...(await tenantFaults())],
  },
];
