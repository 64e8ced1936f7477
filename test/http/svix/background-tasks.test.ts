/** Background tasks in the Svix API: replays of endpoints. */
import { beforeEach, describe, expect, it } from "vitest";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { eventNumber } from "../../../src/ids.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";

const { call, steps } = testApi({ create: createSvixApi });
const native = testApi();
const SINCE = "2026-11-21T08:00:00.000Z";
const UNTIL = "2026-11-21T09:00:00.000Z";

let endpoint = "";
beforeEach(async () => {
  await emptyDatabase();
  await call("POST", "/api/v1/app", { name: "Acme", uid: "acme" });
  const body = { url: "https://receiver.example/hooks", uid: "hook" };
  endpoint = (await call("POST", "/api/v1/app/acme/endpoint", body)).json.id;
});

const start = (route: string, body: object, headers = {}) =>
  call("POST", `/api/v1/app/acme/endpoint/hook/${route}`, body, headers);

/** A message whose delivery has ended like that. */
async function ended(state: string) {
  const message = { eventType: "a", payload: {} };
  const { json } = await call("POST", "/api/v1/app/acme/msg", message);
  const row = { destination_id: endpoint, event_id: eventNumber(json.id), state };
  await insertRow("deliveries", { ...row, give_up_at: NOW, ended_at: NOW - 1 });
}

describe("recover", () => {
  it("replays the endpoint's dead deliveries, and answers with the task", async () => {
    for (const state of ["dead", "delivered"]) await ended(state);
    const until = "2026-11-21T09:00:01.000Z";
    const { status, json } = await start("recover", { since: SINCE, until });
    const id = expect.stringMatching(/^rpl_/);
    expect([status, json]).toEqual([
      202,
      { id, status: "running", task: "endpoint.recover", updatedAt: UNTIL },
    ]);
    const replay = (await native.call("GET", `/v1/replays/${json.id}`)).json;
    const asked = { destination_id: endpoint, include: "dead", since: SINCE, until, total: 1 };
    expect(replay).toMatchObject(asked);
    expect(steps).toContainEqual({ replay: json.id, at: Date.parse(UNTIL) });
  });

  it("ends now by default", async () => {
    const { json } = await start("recover", { since: SINCE, until: null });
    expect((await native.call("GET", `/v1/replays/${json.id}`)).json.until).toBe(UNTIL);
  });

  it.each<[object, string, string]>([
    [{}, "since", "is missing"],
    [{ since: "soon" }, "since", "expected a time"],
    [{ since: "2026-11-22T09:00:00Z" }, "since", "a time in the past"],
    [{ since: SINCE, until: SINCE }, "until", "a time after since"],
  ])("refuses %j at %s", async (body, field, msg) => {
    const { status, json } = await start("recover", body);
    const detail = [{ loc: ["body", field], msg: expect.stringContaining(msg) }];
    expect([status, json.detail]).toMatchObject([422, detail]);
  });

  it("is 409 beside another replay, and the same task for the SDK's own repeat", async () => {
    const first = (await start("recover", { since: SINCE })).json;
    expect((await start("recover", { since: SINCE })).status).toBe(409);
    const repeat = { "svix-retry-count": "1" };
    const again = await start("recover", { since: SINCE }, repeat);
    expect([again.status, again.json]).toEqual([202, first]);
    const other = { since: "2026-11-21T07:00:00Z" };
    expect((await start("recover", other, repeat)).status).toBe(409);
  });

  it("needs an existing endpoint", async () => {
    expect((await call("POST", "/api/v1/app/acme/endpoint/none/recover", { since: SINCE })).status).toBe(404);
  });
});

describe("replay missing", () => {
  it("replays messages that the endpoint has never got", async () => {
    const { status, json } = await start("replay-missing", { since: SINCE });
    expect([status, json.task]).toEqual([202, "endpoint.replay"]);
    const replay = (await native.call("GET", `/v1/replays/${json.id}`)).json;
    expect(replay).toMatchObject({ include: "missing", since: SINCE, until: UNTIL });
    expect((await call("GET", `/api/v1/background-task/${json.id}`)).json.task).toBe("endpoint.replay");
  });
});

