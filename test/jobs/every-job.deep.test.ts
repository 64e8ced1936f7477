/**
 * Every upkeep job, held to the same four promises: one bad row stops nothing, an interruption between any two
 * statements loses nothing, a job whose budget ends in the middle continues, and what one tenant has stored costs no
 * other anything.
 *
 * A job says what it has to do and what is left; the tests are generated from the list.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { archiveNameOf } from "../../src/core/archive.ts";
import { bundleOf, eventAt } from "../../src/core/bundle.ts";
import { archiveCleaning } from "../../src/features/archive/job.ts";
import { deleteTenant, erasing, startErasure } from "../../src/features/erasures/job.ts";
import { type Erasure, findErasure } from "../../src/features/erasures/sql.ts";
import { publishLeftovers } from "../../src/features/notifications/publish.ts";
import { replaying } from "../../src/features/replays/job.ts";
import { contentRetention } from "../../src/features/retention/content-job.ts";
import { retention } from "../../src/features/retention/job.ts";
import { removeDeleted } from "../../src/jobs/deleted-destinations.ts";
import { sweep } from "../../src/jobs/sweep.ts";
import type { Services } from "../../src/services.ts";
import { beginReplay } from "../../src/store/replay-steps.ts";
import { readSystemHealth } from "../../src/store/stats.ts";
import { runCron } from "../../src/upkeep.ts";
import { insertRow } from "../support/api.ts";
import { emptyBucket, realBucket, storedObjects, testBucket } from "../support/bucket.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { rowsOfAll } from "../support/databases.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { execute, newDestination, newWorld, type World } from "../support/world.ts";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

let world: World;
let here: string;
async function begin(): Promise<void> {
  world = await newWorld();
  here = await newDestination();
}
beforeEach(begin);

type Job = Readonly<{
  /** Stores what the job has to do, some rows of it at a time. */
  arrange: () => Promise<void>;
  /** One invocation. */
  run: (services: Services) => Promise<unknown>;
  /** The remaining work. */
  left: () => Promise<readonly unknown[]>;
  /** The age of the bundles that it reads; absent: it reads none. */
  ageMs?: number;
  /** Time between two invocations. */
  everyMs?: number;
  /**
   * Whether it has to read every bundle of a period, whichever tenant's. Then only the cost of one invocation is
   * bounded.
   */
  walksAll?: true;
}>;

/** How many bundles, or rows, a job has to process. */
const MANY = 2;

type Past = Readonly<{ ageMs: number; deliverAt?: number; tenant?: string; count?: number }>;

/** Bundles of two events each, planned for one destination; returns their ids. */
async function bundles({ ageMs, deliverAt, tenant = "acme", count = MANY }: Past): Promise<number[]> {
  const acceptedAt = world.clock.now() - ageMs;
  const event = { tenant, type: "a", data: `of ${tenant}`, destinations: [here] };
  const rows = Array.from({ length: count }, () => ({ acceptedAt, deliverAt, events: [event, event] }));
  const events = await insertBundles(env.DB, rows);
  return [...new Set(events.map(bundleOf))];
}

/** The first event of each is delivered by its first attempt, the second one by a later one, whose log has an answer. */
async function delivered(past: Past, last: "delivered" | "dead" = "delivered"): Promise<number[]> {
  const ids = await bundles(past);
  const endedAt = world.clock.now() - past.ageMs;
  await execute(
    `INSERT INTO packs (destination_id, bundle_id, delivered0, ended_at)
     SELECT ?1, value, 1, ?2 FROM json_each(?3)`,
    ...[here, endedAt, JSON.stringify(ids)],
  );
  await execute(
    `INSERT INTO deliveries (destination_id, event_id, state, attempts, give_up_at, ended_at, log)
     SELECT ?1, value * 128 + 1, ?4, 2, 1, ?2, '[{"at":1,"latencyMs":1,"status":200,"excerpt":"secret"}]'
     FROM json_each(?3)`,
    ...[here, endedAt, JSON.stringify(ids), last],
  );
  return ids;
}

