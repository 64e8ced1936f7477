/** A request that is repeated under its idempotency key does nothing again; one with other content is refused. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { eventNumber } from "../../src/ids.ts";
import { countKeyed, readCounts } from "../../src/store/stats.ts";
import { countRows, emptyDatabase, testApi } from "../support/api.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { meteredD1 } from "../support/meter.ts";

const EVENT = { type: "a", data: { n: 1 } };
const keyed = (key: string) => ({ "idempotency-key": key });

beforeEach(emptyDatabase);

async function destination(call: ReturnType<typeof testApi>["call"], fields: object = {}): Promise<string> {
  const { json } = await call("POST", "/v1/destinations", { url: "https://example.com/hook", ...fields });
  return json.id;
}

describe("an event with an idempotency key", () => {
  it("that is repeated gets the first answer, and is stored, planned and sent once", async () => {
    const { call, messages } = testApi();
    await destination(call);
    const first = await call("POST", "/v1/events", EVENT, keyed("k"));
    await destination(call);
    const second = await call("POST", "/v1/events", EVENT, keyed("k"));
    expect(first.status).toBe(202);
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    expect(second.status).toBe(202);
    expect(second.text).toBe(first.text);
    expect(second.headers.get("idempotent-replayed")).toBe("true");
    expect(await countRows("events")).toBe(1);
    expect(messages).toHaveLength(1);
  });

  it("may be formatted differently, or come as a batch of one", async () => {
    const { call } = testApi();
    const { json } = await call("POST", "/v1/events", '{"type":"a","data":1}', keyed("k"));
    const spaced = await call("POST", "/v1/events", ' { "data" : 1, "type" : "a" } ', keyed("k"));
    expect(spaced.json).toEqual(json);
    const batch = await call("POST", "/v1/events/batch", { events: [{ type: "a", data: 1 }] }, keyed("k"));
    expect(batch.json).toEqual({ events: [json] });
    expect(await countRows("events")).toBe(1);
  });

  it("is refused with a number written in other digits", async () => {
    const { call } = testApi();
    await call("POST", "/v1/events", '{"type":"a","data":100}', keyed("k"));
    expect(await call("POST", "/v1/events", '{"type":"a","data":100.00}', keyed("k"))).toMatchObject({
      status: 409,
    });
  });

  it.each([
    ["another type", '{"type":"b","data":9007199254740992}'],
    ["other data", '{"type":"a","data":2}'],
    ["a number that only JavaScript takes for the same", '{"type":"a","data":9007199254740993}'],
  ])("is refused with %s, and the stored event stays", async (_what, body) => {
    const { call } = testApi();
    const first = '{"type":"a","data":9007199254740992}';
    const { json } = await call("POST", "/v1/events", first, keyed("k"));
    const answer = await call("POST", "/v1/events", body, keyed("k"));
    expect(answer).toMatchObject({
      status: 409,
      json: { type: "/problems/conflict", errors: [{ field: "idempotency-key" }] },
    });
    expect(answer.text).not.toContain(json.id);
    expect(await countRows("events")).toBe(1);
  });

  it("is another one with another key, of another tenant, or without a key", async () => {
    const { call } = testApi();
    const ids = [
      await call("POST", "/v1/events", EVENT, keyed("k")),
      await call("POST", "/v1/events", EVENT, keyed("K")),
      await call("POST", "/v1/events", { ...EVENT, tenant: "other" }, keyed("k")),
      await call("POST", "/v1/events", EVENT),
      await call("POST", "/v1/events", EVENT),
    ].map(({ json }) => json.id);
    expect(new Set(ids).size).toBe(5);
  });

  it("is one event when it is posted fifty times at once", async () => {
    const { call, messages } = testApi();
    await destination(call);
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => call("POST", "/v1/events", EVENT, keyed("race"))),
    );
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers.filter(({ headers }) => !headers.has("idempotent-replayed"))).toHaveLength(1);
    expect(await countRows("events")).toBe(1);
    expect(messages).toHaveLength(1);
  });

  it("is found when it was stored but the answer was lost", async () => {
    const metered = meteredD1(env.DB);
    const { call } = testApi({ services: { db: metered.db } });
    await call("POST", "/v1/events", { type: "warm", data: 1 });
    metered.failing((sql) => (sql.includes("INSERT INTO bundles") ? "after" : undefined));
    expect((await call("POST", "/v1/events", EVENT, keyed("k"))).status).toBe(503);
    metered.failing(() => undefined);
    const again = await call("POST", "/v1/events", EVENT, keyed("k"));
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    const { results } = await env.DB.prepare("SELECT id FROM events WHERE type <> 'warm'").all();
    expect(results).toEqual([{ id: eventNumber(again.json.id) }]);
  });

  it("leaves the key free when it is refused", async () => {
    const { call } = testApi();
    await call("POST", "/v1/events", { type: "a b", data: 1 }, keyed("k"));
    const { status, headers } = await call("POST", "/v1/events", EVENT, keyed("k"));
    expect([status, headers.get("idempotent-replayed")]).toEqual([202, null]);
  });

  it("is marked as replayed and counted when it is repeated, and only then", async () => {
    const { call, log } = testApi();
    await call("POST", "/v1/events", EVENT, keyed("k"));
    expect(await readCounts({ db: env.DB })).toEqual({});
    await call("POST", "/v1/events", EVENT, keyed("k"));
    await call("POST", "/v1/events", EVENT, keyed("k"));
    expect(await readCounts({ db: env.DB })).toEqual({ deduplicated: 2 });
    expect(log.filter(({ what }) => what === "deduplicated")).toEqual(
      Array(2).fill({ what: "deduplicated", tenant: "default", events: 1 }),
    );
  });

  it("is counted once among the requests with a key, however often counting fails", async () => {
    const metered = meteredD1(env.DB);
    const { call } = testApi();
    const two = { events: [EVENT, EVENT] };
    await call("POST", "/v1/events", EVENT);
    await call("POST", "/v1/events", EVENT, keyed("k"));
    await call("POST", "/v1/events/batch", two, keyed("l"));
    await call("POST", "/v1/events/batch", two, keyed("l"));
    metered.failing((sql) => (sql.includes("cursors") ? "after" : undefined));
    await expect(countKeyed({ db: metered.db })).rejects.toThrow();
    for (let i = 0; i < 3; i++) await countKeyed({ db: env.DB });
    expect(await readCounts({ db: env.DB })).toEqual({ keyed: 2, deduplicated: 1 });
    await call("POST", "/v1/events", EVENT, keyed("m"));
    await countKeyed({ db: env.DB });
    expect(await readCounts({ db: env.DB })).toEqual({ keyed: 3, deduplicated: 1 });
  });

  it("is not counted when it is an operational event", async () => {
    await insertBundles(env.DB, [
      {
        events: [{ tenant: "operator", type: "destination.paused" }],
        keys: [["operator", "destination.paused dst_one 1"]],
      },
    ]);
    await countKeyed({ db: env.DB });
    expect(await readCounts({ db: env.DB })).toEqual({});
  });

  it("is counted by reading each event once, for two rows written a minute, and none without events", async () => {
    const metered = meteredD1(env.DB);
    const { call } = testApi();
    const post = (key: string) =>
      call("POST", "/v1/events/batch", { events: Array(100).fill(EVENT) }, keyed(key));
    await post("k");
    await countKeyed({ db: env.DB });
    await post("l");
    await countKeyed({ db: metered.db });
    const busy = metered.used();
    expect(busy).toMatchObject({ roundTrips: 1, rowsWritten: 2 });
    expect(busy.rowsRead).toBeLessThanOrEqual(115);
    await countKeyed({ db: metered.db });
    const idle = metered.used();
    expect(idle).toMatchObject({ roundTrips: 1, rowsWritten: 0 });
    expect(idle.rowsRead).toBeLessThanOrEqual(8);
  });

  it.each([
    ["empty", ""],
    ["longer than 255 characters", "k".repeat(256)],
    ["no ASCII", "clé"],
    ["with a tab in it", "a\tb"],
  ])("is refused when the key is %s", async (_what, key) => {
    const { status, json } = await testApi().call("POST", "/v1/events", EVENT, keyed(key));
    expect(status).toBe(422);
    expect(json.errors).toMatchObject([
      { field: "idempotency-key", expected: "1 to 255 printable ASCII characters" },
    ]);
    expect(await countRows("events")).toBe(0);
  });

  it("costs one row for its key and one round trip; its repeat costs no row of an event", async () => {
    const metered = meteredD1(env.DB);
    const { call } = testApi({ services: { db: metered.db } });
    await destination(call);
    await call("POST", "/v1/events", EVENT);
    metered.used();
    await call("POST", "/v1/events", EVENT);
    expect(metered.used()).toMatchObject({ roundTrips: 1, rowsWritten: 1 });
    await call("POST", "/v1/events", EVENT, keyed("k"));
    expect(metered.used()).toMatchObject({ roundTrips: 1, rowsWritten: 2 });
    await env.DB.prepare("INSERT INTO counts VALUES ('deduplicated', 1)").run();
    await call("POST", "/v1/events", EVENT, keyed("k"));
    // The commit that changes nothing, the read of the key, the plan of its event, and the count.
    expect(metered.used()).toMatchObject({ roundTrips: 5, rowsWritten: 1 });
  });
});

describe("a batch with an idempotency key", () => {
  const batch = (n: number, data: unknown = 1) => ({
    events: Array.from({ length: n }, (_, i) => ({ type: `t${i}`, data })),
  });

  it("that is repeated gets all of the first answer", async () => {
    const { call, messages, deliveries } = testApi();
    await destination(call, { event_types: ["t1", "t7"] });
    await call("POST", "/v1/events", EVENT);
    const first = await call("POST", "/v1/events/batch", batch(20), keyed("k"));
    await call("POST", "/v1/events", EVENT);
    const second = await call("POST", "/v1/events/batch", batch(20), keyed("k"));
    expect(second.text).toBe(first.text);
    expect(second.headers.get("idempotent-replayed")).toBe("true");
    expect(await countRows("events")).toBe(22);
    expect(messages).toHaveLength(1);
    expect(await deliveries()).toHaveLength(2);
  });

  it("is stored as a whole or not at all, over several statements too", async () => {
    const { call } = testApi();
    const data = "x".repeat(180 * 1024);
    expect((await call("POST", "/v1/events/batch", batch(5, data), keyed("k"))).status).toBe(202);
    const again = await call("POST", "/v1/events/batch", batch(5, data), keyed("k"));
    expect(again.json.events).toHaveLength(5);
    expect(await countRows("events")).toBe(5);
    for (const count of [4, 3, 1]) {
      expect((await call("POST", "/v1/events/batch", batch(count, data), keyed("k"))).status).toBe(409);
    }
    expect(await countRows("events")).toBe(5);
  });

  it("longer than the first one with the key is refused, and none of it is stored", async () => {
    const { call } = testApi();
    await call("POST", "/v1/events", EVENT, keyed("k"));
    expect((await call("POST", "/v1/events/batch", batch(3), keyed("k"))).status).toBe(409);
    expect(await countRows("events")).toBe(1);
  });

  it("costs one row for its key, however many events it has", async () => {
    const metered = meteredD1(env.DB);
    const { call } = testApi({ services: { db: metered.db } });
    await call("POST", "/v1/events", EVENT);
    metered.used();
    await call("POST", "/v1/events/batch", batch(100), keyed("k"));
    expect(metered.used()).toMatchObject({ roundTrips: 1, rowsWritten: 2 });
  });

  it("names all of its events when some of them have been removed", async () => {
    const { call } = testApi();
    await destination(call);
    const { json: first } = await call("POST", "/v1/events/batch", batch(120), keyed("k"));
    await env.DB.prepare("DELETE FROM bundles WHERE id = 2").run();
    const { json } = await call("POST", "/v1/events/batch", batch(120), keyed("k"));
    const kept = first.events.slice(0, 100);
    const removed = first.events.slice(100).map(({ id }: { id: string }) => ({ id, deliveries: [] }));
    expect(json.events).toEqual([...kept, ...removed]);
  });
});
