/** Destinations that share a receiver: the group's object, what Workers carry, and what it costs. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { type GroupState, newGroupState } from "../../src/core/group/group-state.ts";
import { groupOf, memberOf, sharedHostsOf } from "../../src/delivery/group.ts";
import { noteSharedHosts } from "../../src/features/groups/shared-hosts.ts";
import { saveGroup } from "../../src/gate/group-storage.ts";
import { newDestinationId } from "../../src/ids.ts";
import type { DrainMessage } from "../../src/queue-messages.ts";
import type { Destination } from "../../src/store/destination.ts";
import { accept } from "../support/accept.ts";
import { newIsolate } from "../support/isolates.ts";
import { fakeQueue } from "../support/queues.ts";
import { execute, newDestination, newWorld, storedRows, type World } from "../support/world.ts";

let world: World;
let group: string;
let number = 0;
beforeEach(async () => {
  world = await newWorld();
  // Objects outlive a world.
  number += 1;
  group = `shared-${number}`;
});

const tenants = ["acme", "globex", "initech"];

/** A destination of that tenant in the group. */
async function member(tenant = "acme", path = tenant): Promise<{ id: string; url: string }> {
  const url = `https://shared.example/${path}`;
  return { id: await newDestination({ tenant, url, group }), url };
}

/** Posts an event of each tenant, and delivers all of them in one batch. */
async function deliver(names: string): Promise<void> {
  const type = "order.paid";
  await accept(
    world.services,
    names.split(", ").map((tenant) => ({ tenant, type, data: {} })),
  );
  await world.settled();
  const messages = world.deliveryQueue.taken().map(({ body }) => body);
  await world.consume(messages);
  await world.settled();
}

const busy = () => new Response(null, { status: 429, headers: { "retry-after": "600" } });

const request = (tenant: string, slots: number) => ({
  slots,
  sends: slots,
  leaseMs: 30_000,
  report: {
    ...{ member: `dst_${tenant}`, tenant, ends: [], succeeded: 0, failed: 0, unreached: 0, limited: 0 },
    ...{ waitMs: 0, isOneHost: false },
  },
});

const groupObject = () => env.GROUPS.get(env.GROUPS.idFromName(group));
const settings = {
  maxConcurrency: 8,
  ratePerSecond: 1_000,
  rateBurst: 100,
  breaker: { failureRatio: 0.5, minAttempts: 5, windowMs: 60_000, cooldownMs: 30_000, maxCooldownMs: 45_000 },
};

describe("a destination in no group", () => {
  it("costs no call, no query and no row more", async () => {
    await newDestination();
    await deliver("acme");
    world.gates.called();
    world.d1.used();
    await deliver("acme");
    expect(world.gates.called()).toEqual(["admit", "settle"]);
    expect(world.groups.called()).toEqual([]);
    expect(world.services.memory.groupSettings.get(group)).toBeUndefined();
  });
});