/** Bundles with content, and logs with answers, of events of this tenant. */
async function contentOf(tenant: string): Promise<unknown[]> {
  const left = await rowsOfAll(
    `SELECT id FROM bundles WHERE length(body) > 0 AND tokens <> 'bad' AND instr(header, '"' || ?1 || '"') > 0
     UNION ALL SELECT d.event_id FROM deliveries d JOIN bundles b ON b.id = d.event_id >> 7
     WHERE d.log LIKE '%excerpt%' AND instr(b.header, '"' || ?1 || '"') > 0`,
    tenant,
  );
  return left;
}

const settings = (columns: object, tenant = "acme") =>
  insertRow("tenant_settings", { tenant, created_at: 0, updated_at: 0, ...columns });

const replayId = "rpl_1";

async function replayOf(include: "dead" | "delivered" | "missing", destinationId = here): Promise<void> {
  const now = world.clock.now();
  const range = { since: 0, until: now + DAY, ratePerMinute: 6_000, pace: 6_000 };
  const at = { createdAt: now, updatedAt: now, nextStepAt: now, state: "running" as const };
  const all = { first: 1, last: Number.MAX_SAFE_INTEGER };
  const kept = { ms: 30 * DAY, types: {} };
  const job = { id: replayId, tenant: "acme", destinationId, include };
  await beginReplay(env.DB, { ...job, ...range, ...at }, all, 1_000, kept);
}

const stepOfReplay = async (services: Services) => {
  await replaying.run(services);
  await replaying.step(services, replayId);
};

const replayed = async (state: string) => {
  const rows = await rowsOfAll<{ state: string }>("SELECT state FROM replays");
  const left = await rowsOfAll("SELECT event_id FROM deliveries WHERE state = ?1 AND replay IS NULL", state);
  return [...left, ...rows.filter((row) => row.state !== "completed")];
};

let erasure: Erasure | undefined;
const stepOfErasure = async (services: Services) => {
  await erasing.run(services);
  if (erasure) await erasing.step(services, erasure.id);
};
const runningErasures = async () =>
  (await rowsOfAll<{ state: string }>("SELECT state FROM erasures")).filter(
    ({ state }) => state === "running",
  );

