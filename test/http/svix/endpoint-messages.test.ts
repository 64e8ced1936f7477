/** The messages of an endpoint in the Svix API: counts, lists, and the precheck. */
import { beforeEach, describe, expect, it } from "vitest";
import { bundleOf, indexOf } from "../../../src/core/bundle.ts";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { eventNumber } from "../../../src/ids.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";

const { call } = testApi({ create: createSvixApi });
const LATER = NOW + 60_000;

let app = "";
let endpoint = "";
beforeEach(async () => {
  await emptyDatabase();
  app = (await call("POST", "/api/v1/app", { name: "Acme", uid: "acme" })).json.id;
  const body = {
    url: "https://receiver.example/hooks",
    uid: "hook",
    eventTypes: ["order.paid", "order.sent"],
  };
  endpoint = (await call("POST", `/api/v1/app/${app}/endpoint`, body)).json.id;
});

const at = (rest: string) => `/api/v1/app/acme/endpoint/hook/${rest}`;

async function post(body: object = {}): Promise<{ id: string; event: number }> {
  const message = { eventType: "order.paid", payload: { total: 1 }, ...body };
  const { json } = await call("POST", `/api/v1/app/${app}/msg`, message);
  return { id: json.id, event: eventNumber(json.id) ?? 0 };
}

/** A message whose delivery is in that state, in a row of its own. */
async function inState(state: string, body: object = {}, columns: object = {}): Promise<string> {
  const { id, event } = await post(body);
  const times = { give_up_at: LATER, ended_at: LATER, next_attempt_at: LATER };
  await insertRow("deliveries", { destination_id: endpoint, event_id: event, state, ...times, ...columns });
  return id;
}

/** A message whose delivery is a bit of a pack. */
async function inPack(mask: string): Promise<string> {
  const { id, event } = await post();
  const bundle = { destination_id: endpoint, bundle_id: bundleOf(event) };
  await insertRow("packs", { ...bundle, [`${mask}0`]: 1 << indexOf(event), ended_at: LATER });
  return id;
}

describe("the stats of an endpoint", () => {
  it("count its deliveries by status, those in packs and those in rows", async () => {
    for (const state of ["delivered", "dead", "dead", "retrying", "waiting", "cancelled"])
      await inState(state);
    await inState("retrying", {}, { reason: "in_flight" });
    for (const mask of ["delivered", "delivered", "waiting", "in_flight", "cancelled"]) await inPack(mask);
    const { status, json } = await call("GET", at("stats"));
    const counts = { success: 3, pending: 3, sending: 2, fail: 2, canceled: 2 };
    expect([status, json]).toEqual([200, counts]);
    const none = { success: 0, pending: 0, sending: 0, fail: 0, canceled: 0 };
    const before = new Date(NOW - 120_000).toISOString();
    expect((await call("GET", at(`stats?until=${before}`))).json).toEqual(none);
    expect((await call("GET", at(`stats?since=${before}`))).json).toEqual(counts);
  });

  it("are zero for one that has got nothing, and do not include others'", async () => {
    await call("POST", "/api/v1/app", { name: "B", uid: "b" });
    await call("POST", "/api/v1/app/b/endpoint", { url: "https://b.example/", uid: "other" });
    await inState("dead");
    expect((await call("GET", "/api/v1/app/b/endpoint/other/stats")).json.fail).toBe(0);
    expect((await call("GET", `/api/v1/app/b/endpoint/${endpoint}/stats`)).status).toBe(404);
  });

  it.each([
    ["since=soon", "since"],
    ["since=2026-11-21T09:00:00Z&until=2026-11-21T08:00:00Z", "until"],
  ])("refuse %s at %s", async (query, field) => {
    const { status, json } = await call("GET", at(`stats?${query}`));
    expect([status, json.detail[0].loc]).toEqual([422, ["query", field]]);
  });
});

