/**
 * Archived exchanges are removed with the content that they are about: by retention, by erasures, with a tenant, for
 * tenants that keep no payloads; and also what is stored after that.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { archiveNameOf } from "../../src/core/archive.ts";
import { bundleOf, eventAt } from "../../src/core/bundle.ts";
import { beforeFirstOf } from "../../src/core/placement.ts";
import { archiveCleaning } from "../../src/features/archive/job.ts";
import { deleteTenant, eraseEvent, erasing, startErasure } from "../../src/features/erasures/job.ts";
import { type Erasure, findErasure } from "../../src/features/erasures/sql.ts";
import { createSvixApi } from "../../src/http/svix/app.ts";
import { deliveryId } from "../../src/ids.ts";
import { removeGone } from "../../src/store/archive.ts";
import { runCron } from "../../src/upkeep.ts";
import { insertRow, KEY, testApi } from "../support/api.ts";
import { emptyBucket, realBucket, storedObjects, type TestBucket, testBucket } from "../support/bucket.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { testDatabases } from "../support/databases.ts";
import { execute, newDestination, newWorld, rowOf, urlOf, type World } from "../support/world.ts";

const HOUR = 3_600_000;

let world: World;
let r2: TestBucket;
let here: string;
beforeEach(async () => {
  world = await newWorld();
  r2 = await testBucket();
  Object.assign(world.services, { bodies: r2.bucket });
  here = await newDestination();
});

/** Bundles of two events in each database, of two tenants; returns the events' numbers. */
async function events(): Promise<number[]> {
  const acceptedAt = world.clock.now();
  const all: number[] = [];
  for (const [database, db] of testDatabases.entries()) {
    const rows = ["acme", "rival"].map((tenant) => ({ tenant, type: "a", data: 1, destinations: [here] }));
    const id = bundleOf(beforeFirstOf(database)) + 10;
    all.push(...(await insertBundles(db, [{ id, acceptedAt, events: rows }])));
  }
  return all;
}

const keep = (event: number, at = 1) => realBucket.put(archiveNameOf({ event, destination: here, at }), "{}");

const left = async () => (await storedObjects()).map(({ name }) => Number(name.split("/")[1]));

async function complete(begun: Erasure | undefined, eachStep = async () => {}): Promise<Erasure> {
  if (!begun) throw new Error("The erasure has begun");
  for (let step = 0; step < 60; step++) {
    const found = await findErasure(world.services, begun.id, undefined);
    if (found?.state === "completed") return found;
    await erasing.step(world.services, begun.id).catch(() => {});
    await eachStep();
    world.clock.pass(60_000);
  }
  throw new Error("The erasure completes");
}

describe("the archive, after an erasure is completed,", () => {
  test("has nothing of the event, and still has others", async () => {
    const all = await events();
    for (const event of all) await keep(event);
    const [, , meant = 0] = all;
    await complete(await eraseEvent(world.services, "acme", meant));
    expect(await left()).toEqual(all.filter((event) => event !== meant));
  });

  test("has nothing of a tenant in any database, even of events that are no longer stored", async () => {
    const all = await events();
    for (const event of all) await keep(event);
    const gone = testDatabases.map((_, database) => beforeFirstOf(database) + eventAt(5, 1));
    for (const event of gone) await keep(event);
    await complete(await deleteTenant(world.services, "acme"));
    expect(await left()).toEqual(all.filter((event) => event % 2 === 1));
  });

  test("has nothing of a range of time, and still has later events", async () => {
    const all = await events();
    for (const event of all) await keep(event);
    world.clock.pass(HOUR);
    const until = world.clock.now();
    world.clock.pass(HOUR);
    const [later = 0] = await insertBundles(env.DB, [
      { id: 20, acceptedAt: world.clock.now(), events: [{ tenant: "acme", type: "a", data: 1 }] },
    ]);
    await keep(later);
    await complete(await startErasure(world.services, "acme", { kind: "range", since: undefined, until }));
    expect(await left()).toEqual(
      [...all.filter((event) => event % 2 === 1), later].toSorted((a, b) => a - b),
    );
  });

  test("has nothing that was stored after the first pass", async () => {
    const [event = 0] = await events();
    let steps = 0;
    await complete(await eraseEvent(world.services, "acme", event), async () => {
      if (++steps === 1) await keep(event);
    });
    expect(await left()).toEqual([]);
  });

  test("was available: while R2 is away, the erasure stays running", async () => {
    const [event = 0] = await events();
    await keep(event);
    const erasure = await eraseEvent(world.services, "acme", event);
    r2.before(() => Promise.reject(new Error("away")));
    await expect(complete(erasure)).rejects.toThrow("The erasure completes");
    expect(await left()).toEqual([event]);
    r2.before(() => {});
    const { events: erased, deliveries } = await complete(erasure);
    expect([erased, deliveries]).toEqual([1, 1]);
    expect(await left()).toEqual([]);
  });

  test("that hangs lets the step fail instead of the invocation", async () => {
    const [event = 0] = await events();
    const erasure = await eraseEvent(world.services, "acme", event);
    r2.before(() => new Promise<void>(() => {}));
    const step = erasing.step(world.services, erasure?.id ?? "");
    const failed = expect(step).rejects.toThrow("R2 did not answer in time");
    await world.clock.asleep(10_000);
    world.clock.pass(10_000);
    await failed;
  });
});