describe("a destination in a group", () => {
  it("gets deliveries under a block, for one call of the group and one more of the gate", async () => {
    const { url } = await member();
    await deliver("acme");
    expect(world.receiver.to(url)).toHaveLength(1);
    expect(world.gates.called()).toEqual(["admit", "admit", "settle"]);
    expect(world.groups.called()).toEqual(["deal"]);
    expect(await storedRows()).toMatchObject([{ state: "delivered" }]);
  });

  it("has the limits of its group's row, which is read once in ten seconds", async () => {
    await execute(
      "INSERT INTO groups (name, max_concurrency, created_at, updated_at) VALUES (?1, 3, 0, 0)",
      group,
    );
    await member();
    await deliver("acme");
    expect(world.services.memory.groupSettings.get(group)?.settings.maxConcurrency).toBe(3);
    const read = world.d1.used().queries;
    await deliver("acme");
    expect(world.d1.used().queries).toBeLessThan(read);
  });

  it("is retried later, without an attempt, when the group cannot be reached", async () => {
    const { url } = await member();
    world.groups.before(() => {
      throw new Error("The group is away");
    });
    await deliver("acme");
    expect(world.receiver.to(url)).toEqual([]);
    expect(world.logged("group_unreachable")).toHaveLength(1);
    expect(await storedRows()).toEqual([]);
  });

  it("has its lease settled if the group's limits can no longer be read", async () => {
    const { url } = await member();
    world.receiver.script(url, () => {
      world.services.memory.groupSettings.delete(group);
      world.d1.failing((sql) => (sql.includes('from "groups"') ? "before" : undefined));
      return new Response(null, { status: 500 });
    });
    await deliver("acme");
    expect(world.logged("group_unreachable")).not.toEqual([]);
    expect(world.gates.called()).toContain("settle");
  });

  it("waits with the reason `group` when the shared capacity is out", async () => {
    const { id } = await member();
    await groupObject().deal(request("other", 8), settings);
    await execute(
      "INSERT INTO groups (name, max_concurrency, created_at, updated_at) VALUES (?1, 7, 0, 0)",
      group,
    );
    await deliver("acme");
    expect(world.receiver.calls).toEqual([]);
    expect(await storedRows()).toMatchObject([{ destinationId: id, state: "waiting", reason: "group" }]);
    expect((await groupObject().view(settings)).waiting).toBe(1);
  });

  it("does not stop for failures of one tenant's path, but for those of two", async () => {
    const [acme, globex, initech] = await Promise.all(tenants.map((tenant) => member(tenant)));
    world.receiver.script(acme?.url ?? "", 500);
    for (let i = 0; i < 4; i++) await deliver("acme");
    expect((await groupObject().view(settings)).circuit).toBe("closed");
    await deliver("initech");
    expect(world.receiver.to(initech?.url ?? "")).toHaveLength(1);
    world.receiver.script(globex?.url ?? "", 503);
    for (let i = 0; i < 4; i++) await deliver("globex");
    expect((await groupObject().view(settings)).circuit).toBe("open");
    await deliver("initech");
    expect(world.receiver.to(initech?.url ?? "")).toHaveLength(1);
    const waiting = (await storedRows()).filter(({ destinationId }) => destinationId === initech?.id);
    expect(waiting.some(({ state, reason }) => state === "waiting" && reason === "group")).toBe(true);
  });

  it("is held with all others for at most a minute when one tenant got Retry-After", async () => {
    const { url } = await member("acme");
    const other = await member("globex");
    world.receiver.script(url, busy);
    await deliver("acme");
    const { heldUntil } = await groupObject().standing();
    expect(heldUntil - Date.now()).toBeGreaterThan(0);
    expect(heldUntil - Date.now()).toBeLessThanOrEqual(60_000);
    await deliver("globex");
    expect(world.receiver.to(other.url)).toEqual([]);
  });

  it("is held with all others for the Retry-After that two tenants got", async () => {
    const members = [await member("acme"), await member("globex")];
    for (const { url } of members) world.receiver.script(url, busy);
    await deliver("acme, globex");
    const { heldUntil } = await groupObject().standing();
    expect(heldUntil - Date.now()).toBeGreaterThan(500_000);
  });

  it("is called by a drain when capacity is given back", async () => {
    const { id } = await member();
    await groupObject().deal(request("other", 8), settings);
    await execute(
      "INSERT INTO groups (name, max_concurrency, created_at, updated_at) VALUES (?1, 7, 0, 0)",
      group,
    );
    await deliver("acme");
    const sent = fakeQueue<DrainMessage>();
    const { runInDurableObject } = await import("cloudflare:test");
    await runInDurableObject(groupObject(), (object) => {
      Object.assign(object, { env: { DRAINS: sent.queue } });
    });
    const wide = { ...settings, maxConcurrency: 100 };
    await groupObject().report({ ...request("third", 1).report }, wide);
    const calls = sent.taken().map(({ body }) => body);
    expect(calls).toEqual([{ destination: id, drains: 1 }]);
    await execute("UPDATE groups SET max_concurrency = 100");
    world.services.memory.groupSettings.delete(group);
    await world.answer(calls);
    await world.settled();
    expect(await storedRows()).toMatchObject([{ state: "delivered" }]);
  });

  it("keeps its capacity through an eviction of the group's object", async () => {
    await groupObject().deal(request("other", 7), settings);
    const { evictDurableObject } = (await import("cloudflare:test")) as unknown as {
      evictDurableObject?: (stub: unknown) => Promise<void>;
    };
    await evictDurableObject?.(groupObject());
    expect(await groupObject().view(settings)).toMatchObject({ inFlight: 7 });
    expect(await groupObject().deal(request("third", 7), settings)).toMatchObject({ block: { slots: 1 } });
  });
});