const jobs: Readonly<Record<string, Job>> = {
  "the sweep of lost deliveries": {
    ageMs: 10 * MINUTE,
    arrange: async () => void (await bundles({ ageMs: 10 * MINUTE })),
    run: sweep.run,
    left: () =>
      rowsOfAll(
        `SELECT id FROM bundles b WHERE tokens <> 'bad' AND accepted_at < ?1
           AND NOT EXISTS (SELECT 1 FROM packs WHERE bundle_id = b.id)
           AND NOT EXISTS (SELECT 1 FROM deliveries WHERE event_id >> 7 = b.id)`,
        world.clock.now() - 9 * MINUTE,
      ),
  },
  "the sweep of scheduled events": {
    ageMs: DAY,
    arrange: async () => void (await bundles({ ageMs: DAY, deliverAt: world.clock.now() + 90_000 })),
    run: sweep.run,
    left: async () => {
      for (const { body } of world.deliveryQueue.taken())
        for (const { bundle } of body.bundles) sent.add(bundle);
      const all = await rowsOfAll<{ id: number }>(
        "SELECT id FROM bundles WHERE deliver_at IS NOT NULL AND tokens <> 'bad'",
      );
      return all.filter(({ id }) => !sent.has(id));
    },
  },
  "the sweep of overdue retries": {
    ageMs: DAY,
    arrange: async () => {
      const ids = await bundles({ ageMs: DAY });
      await execute(
        `INSERT INTO deliveries (destination_id, event_id, state, attempts, give_up_at, next_attempt_at)
         SELECT ?1, value * 128, 'retrying', 1, ?2, ?3 FROM json_each(?4)`,
        ...[here, world.clock.now() + DAY, world.clock.now() - DAY, JSON.stringify(ids)],
      );
    },
    run: sweep.run,
    left: () => rowsOfAll("SELECT event_id FROM deliveries WHERE state = 'retrying'"),
  },
  "the sweep of expired deliveries": {
    ageMs: DAY,
    arrange: async () => {
      const ids = await bundles({ ageMs: DAY });
      await execute(
        `INSERT INTO deliveries (destination_id, event_id, state, attempts, give_up_at, next_attempt_at)
         SELECT ?1, value * 128, 'waiting', 1, ?2, ?2 FROM json_each(?3)`,
        ...[here, world.clock.now() - MINUTE, JSON.stringify(ids)],
      );
      await execute(
        `INSERT INTO packs (destination_id, bundle_id, waiting0, give_up_at)
         SELECT ?1, value, 2, ?2 FROM json_each(?3)`,
        ...[here, world.clock.now() - MINUTE, JSON.stringify(ids)],
      );
    },
    run: sweep.run,
    left: () =>
      rowsOfAll(
        `SELECT event_id FROM deliveries WHERE state = 'waiting' AND give_up_at < ?1
         UNION ALL SELECT bundle_id FROM packs WHERE waiting0 <> 0 AND give_up_at < ?1`,
        world.clock.now() - DAY / 2,
      ),
  },
  retention: {
    ageMs: 31 * DAY,
    arrange: async () => void (await delivered({ ageMs: 31 * DAY })),
    run: retention.run,
    left: () =>
      rowsOfAll(
        "SELECT id FROM bundles b WHERE accepted_at < ?1 AND tokens <> 'bad'",
        world.clock.now() - 30 * DAY,
      ),
  },
  "the removal of deleted destinations": {
    arrange: async () => {
      for (let i = 0; i < MANY; i++) {
        const id = await newDestination();
        await execute(
          "UPDATE destinations SET deleted_at = ?2 WHERE id = ?1",
          id,
          world.clock.now() - 31 * DAY,
        );
      }
    },
    run: removeDeleted,
    left: () => rowsOfAll("SELECT id FROM destinations WHERE deleted_at IS NOT NULL"),
  },
  "the erasing of what is over": {
    ageMs: 8 * DAY,
    everyMs: 6 * 60 * MINUTE,
    arrange: async () => {
      await settings({ retention_days: 7 });
      await delivered({ ageMs: 8 * DAY });
    },
    run: contentRetention.run,
    left: () => contentOf("acme"),
  },
  "the erasing of delivered content": {
    ageMs: 2 * MINUTE,
    everyMs: 15 * MINUTE,
    arrange: async () => {
      await settings({ payload_free: 1 });
      await delivered({ ageMs: 2 * MINUTE });
    },
    run: contentRetention.run,
    left: () => contentOf("acme"),
  },
  "an erasure": {
    ageMs: DAY,
    everyMs: 17 * MINUTE,
    walksAll: true,
    arrange: async () => {
      await delivered({ ageMs: DAY });
      erasure = await startErasure(world.services, "acme", { kind: "range", since: 0, until: undefined });
    },
    run: stepOfErasure,
    left: async () => [...(await contentOf("acme")), ...(await runningErasures())],
  },
  "the deletion of a tenant": {
    ageMs: DAY,
    everyMs: 17 * MINUTE,
    walksAll: true,
    arrange: async () => {
      await delivered({ ageMs: DAY });
      await settings({ contact_email: "a@b.example" });
      erasure = undefined;
    },
    run: async (services) => {
      erasure ??= await deleteTenant(services, "acme");
      await stepOfErasure(services);
    },
    left: async () => [
      ...(await contentOf("acme")),
      ...(await runningErasures()),
      ...(await rowsOfAll("SELECT id FROM destinations WHERE deleted_at IS NULL")),
      ...(await rowsOfAll("SELECT tenant FROM tenant_settings WHERE contact_email IS NOT NULL")),
    ],
  },
  "the cleaning of the archive": {
    ageMs: DAY,
    everyMs: 6 * 60 * MINUTE,
    arrange: async () => {
      await emptyBucket();
      const { bucket } = await testBucket();
      Object.assign(world.services, { bodies: bucket });
      const ids = await delivered({ ageMs: DAY });
      for (const id of [...ids, ...(await badBundles())])
        await realBucket.put(archiveNameOf({ event: eventAt(id, 0), destination: here, at: 1 }), "{}");
      for (const id of ids)
        await execute(
          `UPDATE bundles SET header = json_set(header, '$.erased', json('[0,1]'), '$.version', 2) WHERE id = ?1`,
          id,
        );
    },
    run: archiveCleaning.run,
    left: async () => {
      const kept = (await badBundles()).map((id) => eventAt(id, 0));
      return (await storedObjects()).filter(({ name }) => !kept.includes(Number(name.split("/")[1])));
    },
  },
  "a replay of dead deliveries": {
    ageMs: DAY,
    arrange: async () => {
      await delivered({ ageMs: DAY }, "dead");
      await replayOf("dead");
    },
    run: stepOfReplay,
    left: () => replayed("dead"),
  },
  "a replay of delivered deliveries": {
    ageMs: DAY,
    arrange: async () => {
      await delivered({ ageMs: DAY });
      await replayOf("delivered");
    },
    run: stepOfReplay,
    left: () => replayed("delivered"),
  },
  "a replay of missing deliveries": {
    ageMs: DAY,
    walksAll: true,
    arrange: async () => {
      await delivered({ ageMs: DAY });
      young = await newDestination();
      await replayOf("missing", young);
    },
    run: stepOfReplay,
    left: async () => {
      const planned = await rowsOfAll(
        `SELECT id FROM bundles WHERE tokens <> 'bad' AND instr(header, '"acme"') > 0
           AND plan -> ('$.' || ?1) IS NULL`,
        young,
      );
      const open = await rowsOfAll<{ state: string }>("SELECT state FROM replays WHERE state <> 'completed'");
      return [...planned, ...open];
    },
  },
  "the publishing of changed statuses": {
    arrange: async () => {
      await newDestination({ tenant: "operator" });
      for (let i = 0; i < MANY; i++)
        await insertRow("status_changes", {
          ...{ changed_at: world.clock.now() - 2 * MINUTE - i, destination_id: here, status: "paused" },
          ...{ reason: "manual", tenant: "acme", url: "https://example.com/" },
        });
    },
    run: publishLeftovers,
    left: async () => {
      const left = await rowsOfAll("SELECT changed_at FROM status_changes WHERE changed_at > 0");
      const stored = await rowsOfAll("SELECT id FROM bundles WHERE instr(header, 'destination.paused') > 0");
      return [...left, ...(stored.length === 0 ? ["nothing is published"] : [])];
    },
  },
};