describe("a walk", () => {
  test("removes what retention has removed from D1, four times a day", async () => {
    const all = await events();
    for (const event of all) await keep(event);
    await runCron(world.services);
    expect(await left()).toEqual(all);
    await env.DB.prepare("DELETE FROM bundles").run();
    world.clock.pass(5 * HOUR);
    await archiveCleaning.run(world.services);
    expect(await left()).toEqual(all);
    world.clock.pass(HOUR);
    await archiveCleaning.run(world.services);
    expect(await left()).toEqual(all.slice(2));
    expect(world.logged("exchanges_removed")).toMatchObject([{ exchanges: 2 }]);
    expect(r2.called("list")).toBe(2);
  });

  test("keeps objects of unbound databases, and objects outside of the archive", async () => {
    const [event = 0] = await events();
    await keep(event);
    await keep(beforeFirstOf(testDatabases.length + 1) + eventAt(5, 0));
    await realBucket.put("backup/0000000000000001/x", "");
    await realBucket.put("attempts/readme", "");
    await archiveCleaning.run(world.services);
    expect(await storedObjects()).toHaveLength(4);
  });

  test("continues where a step has stopped, and gets past an event with more objects than a step can read", async () => {
    const all = await events();
    for (const event of all) for (let at = 0; at < 3; at++) await keep(event, at);
    const [, second = 0] = all;
    await execute("UPDATE bundles SET header = json_set(header, '$.erased', json('[1,1]'))");
    const small = {
      ...r2.bucket,
      list: (options: R2ListOptions) => r2.bucket.list({ ...options, limit: 1 }),
    } as unknown as R2Bucket;
    const archive = { bucket: small, sleep: world.services.sleep };
    let after = 0;
    for (let steps = 0; ; steps++) {
      if (steps > 60) throw new Error("The walk ends");
      const walked = await removeGone(world.services, archive, { after, last: 2 ** 53 - 1 }, () => false);
      if (walked.isLast) break;
      after = walked.upto;
    }
    const rest = await left();
    expect(rest).not.toContain(second);
    expect(new Set(rest)).toEqual(new Set(all.filter((event) => event % 2 === 0)));
  });

  test("costs one query if nothing is archived, and none without a bucket", async () => {
    await archiveCleaning.run(world.services);
    world.clock.pass(60_000);
    world.d1.used();
    await archiveCleaning.run(world.services);
    expect(world.d1.used()).toMatchObject({ queries: 1, rowsRead: 1 });
    await archiveCleaning.run({ ...world.services, bodies: undefined });
    expect(world.d1.used().queries).toBe(0);
  });

  test("that fails is restarted by the next cron", async () => {
    const all = await events();
    for (const event of all) await keep(event);
    await execute("DELETE FROM bundles");
    r2.before(() => Promise.reject(new Error("away")));
    await expect(archiveCleaning.run(world.services)).rejects.toThrow("away");
    r2.before(() => {});
    await archiveCleaning.run(world.services);
    expect(await left()).toEqual([]);
  });
});

describe("content that is removed", () => {
  /** An event whose first attempt failed with a long answer; then it is delivered. */
  async function delivered(isDelivered = true) {
    world.receiver.script(urlOf(here), () => new Response("x".repeat(2_000), { status: 500 }), 204);
    const [message] = await world.post();
    if (!message) throw new Error("The event is for the destination");
    await world.consume([message]);
    await world.settledThroughPauses();
    expect(await left()).toEqual([message.eventId]);
    world.clock.pass(120_000);
    if (isDelivered) await world.consume([message]);
    await world.settledThroughPauses();
    return message;
  }

  test("after delivery, for a tenant without payload retention, is also removed from the archive", async () => {
    await insertRow("tenant_settings", { tenant: "acme", payload_free: 1, created_at: 0, updated_at: 0 });
    const message = await delivered();
    await archiveCleaning.run(world.services);
    expect(await left()).toEqual([message.eventId]);
    await runCron(world.services);
    expect(await left()).toEqual([]);
    expect((await rowOf(message))?.log[0]).not.toHaveProperty("archived");
  });

  test("while R2 is away is removed from the archive by the next walk", async () => {
    await insertRow("tenant_settings", { tenant: "acme", payload_free: 1, created_at: 0, updated_at: 0 });
    await delivered();
    r2.before((method) => (method === "delete" ? Promise.reject(new Error("away")) : undefined));
    await archiveCleaning.run(world.services);
    await runCron(world.services);
    expect(await left()).toHaveLength(1);
    expect(world.logged("exchanges_not_removed")).toMatchObject([{ exchanges: 1 }]);
    r2.before(() => {});
    world.clock.pass(6 * HOUR);
    await archiveCleaning.run(world.services);
    expect(await left()).toEqual([]);
  });

  test("of one attempt, over the Svix API, is empty and stays so", async () => {
    const message = await delivered();
    const entry = (await rowOf(message))?.log[0];
    const id = `atmpt_${deliveryId(message.eventId, here).slice(4)}_${entry?.at.toString(36)}`;
    const services = { ...world.services, config: { ...world.services.config, adminKey: KEY } };
    const svix = testApi({ services, create: createSvixApi });
    await insertRow("applications", { id: "acme", name: "acme", created_at: 0, updated_at: 0 });
    const event = deliveryId(message.eventId, here).slice(4, 17);
    const path = `/api/v1/app/acme/msg/evt_${event}/attempt/${id}/content`;
    r2.before(() => Promise.reject(new Error("away")));
    const refused = await svix.call("DELETE", path);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, expect.any(String)]);
    expect((await rowOf(message))?.log[0]).toHaveProperty("archived");
    r2.before(() => {});
    expect((await svix.call("DELETE", path)).status).toBe(204);
    expect((await storedObjects()).map(({ text }) => text)).toEqual([""]);
    expect((await rowOf(message))?.log[0]).not.toHaveProperty("archived");
    await emptyBucket();
  });
});