describe("bulk replay", () => {
  it.each<[number, string, string]>([
    [0, "delivered", "endpoint.bulk-replay"],
    [2, "dead", "endpoint.recover"],
  ])("with status %i replays %s deliveries", async (status, include, task) => {
    const filter = { eventTypes: ["a"], tag: "eu", channel: null };
    const { json } = await start("bulk-replay", { since: SINCE, status, ...filter });
    expect(json).toMatchObject({ task, status: "running" });
    const replay = (await native.call("GET", `/v1/replays/${json.id}`)).json;
    expect(replay).toMatchObject({ include, event_types: ["a"], tag: "eu" });
  });

  it.each<[object, string]>([
    [{}, "status"],
    [{ status: 1 }, "status"],
    [{ status: 0, channel: "a" }, "channel"],
    [{ status: 0, statusCodeClass: 500 }, "statusCodeClass"],
    [{ status: 0, eventTypes: "a" }, "eventTypes"],
    [{ status: 0, tag: 7 }, "tag"],
  ])("refuses %j", async (body, field) => {
    const { status, json } = await start("bulk-replay", { since: SINCE, ...body });
    expect([status, json.detail[0].loc]).toEqual([422, ["body", field]]);
  });
});

describe("background tasks", () => {
  const tasks = async (query = "") => (await call("GET", `/api/v1/background-task?${query}`)).json;
  const ids = async (query = "") => (await tasks(query)).data.map(({ id }: { id: string }) => id);

  /** Two tasks: the first has been cancelled, the second is paused. */
  async function two(): Promise<[string, string]> {
    const first = (await start("recover", { since: SINCE })).json.id;
    await native.call("POST", `/v1/replays/${first}/cancel`);
    const second = (await start("bulk-replay", { since: SINCE, status: 0 })).json.id;
    await native.call("POST", `/v1/replays/${second}/pause`);
    return [first, second];
  }

  it("are the replays of applications' endpoints, the newest first, and shown by id", async () => {
    const [first, second] = await two();
    const destination = await native.call("POST", "/v1/destinations", { url: "https://b.example/" });
    const range = { since: SINCE, until: UNTIL };
    const other = { destination_id: destination.json.id, ...range };
    const { id } = (await native.call("POST", "/v1/replays", other)).json;
    const { data, done } = await tasks();
    expect(data).toMatchObject([
      { id: second, task: "endpoint.bulk-replay", status: "running", data: { messagesSent: 0 } },
      { id: first, task: "endpoint.recover", status: "failed" },
    ]);
    expect(done).toBe(true);
    expect((await call("GET", `/api/v1/background-task/${first}`)).json).toEqual(data[1]);
    for (const none of [id, "qtask_none", "%00"])
      expect((await call("GET", `/api/v1/background-task/${none}`)).status).toBe(404);
  });

  it("are filtered by status and task, page by page", async () => {
    const [first, second] = await two();
    expect(await ids("status=failed")).toEqual([first]);
    expect(await ids("status=finished")).toEqual([]);
    expect(await ids("task=endpoint.bulk-replay")).toEqual([second]);
    expect(await ids("task=application.stats")).toEqual([]);
    const page = await tasks("limit=1");
    expect([page.data[0].id, page.done]).toEqual([second, false]);
    expect(await ids(`limit=1&iterator=${page.iterator}`)).toEqual([first]);
  });

  it("of another tenant are hidden from a bound key", async () => {
    const [first] = await two();
    const { json } = await native.call("POST", "/v1/keys", { scopes: ["read"], tenant: "app_other" });
    const headers = { authorization: `Bearer ${json.key}` };
    const one = await call("GET", `/api/v1/background-task/${first}`, undefined, headers);
    const all = await call("GET", "/api/v1/background-task", undefined, headers);
    expect([one.status, all.json.data]).toEqual([404, []]);
    const started = await call("POST", "/api/v1/app/acme/endpoint/hook/recover", { since: SINCE }, headers);
    expect(started.status).toBe(403);
  });

  it.each([
    "status=done",
    "task=a",
    "order=ascending",
    "iterator=x",
    "limit=0",
  ])("refuse %s", async (query) => {
    expect((await call("GET", `/api/v1/background-task?${query}`)).status).toBe(422);
  });
});