const sent = new Set<number>();
let young = "";
beforeEach(() => sent.clear());

/** Invocations after which everything has to be done. */
const ROUNDS = 12;

async function runOn(job: Job): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    await job.run(world.services);
    await world.settled();
    const messages = world.upkeepQueue.taken().map(({ body }) => body);
    await world.answer(messages.filter((body) => !("destination" in body)));
    if ((await job.left()).length === 0) return;
    world.clock.pass(job.everyMs ?? 2 * MINUTE);
  }
}

const badBundles = async () =>
  (await rowsOfAll<{ id: number }>("SELECT id FROM bundles WHERE tokens = 'bad'")).map(({ id }) => id);

/** The bundles after an edit by hand, damage or a later version. */
const badness: Readonly<Record<string, string>> = {
  "a plan that is no JSON": "plan = 'oops'",
  "a plan that is no object": "plan = 'null'",
  "a plan whose runs are no list": `plan = '{"dst_x":"oops"}'`,
  "a header that is no JSON": "header = 'oops'",
  "a header of nothing": "header = '{}'",
  "a header whose parts are no lists": `header = json_set(header, '$.ttls', 'oops', '$.tags', 1, '$.erased', 'x', '$.keys', 2)`,
  "a header of a later version": "header = json_set(header, '$.version', 99)",
};

