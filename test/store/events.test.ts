/** Whom an event is for is decided in the statement that stores it. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { insertEvents } from "../../src/store/events.ts";
import { execute, newDestination, newWorld, TENANT } from "../support/world.ts";

beforeEach(async () => {
  await newWorld();
});

async function planOf(type: string, tenant = TENANT): Promise<readonly string[] | undefined> {
  const [event] = await insertEvents({ db: env.DB }, 0, [{ tenant, type, body: "{}" }], 1);
  return event?.plan;
}

describe("a destination's event types", () => {
  test.each<[readonly string[] | null, string, boolean]>([
    [null, "order.paid", true],
    [["order.paid"], "order.paid", true],
    [["order.paid"], "order.paid.twice", false],
    [["order.paid"], "order", false],
    [["order.paid"], "Order.Paid", false],
    [["invoice.sent", "order.paid"], "order.paid", true],
    [["order.*"], "order.paid", true],
    [["order.*"], "order.item.added", true],
    [["order.*"], "orders.paid", false],
    [["order.*"], "order", false],
    [["order.*"], "an.order.paid", false],
    [["order.item.*"], "order.paid", false],
    [["*"], "order.paid", true],
    [["o%.p_id"], "order.paid", false],
    [["order.paid*"], "order.paid.twice", false],
    [["order.*", "order.paid"], "order.paid", true],
    [[], "order.paid", false],
  ])("%j and %s: %s", async (eventTypes, type, wanted) => {
    const id = await newDestination({ eventTypes });
    expect(await planOf(type)).toEqual(wanted ? [id] : []);
  });

  test.each([
    "{not json",
    "order.paid",
    "",
  ])("that a person has edited into nonsense count as none given (%j)", async (text) => {
    const id = await newDestination();
    const other = await newDestination({ eventTypes: ["order.paid"] });
    await execute("UPDATE destinations SET event_types = ?1 WHERE id = ?2", text, id);
    expect(new Set(await planOf("order.paid"))).toEqual(new Set([id, other]));
  });
});

describe("a plan", () => {
  test("has the destinations of its tenant alone", async () => {
    const id = await newDestination();
    const other = await newDestination({ tenant: "other" });
    expect(await planOf("a")).toEqual([id]);
    expect(await planOf("a", "other")).toEqual([other]);
    expect(await planOf("a", "nobody")).toEqual([]);
  });

  test("is of its instant: later comers are not in it, and those that go stay in it", async () => {
    const id = await newDestination();
    const [event] = await insertEvents({ db: env.DB }, 0, [{ tenant: TENANT, type: "a", body: "{}" }], 1);
    await newDestination();
    await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", id);
    const stored = await env.DB.prepare("SELECT plan FROM events WHERE id = ?1")
      .bind(event?.id)
      .first("plan");
    expect(JSON.parse(String(stored))).toEqual([id]);
    expect(await planOf("a")).not.toContain(id);
  });

  test("has a paused destination too: what is for it is held", async () => {
    const id = await newDestination({ status: "paused" });
    expect(await planOf("a")).toEqual([id]);
  });
});

describe("events stored together", () => {
  test("have ascending numbers in the order in which they were given, and their own bodies", async () => {
    await newDestination({ eventTypes: ["even"] });
    const events = Array.from({ length: 1_000 }, (_, i) => ({
      tenant: TENANT,
      type: i % 2 === 0 ? "even" : "odd",
      body: `{"number":${i}}`,
    }));
    const accepted = await insertEvents({ db: env.DB }, 0, events, 1);
    const { results } = await env.DB.prepare("SELECT id, body FROM events ORDER BY id").all();
    expect(results).toEqual(accepted.map(({ id }, i) => ({ id, body: `{"number":${i}}` })));
    expect(accepted.map(({ plan }) => plan.length)).toEqual(events.map((_, i) => (i % 2 === 0 ? 1 : 0)));
  });

  test("keep their order over more than one statement, and are stored all or none", async () => {
    const body = JSON.stringify("x".repeat(200_000));
    const events = Array.from({ length: 7 }, (_, i) => ({ tenant: TENANT, type: `t${i}`, body }));
    const accepted = await insertEvents({ db: env.DB }, 0, events, 1);
    const { results } = await env.DB.prepare("SELECT id, type FROM events ORDER BY id").all();
    expect(results).toEqual(accepted.map(({ id }, i) => ({ id, type: `t${i}` })));

    const broken = [...events, { tenant: TENANT, type: null as unknown as string, body }];
    await expect(insertEvents({ db: env.DB }, 0, broken, 1)).rejects.toThrow("NOT NULL");
    expect(await env.DB.prepare("SELECT count(*) AS n FROM events").first("n")).toBe(7);
  });
});