describe("the messages of an endpoint", () => {
  const list = async (query = "") => (await call("GET", at(`msg?${query}`))).json;
  const names = async (query = "") => (await list(query)).data.map((one: { eventId: string }) => one.eventId);

  it("are listed the newest first, with the status of each and its payload", async () => {
    const id = await inState("dead", { eventId: "a", tags: ["eu"] });
    await inState("retrying", { eventId: "b" });
    const { data, done } = await list();
    const shown = (await call("GET", `/api/v1/app/acme/msg/${id}`)).json;
    expect(data).toMatchObject([
      { eventId: "b", status: 1, statusText: "pending", nextAttempt: new Date(LATER).toISOString() },
      { ...shown, payload: { total: 1 }, status: 2, statusText: "fail", nextAttempt: null },
    ]);
    expect(done).toBe(true);
    expect((await list("with_content=false")).data[0].payload).toEqual({});
  });

  it("have not been attempted yet if they are not listed", async () => {
    await post({ eventId: "a" });
    expect(await names()).toEqual([]);
  });

  it.each<[string, string[]]>([
    ["status=0", ["a"]],
    ["status=1", ["d", "c"]],
    ["status=2", ["b"]],
    ["status=3", []],
    ["event_types=order.sent", ["b"]],
    ["tag=eu", ["a"]],
    ["channel=one", ["b"]],
    ["before=2026-11-21T09:00:00.000Z", []],
    ["after=2026-11-21T08:59:00Z&status=2", ["b"]],
    ["expanded_statuses=true&status=2", ["b"]],
  ])("are filtered by %s to %j", async (query, wanted) => {
    await inState("delivered", { eventId: "a", tags: ["eu"] });
    await inState("dead", { eventId: "b", eventType: "order.sent", channels: ["one"] });
    await inState("waiting", { eventId: "c" });
    await inState("retrying", { eventId: "d" });
    expect(await names(query)).toEqual(wanted);
  });

  it.each([1, 2, 3])("are listed whole in pages of %i", async (limit) => {
    for (const eventId of ["a", "b", "c", "d"]) await inState("delivered", { eventId });
    const paged: string[] = [];
    let [iterator, done] = ["", false];
    while (!done) {
      const page = await list(`limit=${limit}${iterator && `&iterator=${iterator}`}`);
      paged.push(...page.data.map((one: { eventId: string }) => one.eventId));
      ({ iterator, done } = page);
    }
    expect(paged).toEqual(["d", "c", "b", "a"]);
  });

  it("refuse unsupported filters, and an iterator of another list", async () => {
    for (const query of ["event_types=a,b", "channel=a%20b", "status=5", "iterator=evt_1", "limit=0"])
      expect((await call("GET", at(`msg?${query}`))).status).toBe(422);
  });
});

describe("the precheck of a message", () => {
  const active = async (body: object) =>
    (await call("POST", "/api/v1/app/acme/msg/precheck/active", body)).json.active;

  it("says whether an active endpoint takes its type", async () => {
    expect(await active({ eventType: "order.paid", channels: null })).toBe(true);
    expect(await active({ eventType: "order.lost" })).toBe(false);
    await call("PATCH", "/api/v1/app/acme/endpoint/hook", { disabled: true });
    expect(await active({ eventType: "order.paid" })).toBe(false);
    await call("POST", "/api/v1/app/acme/endpoint", { url: "https://all.example/" });
    expect(await active({ eventType: "order.lost" })).toBe(true);
  });

  it("considers channels: an endpoint with some takes only messages with one of them", async () => {
    await call("PATCH", "/api/v1/app/acme/endpoint/hook", { channels: ["eu"] });
    const message = { eventType: "order.paid" };
    expect(await active(message)).toBe(false);
    expect(await active({ ...message, channels: ["us"] })).toBe(false);
    expect(await active({ ...message, channels: ["us", "eu"] })).toBe(true);
    const path = "/api/v1/app/acme/msg/precheck/active";
    for (const channels of [["a b"], "eu", []])
      expect((await call("POST", path, { ...message, channels })).status).toBe(422);
  });

  it("refuses an invalid event type", async () => {
    for (const eventType of [undefined, 1, "a b", ""]) {
      const { status, json } = await call("POST", "/api/v1/app/acme/msg/precheck/active", { eventType });
      expect([status, json.detail[0].loc]).toEqual([422, ["body", "eventType"]]);
    }
  });
});