describe("the group of a destination", () => {
  it.each([
    [null, "https://a.example/x", [], undefined],
    ["billing", "https://a.example/x", [], "billing"],
    ["billing", "queue:ORDERS", [], "billing"],
    ["host", "https://A.example/x", [], "host:a.example"],
    ["host", "https://a.example:8443/x", [], "host:a.example:8443"],
    ["host", "queue:ORDERS", [], undefined],
    [null, "https://a.example/x", ["a.example"], "host:a.example"],
    [null, "https://a.example:8443/x", ["a.example"], undefined],
    [null, "https://b.a.example/x", ["*.a.example"], "host:b.a.example"],
    [null, "https://ba.example/x", ["*.a.example"], undefined],
    ["billing", "https://a.example/x", ["a.example"], "billing"],
    ["host:evil", "https://a.example/x", [], undefined],
  ])("of group %j at %s with shared hosts %j is %j", (given, url, shared, expected) => {
    expect(groupOf({ group: given, url }, shared)).toBe(expected);
  });
});

describe("if hosts with more than two destinations are shared", () => {
  const at = (url: string, tenant = "acme") => newDestination({ tenant, url });
  const shared = async () => [...(await sharedHostsOf(world.services))].toSorted();
  /** The services of another isolate, which remembers nothing. */
  const elsewhere = () => newIsolate().own(world.services);

  beforeEach(async () => {
    Object.assign(world.services.config, { sharedHosts: 2 });
    for (const path of ["", "a", "b?c=https://few.example/"])
      for (const host of ["many.example", "many.example:8443"]) await at(`https://${host}/${path}`);
    await at("https://few.example/a");
    await at("https://few.example/b", "globex");
    await at("queue:MANY");
    await at("https://gone.example/a");
    await at("https://gone.example/b");
    const gone = await at("https://gone.example/c");
    await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", gone);
  });

  it("they are counted by the cron, and each is a group", async () => {
    expect(await shared()).toEqual([]);
    await noteSharedHosts(world.services);
    // An isolate learns of it within a minute.
    expect(await shared()).toEqual([]);
    world.clock.pass(60_000);
    expect(await shared()).toEqual(["many.example", "many.example:8443"]);
    const url = "https://many.example/x";
    expect(await memberOf(world.services, { group: null, url } as Destination)).toMatchObject({
      group: "host:many.example",
    });
  });

  it("they are counted once an hour, and at once after a change of the number", async () => {
    await noteSharedHosts(world.services);
    await at("https://few.example/c");
    world.clock.pass(3_599_999);
    await noteSharedHosts(world.services);
    expect(await sharedHostsOf(elsewhere())).not.toContain("few.example");
    world.clock.pass(1);
    await noteSharedHosts(world.services);
    expect(await sharedHostsOf(elsewhere())).toContain("few.example");
    Object.assign(world.services.config, { sharedHosts: 3 });
    expect(await sharedHostsOf(elsewhere())).toEqual([]);
    await noteSharedHosts(world.services);
    expect(await sharedHostsOf(elsewhere())).toEqual([]);
    const { results } = await env.DB.prepare("SELECT most FROM shared_hosts").all();
    expect(results).toEqual([{ most: 3 }]);
  });

  it("deliveries are sent with a block of the group, and an isolate reads the hosts once a minute", async () => {
    await noteSharedHosts(world.services);
    await deliver("acme");
    expect(world.groups.called()).toContain("deal");
    world.d1.used();
    for (let i = 0; i < 5; i++) await sharedHostsOf(world.services);
    expect(world.d1.used()).toMatchObject({ queries: 0 });
  });

  it("the last ones are used while they cannot be read", async () => {
    await noteSharedHosts(world.services);
    const known = await shared();
    world.clock.pass(60_000);
    const broken = {
      ...world.services,
      db: {
        prepare: () => {
          throw new Error("D1 is away");
        },
      } as never,
    };
    expect([...(await sharedHostsOf(broken))].toSorted()).toEqual(known);
    await expect(sharedHostsOf(newIsolate().own(broken))).rejects.toThrow("D1 is away");
  });

  it("none of them is known where the list was edited into something else", async () => {
    await noteSharedHosts(world.services);
    await execute("UPDATE shared_hosts SET hosts = '{}'");
    await deliver("acme");
    expect(await shared()).toEqual([]);
    expect(world.receiver.calls).not.toEqual([]);
  });
});

