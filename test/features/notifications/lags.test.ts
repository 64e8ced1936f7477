/** Consumers that lag behind are published once, and once more when they no longer do. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import type { Principal } from "../../../src/core/principal.ts";
import { checkThresholds } from "../../../src/features/notifications/thresholds.ts";
import { commitPoll, pollDestination, seekPoll } from "../../../src/features/polling/service.ts";
import { getMetrics } from "../../../src/features/stats/service.ts";
import { operationalEvents } from "../../support/operational.ts";
import { execute, newDestination, newWorld, TENANT, type World } from "../../support/world.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const principal: Principal = { scopes: ["poll"], tenant: TENANT };

let world: World;
let id: string;
beforeEach(async () => {
  world = await newWorld();
  id = await newDestination({ url: "poll:inbox" });
  await newDestination({ tenant: "operator" });
});

const published = async () =>
  (await operationalEvents(env.DB)).filter(({ type }) => type.startsWith("consumer."));

async function poll(consumer = "billing") {
  const query = { id, consumer, limit: 100, visibility_s: 1, wait_s: 0 };
  const polled = await pollDestination({ services: world.services, principal }, query);
  if (polled.kind !== "ok") throw new Error(JSON.stringify(polled));
  return polled.value;
}

async function drain(consumer = "billing"): Promise<void> {
  const { iterator } = await poll(consumer);
  await commitPoll({ services: world.services, principal }, { id, consumer, iterator });
}

/** The check at the next quarter of an hour. */
async function watch(services = world.services): Promise<void> {
  world.clock.pass(15 * MINUTE - (world.clock.now() % (15 * MINUTE)));
  await checkThresholds(services);
}

/** A consumer that has fetched an event and has not committed it for 26 hours. */
async function lagging(consumer = "billing"): Promise<void> {
  await world.postBundles(1, { data: { n: 1 } });
  await poll(consumer);
  world.clock.pass(26 * HOUR);
}

describe("a consumer that lags behind", () => {
  test("is published once while it lasts, and once when it has caught up", async () => {
    await lagging();
    for (let i = 0; i < 3; i++) await watch();
    const [began, ...others] = await published();
    expect(others).toEqual([]);
    expect(began).toMatchObject({
      type: "consumer.lagging",
      data: { destination_id: id, tenant: TENANT, host: null, consumer: "billing" },
    });
    expect(began?.data.lag_s).toBeGreaterThan(26 * 3600 - 1);
    await drain();
    for (let i = 0; i < 3; i++) await watch();
    expect((await published()).map(({ type }) => type)).toEqual(["consumer.lagging", "consumer.caught_up"]);
    expect((await published())[1]?.data).toMatchObject({ consumer: "billing", lag_s: 0 });
    expect(world.logged("consumer_lagging")).toMatchObject([{ destination: id, consumer: "billing" }]);
  });

  test("is published again when it lags once more, also after the same event", async () => {
    await lagging();
    await watch();
    await drain();
    await watch();
    const again = { id, consumer: "billing", since: null };
    await seekPoll({ services: world.services, principal }, again);
    await watch();
    expect((await published()).map(({ type }) => type)).toEqual([
      "consumer.lagging",
      "consumer.caught_up",
      "consumer.lagging",
    ]);
  });

  test("is published separately from others that lag", async () => {
    await lagging("billing");
    await drain("search");
    await world.postBundles(1, { data: { n: 2 } });
    await lagging("audit");
    await watch();
    const names = (await published()).map(({ data }) => data.consumer);
    expect(names.sort()).toEqual(["audit", "billing", "search"]);
  });

  test("is found by an event that was due later than accepted", async () => {
    await drain();
    const gate = env.GATES.get(env.GATES.idFromName(id));
    await gate.placeInInbox(1, 0);
    world.clock.pass(26 * HOUR);
    await watch();
    expect(await published()).toHaveLength(1);
  });

  test("does not count if nothing was uncommitted for that long, or if its destination is paused", async () => {
    await world.postBundles(1, { data: { n: 1 } });
    await drain();
    world.clock.pass(26 * HOUR);
    await world.postBundles(1, { data: { n: 2 } });
    await poll();
    await watch();
    world.clock.pass(26 * HOUR);
    await execute("UPDATE destinations SET status = 'paused' WHERE id = ?1", id);
    await watch();
    expect(await published()).toEqual([]);
  });

  test("is not checked if no destination receives notifications", async () => {
    await lagging();
    await execute("UPDATE destinations SET deleted_at = 1 WHERE tenant = 'operator'");
    world.gates.called();
    await watch();
    expect(world.gates.called()).toEqual([]);
  });

  test("no longer lags when retention has removed the events that it had not fetched", async () => {
    await lagging();
    await watch();
    await execute("DELETE FROM packs");
    await watch();
    expect((await published()).map(({ type }) => type)).toEqual(["consumer.lagging", "consumer.caught_up"]);
  });

  test("is published once, whichever call of its gate is the last of a killed invocation", async () => {
    await lagging();
    for (const calls of [0, 1, 2, 3]) {
      let left = calls;
      const gates = {
        idFromName: (name: string) => env.GATES.idFromName(name),
        get: (name: DurableObjectId) => {
          const gate = env.GATES.get(name);
          const refuse = async () => {
            throw new Error("The invocation is killed");
          };
          return new Proxy(gate, {
            get: (target, method) =>
              method === "inboxConsumers" || method === "noteLags"
                ? left-- > 0
                  ? Reflect.get(target, method)
                  : refuse
                : Reflect.get(target, method),
          });
        },
      } as unknown as typeof env.GATES;
      await watch({ ...world.services, gates });
    }
    await watch();
    expect((await published()).map(({ type }) => type)).toEqual(["consumer.lagging"]);
  });
});

describe("metrics of consumers", () => {
  async function consumerLines(): Promise<string[]> {
    const exposed = await getMetrics(
      { services: world.services, principal: { scopes: ["read"] } },
      undefined,
    );
    if (exposed.kind !== "ok") throw new Error(exposed.kind);
    return exposed.value.split("\n").filter((line) => line.startsWith("breakwater_consumer_"));
  }

  test("show how far each is behind, and when it last fetched", async () => {
    await drain("search");
    await lagging();
    await world.postBundles(1, { data: { n: 2 } });
    world.d1.used();
    const lines = await consumerLines();
    for (const [metric, value] of [
      ["lag_seconds", 26 * 3600],
      ["lag_events", 2],
      ["last_fetch_seconds", 26 * 3600],
    ])
      expect(lines).toContain(
        `breakwater_consumer_${metric}{destination="${id}",consumer="billing"} ${value}`,
      );
    expect(lines).toContain(`breakwater_consumer_lag_events{destination="${id}",consumer="search"} 2`);
  });

  test("are of the five of a destination that are furthest behind", async () => {
    for (let n = 0; n < 7; n++) {
      await world.postBundles(1, { data: { n } });
      world.clock.pass(MINUTE);
      await poll(`reader-${n}`);
      const since = world.clock.now() - MINUTE;
      await seekPoll({ services: world.services, principal }, { id, consumer: `reader-${n}`, since });
    }
    const shown = (await consumerLines()).filter((line) => line.includes("lag_seconds"));
    expect(shown.map((line) => /consumer="([^"]+)"/.exec(line)?.[1]).sort()).toEqual(
      [0, 1, 2, 3, 4].map((n) => `reader-${n}`),
    );
  });
});
