/** Replays through the API: started, shown, listed, paused, resumed and cancelled, and refused with a reason. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";

const [PLACE, OTHER] = ["dst_aaaaaaaaaaaaaaaaaaaa", "dst_bbbbbbbbbbbbbbbbbbbb"] as const;
const HOUR = 3_600_000;
const iso = (at: number) => new Date(at).toISOString();
const time = { since: iso(NOW - 10 * HOUR), until: iso(NOW) };

beforeEach(async () => {
  await emptyDatabase();
  const at = { created_at: NOW, updated_at: NOW };
  for (const id of [PLACE, OTHER]) {
    const place = { id, tenant: "default", url: "https://example.com/", secret: "whsec_", ...at };
    await insertRow("destinations", place);
  }
  // One event an hour, the first 20 hours ago; deliveries of the odd ones are dead, the others are delivered.
  const bundles = Array.from({ length: 20 }, (_, i) => ({
    acceptedAt: NOW - (19 - i) * HOUR,
    events: [
      { tenant: "default", type: (i + 1) % 3 === 0 ? "order.paid" : "order.made", destinations: [PLACE] },
    ],
  }));
  await insertBundles(env.DB, bundles);
  await env.DB.prepare(
    `INSERT INTO deliveries (destination_id, event_id, state, give_up_at, ended_at)
     SELECT ?1, id, iif(id / 128 % 2, 'dead', 'delivered'), 0, accepted_at FROM events`,
  )
    .bind(PLACE)
    .run();
});

const begin = (fields: object = {}, api = testApi()) =>
  api.call("POST", "/v1/replays", { destination_id: PLACE, ...time, ...fields });

describe("POST /v1/replays", () => {
  it("starts a replay of dead deliveries, counts them, and enqueues its first step", async () => {
    const api = testApi();
    const { status, json } = await begin({}, api);
    expect(status).toBe(201);
    expect(json).toEqual({
      id: expect.stringMatching(/^rpl_[0-9a-z]{20}$/),
      tag: null,
      tenant: "default",
      destination_id: PLACE,
      include: "dead",
      event_types: null,
      ...time,
      rate_per_minute: 100,
      state: "running",
      reason: null,
      total: 5,
      requeued: 0,
      delivered: 0,
      failed: 0,
      current_rate_per_minute: 100,
      created_at: iso(NOW),
      updated_at: iso(NOW),
      ended_at: null,
    });
    expect(api.steps).toEqual([{ replay: json.id, at: NOW }]);
  });

  it.each([
    [{ include: "delivered" }, 5],
    [{ event_types: ["order.paid"] }, 1],
    [{ event_types: ["order.*"] }, 5],
    [{ event_types: ["*"] }, 5],
    [{ event_types: ["invoice.*", "order.paid"] }, 1],
    [{ event_types: ["order"] }, 0],
    [{ since: iso(NOW - 100 * HOUR) }, 10],
    [{ until: iso(NOW + HOUR), include: "delivered" }, 6],
    [{ since: iso(NOW - 9 * HOUR), until: iso(NOW - 7 * HOUR) }, 1],
    [{ destination_id: OTHER }, 0],
  ])("with %j matches %i", async (fields, total) => {
    expect((await begin(fields)).json).toMatchObject({ total, state: "running" });
  });

  it.each([
    [{ until: time.since }, "until", "after since"],
    [{ since: iso(NOW + 1), until: iso(NOW + 2) }, "since", "in the past"],
    [{ since: "yesterday" }, "since", "ISO 8601"],
    [{ until: undefined }, "until", "ISO 8601"],
    [{ rate_per_minute: 0 }, "rate_per_minute", "from 1 to 6000"],
    [{ rate_per_minute: 1.5 }, "rate_per_minute", "from 1 to 6000"],
    [{ include: "all" }, "include", '"dead", "delivered" or "missing"'],
    [{ event_types: [] }, "event_types", "1 to 100"],
    [{ event_types: ["a b"] }, "event_types[0]", "event type"],
    [{ destination_id: 7 }, "destination_id", "the id"],
    [{ speed: 1 }, "speed", "destination_id, since, until"],
  ])("refuses %j", async (fields, field, expected) => {
    const { status, json } = await begin(fields);
    expect(status).toBe(422);
    expect(json.errors).toEqual([
      { field, fault: expect.any(String), expected: expect.stringContaining(expected) },
    ]);
    expect(await env.DB.prepare("SELECT count(*) AS n FROM replays").first("n")).toBe(0);
  });

  it("starts a replay of missing deliveries, whose total is known when it has ended", async () => {
    const { status, json } = await begin({ destination_id: OTHER, include: "missing" });
    expect([status, json]).toMatchObject([
      201,
      { include: "missing", matching: true, state: "running", total: null, requeued: 0 },
    ]);
    await env.DB.prepare("UPDATE replays SET state = 'completed', requeued = 7").run();
    const shown = await testApi().call("GET", `/v1/replays/${json.id}`);
    expect(shown.json).toMatchObject({ total: 7, requeued: 7 });
    const all = await begin({ destination_id: OTHER, include: "missing", matching: false });
    expect(all.json).toMatchObject({ matching: false });
  });

  it("refuses `matching` with ended deliveries, which were already planned", async () => {
    const { status, json } = await begin({ include: "delivered", matching: false });
    expect([status, json.errors]).toEqual([
      422,
      [
        {
          field: "matching",
          fault: 'is false, and include is "delivered"',
          expected: 'include "missing" beside it, or nothing',
        },
      ],
    ]);
  });

  it("refuses an unknown or deleted destination, and one of another tenant", async () => {
    expect((await begin({ destination_id: "dst_x" })).status).toBe(404);
    const foreign = testApi({ authenticate: async () => ({ scopes: ["admin"], tenant: "other" }) });
    expect((await begin({}, foreign)).status).toBe(404);
    await env.DB.prepare("UPDATE destinations SET deleted_at = 1").run();
    expect((await begin()).status).toBe(404);
  });

  it("allows one replay of a destination at a time, and names it", async () => {
    const { json: first } = await begin();
    const second = await begin({ include: "delivered" });
    expect([second.status, second.json.detail]).toEqual([
      409,
      expect.stringContaining(`${first.id} is running`),
    ]);
    expect((await begin({ destination_id: OTHER })).status).toBe(201);
    await testApi().call("POST", `/v1/replays/${first.id}/pause`);
    expect((await begin()).status).toBe(409);
    await testApi().call("POST", `/v1/replays/${first.id}/cancel`);
    expect((await begin()).status).toBe(201);
  });

  it("starts one of several replays requested at the same time", async () => {
    const answers = await Promise.all([begin(), begin(), begin()]);
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409]);
  });
});

describe("POST /v1/replays/batch", () => {
  const post = (fields: object, api = testApi()) =>
    api.call("POST", "/v1/replays/batch", { ...time, ...fields });

  it("starts a replay of each destination once, in the given order, and says why another has none", async () => {
    const unknown = "dst_cccccccccccccccccccc";
    const { status, json } = await post({ destination_ids: [OTHER, unknown, PLACE, OTHER] });
    expect(status).toBe(200);
    expect(json.data).toEqual([
      { destination_id: OTHER, replay: expect.objectContaining({ destination_id: OTHER, total: 0 }) },
      { destination_id: unknown, problem: expect.objectContaining({ status: 404 }) },
      { destination_id: PLACE, replay: expect.objectContaining({ destination_id: PLACE, state: "running" }) },
    ]);
    const again = await post({ destination_ids: [PLACE] });
    expect(again.json.data).toEqual([
      { destination_id: PLACE, problem: expect.objectContaining({ status: 409 }) },
    ]);
  });

  it("starts none for an impossible range, and none of another tenant", async () => {
    const empty = await post({ destination_ids: [PLACE], until: time.since });
    expect(empty).toMatchObject({ status: 422, json: { errors: [{ field: "until" }] } });
    const rival = testApi({ authenticate: async () => ({ scopes: ["admin"], tenant: "rival" }) });
    const { json } = await post({ destination_ids: [PLACE] }, rival);
    expect(json.data).toEqual([{ destination_id: PLACE, problem: expect.objectContaining({ status: 404 }) }]);
    expect(await env.DB.prepare("SELECT count(*) AS n FROM replays").first("n")).toBe(0);
  });
});

describe("a replay", () => {
  it("is shown, and listed the newest first", async () => {
    const { json: first } = await begin();
    await testApi().call("POST", `/v1/replays/${first.id}/cancel`);
    const { json: second } = await begin();
    const { json: third } = await begin({ destination_id: OTHER });
    const { call } = testApi();
    expect((await call("GET", `/v1/replays/${second.id}`)).json).toEqual(second);
    const list = async (query: string) =>
      (await call("GET", `/v1/replays${query}`)).json.data.map(({ id }: { id: string }) => id);
    expect(await list("")).toEqual([third.id, second.id, first.id]);
    expect(await list(`?destination_id=${PLACE}`)).toEqual([second.id, first.id]);
    expect(await list("?state=cancelled")).toEqual([first.id]);
    const page = (await call("GET", "/v1/replays?limit=2")).json;
    expect(await list(`?limit=2&cursor=${page.next_cursor}`)).toEqual([first.id]);
  });

  it("is unknown to other tenants", async () => {
    const { json } = await begin();
    const { call } = testApi({ authenticate: async () => ({ scopes: ["admin", "read"], tenant: "other" }) });
    expect((await call("GET", `/v1/replays/${json.id}`)).status).toBe(404);
    expect((await call("GET", "/v1/replays")).json.data).toEqual([]);
    expect((await call("POST", `/v1/replays/${json.id}/cancel`)).status).toBe(404);
    expect((await call("GET", "/v1/replays/rpl_x")).status).toBe(404);
  });

  it("logs each change of its state, and no repeated request", async () => {
    const api = testApi();
    const { json } = await begin({}, api);
    for (const action of ["pause", "pause", "resume", "cancel", "cancel"])
      await api.call("POST", `/v1/replays/${json.id}/${action}`);
    const ids = { replay: json.id, destination: PLACE };
    expect(api.log.filter(({ what }) => what.startsWith("replay_"))).toMatchObject([
      { what: "replay_begun", ...ids },
      { what: "replay_paused", ...ids },
      { what: "replay_running", ...ids },
      { what: "replay_cancelled", ...ids },
    ]);
  });

  it.each(["pause", "cancel"])("accepts %s twice", async (action) => {
    const { json } = await begin();
    const { call } = testApi();
    const once = await call("POST", `/v1/replays/${json.id}/${action}`);
    const twice = await call("POST", `/v1/replays/${json.id}/${action}`);
    expect(once).toMatchObject({ status: 200, json: { state: action === "pause" ? "paused" : "cancelled" } });
    expect([twice.status, twice.json]).toEqual([200, once.json]);
  });

  it("resumes at most at its initial rate, and enqueues its step once", async () => {
    const { json } = await begin();
    await env.DB.prepare("UPDATE replays SET pace = 700").run();
    const api = testApi();
    await api.call("POST", `/v1/replays/${json.id}/pause`);
    const once = await api.call("POST", `/v1/replays/${json.id}/resume`);
    expect(once.json).toMatchObject({ state: "running", reason: null, current_rate_per_minute: 100 });
    expect((await api.call("POST", `/v1/replays/${json.id}/resume`)).json).toEqual(once.json);
    expect(api.steps).toEqual([{ replay: json.id, at: NOW }]);
  });

  it.each([
    ["completed", "pause"],
    ["completed", "resume"],
    ["completed", "cancel"],
    ["cancelled", "pause"],
    ["cancelled", "resume"],
  ])("that is %s refuses to %s", async (state, action) => {
    const { json } = await begin();
    await env.DB.prepare("UPDATE replays SET state = ?1").bind(state).run();
    const answer = await testApi().call("POST", `/v1/replays/${json.id}/${action}`);
    expect([answer.status, answer.json.detail]).toEqual([409, `The replay has ended: it is ${state}`]);
  });
});