async function addBad(change: string, ageMs: number, deliverAt?: number): Promise<void> {
  for (const id of await bundles({ ageMs, count: 1, ...(deliverAt && { deliverAt }) }))
    await execute(`UPDATE bundles SET tokens = 'bad', ${change} WHERE id = ?1`, id);
}

const ofBundles = Object.entries(jobs).filter(([, { ageMs }]) => ageMs !== undefined);

describe.each(Object.entries(badness))("%s", (_, change) => {
  test.each(ofBundles)("does not stop %s", async (name, job) => {
    const deliverAt = name === "the sweep of scheduled events" ? world.clock.now() + 80_000 : undefined;
    await addBad(change, (job.ageMs ?? 0) + 1, deliverAt);
    await addBad(change, job.ageMs ?? 0, deliverAt);
    await job.arrange();
    await addBad(change, (job.ageMs ?? 0) - 1, deliverAt);
    await bundles({ ageMs: 0, count: 1, tenant: "rival" });
    await runOn(job);
    expect(await job.left()).toEqual([]);
  });
});

test("a status change with an impossible time does not block the others", async () => {
  const { arrange, left } = jobs["the publishing of changed statuses"] as Job;
  await arrange();
  await insertRow("status_changes", {
    ...{ changed_at: -1e16, destination_id: here, status: "paused" },
    ...{ reason: "manual", tenant: "acme", url: "https://example.com/" },
  });
  await runOn(jobs["the publishing of changed statuses"] as Job);
  expect(await left()).toEqual([]);
});

test("bad bundles are logged once each with their ids, and counted by a metric, however often jobs meet them", async () => {
  await settings({ retention_days: 7 });
  for (const change of Object.values(badness)) await addBad(change, 8 * DAY);
  await bundles({ ageMs: 8 * DAY });
  for (let minute = 0; minute < 4; minute++) {
    await runCron(world.services);
    world.clock.pass(MINUTE);
  }
  const logged = world.logged("bundle_unreadable").map(({ bundle }) => Number(bundle));
  expect(logged.toSorted((a, b) => a - b)).toEqual(await badBundles());
  expect((await readSystemHealth(world.services)).unreadable).toBe(logged.length);
});

test("lost deliveries of a repaired bundle are delivered, and it is no longer counted", async () => {
  const [id = 0] = await bundles({ ageMs: 10 * MINUTE, count: 1 });
  const [{ plan } = { plan: "" }] = await rowsOfAll<{ plan: string }>(
    "SELECT plan FROM bundles WHERE id = ?1",
    id,
  );
  await execute("UPDATE bundles SET plan = 'oops' WHERE id = ?1", id);
  await bundles({ ageMs: 0, count: 1, tenant: "rival" });
  await runCron(world.services);
  world.clock.pass(15 * MINUTE);
  await runCron(world.services);
  expect((await readSystemHealth(world.services)).unreadable).toBe(1);
  await execute("UPDATE bundles SET plan = ?2 WHERE id = ?1", id, plan);
  world.clock.pass(15 * MINUTE);
  await runCron(world.services);
  expect(await rowsOfAll("SELECT waiting0 FROM packs WHERE bundle_id = ?1", id)).toEqual([{ waiting0: 3 }]);
  expect((await readSystemHealth(world.services)).unreadable).toBe(0);
});

test("an erasure that could not read a bundle ends as incomplete and names it", async () => {
  await addBad("header = 'oops'", DAY);
  await delivered({ ageMs: DAY });
  const begun = await startErasure(world.services, "acme", { kind: "range", since: 0, until: undefined });
  for (let step = 0; step < 3; step++) {
    await erasing.step(world.services, begun?.id ?? "");
    world.clock.pass(17 * MINUTE);
  }
  expect(await contentOf("acme")).toEqual([]);
  const ended = await findErasure(world.services, begun?.id ?? "", "acme");
  expect(ended).toMatchObject({ state: "incomplete", unreadable: await badBundles(), events: 2 * MANY });
});

