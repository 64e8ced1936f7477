/** The events that a commit stores: their destinations, their order, and every byte of their bodies. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import type { AcceptedEvent } from "../../src/ingest/bundle.ts";
import { accept, type GivenEvent } from "../support/accept.ts";
import { storedBodies } from "../support/stored-bodies.ts";
import { execute, newDestination, newWorld, TENANT, type World } from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

const event = (type: string, data: unknown = {}, tenant = TENANT): GivenEvent => ({ tenant, type, data });

async function acceptAll(posted: readonly GivenEvent[]): Promise<readonly AcceptedEvent[]> {
  const outcome = await accept(world.services, posted);
  if (outcome.kind !== "accepted") throw new Error(`It is ${outcome.kind}`);
  return outcome.events;
}

async function planOf(type: string, tenant = TENANT): Promise<readonly string[] | undefined> {
  return (await acceptAll([event(type, {}, tenant)]))[0]?.plan;
}

describe("a destination's event types", () => {
  test.each([
    "{not json",
    "order.paid",
    "",
  ])("that were edited into nonsense count as not given (%j)", async (text) => {
    const id = await newDestination();
    const other = await newDestination({ eventTypes: ["order.paid"] });
    await execute("UPDATE destinations SET event_types = ?1 WHERE id = ?2", text, id);
    expect(new Set(await planOf("order.paid"))).toEqual(new Set([id, other]));
  });

  test.each([
    "{not json",
    '"a"',
    "7",
  ])("are independent of a filter edited into nonsense, which takes everything (%j)", async (text) => {
    const id = await newDestination();
    await execute("UPDATE destinations SET filter = ?1 WHERE id = ?2", text, id);
    expect(await planOf("order.paid")).toEqual([id]);
  });
});

describe("a filter", () => {
  test("sees the data of each event of a request, with numbers as they were written", async () => {
    const id = await newDestination({ filter: { amount: { gte: 100 } } });
    const raw = (text: string) => (JSON as unknown as { rawJSON: (text: string) => unknown }).rawJSON(text);
    const amounts = [raw("100.00"), 99, "100", raw("1e2"), raw("12345678901234567890")];
    const accepted = await acceptAll(amounts.map((amount) => event("a", { amount })));
    expect(accepted.map(({ plan }) => plan)).toEqual([[id], [], [], [id], [id]]);
  });
});

describe("a plan", () => {
  test("has the destinations of its tenant only", async () => {
    const id = await newDestination();
    const other = await newDestination({ tenant: "other" });
    expect(await planOf("a")).toEqual([id]);
    expect(await planOf("a", "other")).toEqual([other]);
    expect(await planOf("a", "nobody")).toEqual([]);
  });

  test("is fixed: destinations created later are not in it, and those deleted later stay in it", async () => {
    const id = await newDestination();
    const [accepted] = await acceptAll([event("a")]);
    await newDestination();
    await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", id);
    const stored = await env.DB.prepare("SELECT plan FROM events WHERE id = ?1")
      .bind(accepted?.id)
      .first("plan");
    expect(JSON.parse(String(stored))).toEqual([id]);
    expect(await planOf("a")).not.toContain(id);
  });

  test("has paused destinations too: their deliveries wait", async () => {
    const id = await newDestination({ status: "paused" });
    expect(await planOf("a")).toEqual([id]);
  });
});

describe("events stored together", () => {
  test("have ascending ids in the order given, and their own bodies", async () => {
    await newDestination({ eventTypes: ["even"] });
    const posted = Array.from({ length: 1_000 }, (_, i) => event(i % 2 === 0 ? "even" : "odd", i));
    const accepted = await acceptAll(posted);
    const { results } = await env.DB.prepare("SELECT id FROM events ORDER BY id").all();
    expect(results).toEqual(accepted.map(({ id }) => ({ id })));
    const datas = (await storedBodies()).map((body) => JSON.parse(body).data);
    expect(datas).toEqual(posted.map((_, i) => i));
    expect(accepted.map(({ plan }) => plan.length)).toEqual(posted.map((_, i) => (i % 2 === 0 ? 1 : 0)));
  });

  test("keep their order over several bundles, and are stored as a whole or not at all", async () => {
    const posted = Array.from({ length: 7 }, (_, i) => event(`t${i}`, "x".repeat(200_000)));
    const accepted = await acceptAll(posted);
    const { results } = await env.DB.prepare("SELECT id, type FROM events ORDER BY id").all();
    expect(results).toEqual(accepted.map(({ id }, i) => ({ id, type: `t${i}` })));
    expect(await env.DB.prepare("SELECT count(*) AS n FROM bundles").first("n")).toBe(4);

    // The last of its bundles cannot be stored.
    await execute(
      "CREATE TRIGGER refuse BEFORE INSERT ON bundles WHEN new.header LIKE '%poison%' BEGIN SELECT RAISE(ABORT, 'poison'); END",
    );
    const broken = [...posted, event("poison", "x".repeat(200_000))];
    expect(await accept(world.services, broken)).toEqual({ kind: "unavailable" });
    await execute("DROP TRIGGER refuse");
    expect(await env.DB.prepare("SELECT count(*) AS n FROM events").first("n")).toBe(7);
  });

  test("of mixed sizes are in bundles of at most 512 KB", async () => {
    const posted = Array.from({ length: 30 }, (_, i) => event("a", "x".repeat(i % 10 === 5 ? 250_000 : 100)));
    await acceptAll(posted);
    const bodies = await storedBodies();
    expect(bodies.map((body) => JSON.parse(body).data.length)).toEqual(
      posted.map(({ data }) => String(data).length),
    );
    const { results } = await env.DB.prepare("SELECT count FROM bundles ORDER BY id").all<{
      count: number;
    }>();
    expect(results.map(({ count }) => count)).toEqual([25, 5]);
  });
});