describe("a group's stored state", () => {
  const long = "t".repeat(100);
  const stored = (blocks: number) => {
    const each = <T>(count: number, one: (i: number) => T) => Array.from({ length: count }, (_, i) => one(i));
    const at = world.clock.now();
    const state: GroupState = {
      ...newGroupState(at),
      settings,
      blocks: each(blocks, (i) => ({
        ...{ id: `mh0000000-zz-${1_000_000 + i}`, member: newDestinationId(), tenant: `${long}${i}` },
        ...{ slots: 1, everyMs: 0.0123456789, tat: at + i + 0.123, expiresAt: at + 60_000 },
      })),
    };
    return runInDurableObject(groupObject(), (_, { storage }) => saveGroup(storage, state));
  };
  const wide = { ...settings, maxConcurrency: 10_000, ratePerSecond: 100_000, rateBurst: 1_000_000 };

  it("takes the most blocks that there can be, and fewer again", async () => {
    await stored(9_000);
    await evictDurableObject(groupObject());
    expect(await groupObject().deal(request("acme", 1), wide)).toMatchObject({ kind: "block" });
    await evictDurableObject(groupObject());
    expect(await groupObject().view(wide)).toMatchObject({ blocks: 9_001, inFlight: 9_001 });
    world.clock.pass(60_000);
    expect(await groupObject().deal(request("acme", 1), wide)).toMatchObject({ kind: "block" });
    await evictDurableObject(groupObject());
    expect(await groupObject().view(wide)).toMatchObject({ blocks: 1 });
  });

  it.each([
    ["no JSON", () => "oops"],
    ["a number", () => 7],
    ["with blocks that are none", (state: object) => JSON.stringify({ ...state, blocks: [7] })],
    ["with members that are none", (state: object) => JSON.stringify({ ...state, ring: [null] })],
    ["with a window that is none", (state: object) => JSON.stringify({ ...state, window: "wide" })],
    ["with settings that are none", (state: object) => JSON.stringify({ ...state, settings: {} })],
  ])("that is %s is replaced by a new one, and reported", async (_, make) => {
    await runInDurableObject(groupObject(), (_, { storage }) =>
      storage.kv.put("group", make(newGroupState(world.clock.now()))),
    );
    await evictDurableObject(groupObject());
    const lines = vi.spyOn(console, "log").mockImplementation(() => {});
    expect(await groupObject().deal(request("acme", 1), settings)).toMatchObject({ kind: "block" });
    expect(lines.mock.calls.flat().map((line) => JSON.parse(line))).toEqual([
      { what: "group_state_corrupt", group },
    ]);
    lines.mockRestore();
  });
});