describe.each(Object.entries(jobs))("%s", (_, job) => {
  test("is completed after an interruption between any two statements", async () => {
    const arrange = async () => {
      await begin();
      sent.clear();
      await job.arrange();
      await bundles({ ageMs: 0, count: 1, tenant: "rival" });
      await world.settled();
      world.upkeepQueue.taken();
    };
    /** Returns how many round trips it has begun. After so many of them the Worker is killed: it does nothing any more. */
    const run = async (killedAfter: number) => {
      let trips = 0;
      const killed = Promise.withResolvers<void>();
      const db = interceptedD1(world.services.db, (_, work) => {
        trips += 1;
        if (trips <= killedAfter) return work();
        killed.resolve();
        return new Promise(() => {});
      });
      const pending: Promise<unknown>[] = [];
      const background = (work: Promise<unknown>) => void pending.push(work);
      const whole = async () => {
        await job.run({ ...world.services, db, background });
        await Promise.all(pending);
      };
      await Promise.race([whole(), killed.promise]);
      return trips;
    };
    await arrange();
    const all = await run(Number.POSITIVE_INFINITY);
    for (let killedAfter = 1; killedAfter <= all; killedAfter++) {
      await arrange();
      await run(killedAfter);
      world.upkeepQueue.taken();
      world.clock.pass(Math.max(2 * MINUTE, job.everyMs ?? 0));
      await runOn(job);
      expect([killedAfter, ...(await job.left())]).toEqual([killedAfter]);
    }
    // A job is started again for each of its statements, dozens of times.
  });

  test("is continued where its time has ended in the middle", async () => {
    await job.arrange();
    await bundles({ ageMs: 0, count: 1, tenant: "rival" });
    let trips = 0;
    let endsAt = 1;
    world.d1.failing(() => {
      trips += 1;
      if (trips === endsAt) world.clock.pass(16_000);
      return undefined;
    });
    for (; endsAt < 12 && (await job.left()).length > 0; endsAt++) {
      trips = 0;
      await job.run(world.services);
      world.clock.pass(Math.max(2 * MINUTE, job.everyMs ?? 0));
    }
    world.d1.failing(() => undefined);
    await runOn(job);
    expect(await job.left()).toEqual([]);
  });
});

/** The cost of one invocation beside a neighbour with this many bundles, which the job has processed before. */
async function costBeside(job: Job, neighbours: number) {
  await begin();
  sent.clear();
  const mine = here;
  here = await newDestination({ tenant: "neighbour" });
  await delivered({ ageMs: (job.ageMs ?? DAY) + MINUTE, tenant: "neighbour", count: neighbours });
  here = mine;
  await settings({ retention_days: 300 }, "neighbour");
  await job.arrange();
  for (let round = 0; round < 3; round++) {
    await job.run(world.services);
    world.clock.pass(job.everyMs ?? 2 * MINUTE);
  }
  world.d1.used();
  await job.run(world.services);
  return world.d1.used();
}

describe("a neighbour with ten times as many bundles", () => {
  const apart = Object.entries(jobs).filter(([name, { walksAll }]) => !walksAll && name !== "retention");

  test.each(apart)("costs %s no additional row or query", async (_, job) => {
    const few = await costBeside(job, 100);
    const many = await costBeside(job, 1_000);
    expect(many.rowsRead - few.rowsRead).toBeLessThan(50);
    expect(many.queries - few.queries).toBeLessThan(5);
  });

  test.each(
    Object.entries(jobs).filter(([, { walksAll }]) => walksAll),
  )("costs %s, which has to read them, a query for each page", async (_, job) => {
    await delivered({ ageMs: (job.ageMs ?? DAY) + MINUTE, tenant: "neighbour", count: 1_000 });
    await job.arrange();
    world.d1.used();
    await job.run(world.services);
    expect(world.d1.used().queries).toBeLessThan(400);
    await runOn(job);
    expect(await job.left()).toEqual([]);
  });
});
