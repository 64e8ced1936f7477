/** Messages and their attempts in the Svix API: events and deliveries of the application's tenant. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, test } from "vitest";
import { endsText } from "../../../src/core/pack.ts";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { deliveryKey } from "../../../src/ids.ts";
import { emptyDatabase, insertRow, testApi } from "../../support/api.ts";

const { call, deliveries } = testApi({ create: createSvixApi });
const native = testApi();
const AT = "2026-11-21T09:00:00.000Z";
const NOW = Date.parse(AT);

let app = "";
let at = "";
let endpoint = "";
beforeEach(async () => {
  await emptyDatabase();
  app = (await call("POST", "/api/v1/app", { name: "Acme", uid: "acme" })).json.id;
  at = `/api/v1/app/${app}/msg`;
  const created = await call("POST", `/api/v1/app/${app}/endpoint`, {
    url: "https://receiver.example/hooks",
    uid: "hook",
    eventTypes: ["order.paid"],
  });
  endpoint = created.json.id;
});

const message = { eventType: "order.paid", payload: { total: 12.5 } };
const post = async (body: object = {}, headers = {}) => call("POST", at, { ...message, ...body }, headers);

describe("a message", () => {
  it("is an event of the application, shown by its id and by its eventId", async () => {
    const { status, json } = await post({
      eventId: "order-1",
      tags: ["eu"],
      channels: ["b", "a", "b"],
      notKnown: 1,
    });
    expect([status, json]).toEqual([
      202,
      {
        ...message,
        id: expect.stringMatching(/^evt_/),
        eventId: "order-1",
        channels: ["a", "b"],
        tags: ["eu"],
        timestamp: AT,
        deliverAt: null,
      },
    ]);
    for (const name of [json.id, "order-1"]) expect((await call("GET", `${at}/${name}`)).json).toEqual(json);
    expect((await native.call("GET", `/v1/events/${json.id}`)).json).toMatchObject({ tenant: app });
    expect((await call("GET", `${at}/${json.id}?with_content=false`)).json.payload).toEqual({});
  });

  it("is accepted once with an eventId: a repeat is 409, also with other content", async () => {
    await post({ eventId: "order-1" });
    for (const payload of [message.payload, { total: 1 }]) {
      const { status, json } = await post({ eventId: "order-1", payload });
      expect([status, json.code]).toEqual([409, "conflict"]);
    }
    expect((await call("GET", at)).json.data).toHaveLength(1);
  });

  it("is returned to the SDK's own repeat of a request, with an eventId or without", async () => {
    const key = { "idempotency-key": "auto_1" };
    const retry = { ...key, "svix-retry-count": "1" };
    for (const body of [{ eventId: "order-1" }, {}]) {
      const first = await post(body, key);
      const again = await post(body, retry);
      expect([again.status, again.json]).toEqual([202, first.json]);
    }
    expect((await call("GET", at)).json.data).toHaveLength(2);
  });

  it("is accepted once under an idempotency key, however long that is", async () => {
    const key = "k".repeat(300);
    const first = await post({}, { "idempotency-key": key });
    const again = await post({}, { "idempotency-key": key });
    expect([again.status, again.json]).toEqual([202, first.json]);
    const other = await post({}, { "idempotency-key": `${key}2` });
    expect(other.json.id).not.toBe(first.json.id);
    expect((await call("GET", at)).json.data).toHaveLength(2);
  });

  it("loses its content at once when that is deleted, and cannot be sent again", async () => {
    const { id } = (await post({ eventId: "order-1" })).json;
    await post({ payload: { total: 7 } });
    const foreign = (await call("POST", "/api/v1/app", { name: "Rival" })).json.id;
    expect((await call("DELETE", `/api/v1/app/${foreign}/msg/${id}/content`)).status).toBe(404);
    expect((await call("DELETE", `${at}/nothing/content`)).status).toBe(404);
    expect((await call("DELETE", `${at}/order-1/content`)).status).toBe(204);
    expect((await call("DELETE", `${at}/${id}/content`)).status).toBe(204);
    expect((await call("GET", `${at}/${id}`)).json).toMatchObject({
      eventId: "order-1",
      payload: { expired: true },
    });
    const listed = (await call("GET", at)).json.data.map(({ payload }: { payload: object }) => payload);
    expect(listed).toEqual([{ total: 7 }, { expired: true }]);
    expect((await call("POST", `${at}/${id}/endpoint/${endpoint}/resend`)).status).toBe(409);
    expect((await native.call("GET", `/v1/events/${id}`)).json).toMatchObject({
      content: "erased",
      data: null,
    });
  });

  it("belongs to its application", async () => {
    const { json } = await post({ eventId: "order-1" });
    const { id } = (await call("POST", "/api/v1/app", { name: "B" })).json;
    for (const name of [json.id, "order-1"])
      expect((await call("GET", `/api/v1/app/${id}/msg/${name}`)).status).toBe(404);
    expect((await call("GET", `/api/v1/app/${id}/msg`)).json.data).toEqual([]);
  });

  it("creates an application that does not exist yet", async () => {
    const path = "/api/v1/app/fresh/msg";
    expect((await call("POST", path, message)).status).toBe(404);
    const application = { name: "Fresh", uid: "fresh" };
    expect((await call("POST", path, { ...message, application })).status).toBe(202);
    expect((await call("GET", "/api/v1/app/fresh")).json.name).toBe("Fresh");
    const other = { ...message, application: { name: "B", uid: "b" } };
    expect((await call("POST", "/api/v1/app/another/msg", other)).status).toBe(422);
  });

  it.each<readonly [string, object, readonly string[]]>([
    ["eventType", { eventType: "a b" }, ["body", "eventType"]],
    ["deliverAt", { deliverAt: "2099-01-01T00:00:00Z" }, ["body", "deliverAt"]],
    ["payload", { eventType: "order.checked", payload: {} }, ["body", "payload", "/total"]],
  ])("brings along no application when its %s is refused", async (_, fields, loc) => {
    const schema = { required: ["total"] };
    await native.call("PUT", "/v1/event-types/order.checked", { schema, validate: true });
    const application = { name: "Fresh", uid: "fresh" };
    const body = { ...message, ...fields, application };
    const refused = await call("POST", "/api/v1/app/fresh/msg", body);
    expect([refused.status, refused.json.detail[0].loc]).toEqual([422, loc]);
    expect((await call("GET", "/api/v1/app/fresh")).status).toBe(404);
    expect((await call("POST", at, { ...message, ...fields })).json).toEqual(refused.json);
  });

  it("keeps the digits of its numbers", async () => {
    const body = '{"eventType":"order.paid","payload":{"id":12345678901234567890,"sum":1.00}}';
    const { text } = await call("POST", at, body, { "content-type": "application/json" });
    expect(text).toContain('"payload":{"id":12345678901234567890,"sum":1.00}');
    expect((await call("GET", at)).text).toContain('"payload":{"id":12345678901234567890,"sum":1.00}');
  });

  it("is sent unchanged with the SDK's raw payload", async () => {
    const headers = { "content-type": "text/xml" };
    const { json } = await post({ payload: {}, transformationsParams: { rawPayload: "<a/>", headers } });
    expect((await native.call("GET", `/v1/events/${json.id}`)).json).toMatchObject({
      content_type: "text/xml",
      data: "<a/>",
      deliveries: [{ destination_id: endpoint }],
    });
    expect((await call("GET", `${at}/${json.id}`)).json.payload).toEqual({});
  });

  it("is refused with a content-type of its raw payload that is no text, and no failure of ours", async () => {
    for (const type of ['{"toString":1}', "1e400", "7", "null", '["text/xml"]']) {
      const params = `{"rawPayload":"<a/>","headers":{"Content-Type":${type}}}`;
      const body = `{"eventType":"a","payload":{},"transformationsParams":${params}}`;
      const { status, json } = await call("POST", at, body);
      expect([type, status, json.detail?.[0]?.loc]).toEqual([
        type,
        422,
        ["body", "transformationsParams", "headers"],
      ]);
    }
  });

  it("is shown with an empty payload if its data is not an object, which typed SDKs could not read", async () => {
    for (const payload of ["[1]", '"text"', "1", "12345678901234567890", "null"]) {
      const { json } = await call("POST", at, `{"eventType":"a","payload":${payload}}`);
      expect([payload, json.payload]).toEqual([payload, {}]);
      expect((await call("GET", `${at}/${json.id}`)).json.payload).toEqual({});
    }
    const { data } = (await call("GET", at)).json;
    expect(data.map(({ payload }: { payload: unknown }) => payload)).toEqual([{}, {}, {}, {}, {}]);
  });

  it("is delivered later with deliverAt", async () => {
    const deliverAt = "2026-11-21T10:00:00.000Z";
    expect((await post({ deliverAt })).json.deliverAt).toBe(deliverAt);
  });

  it.each<[object, string[], string]>([
    [{ eventType: undefined }, ["body", "eventType"], "is missing"],
    [{ eventType: "a b" }, ["body", "eventType"], "expected letters"],
    [{ payload: undefined }, ["body", "payload"], "is missing"],
    [{ eventId: "a b" }, ["body", "eventId"], "expected 1 to 256"],
    [{ tags: ["a b"] }, ["body", "tags", "0"], "expected 1 to 64"],
    [{ deliverAt: "soon" }, ["body", "deliverAt"], "expected a time"],
    [{ deliverAt: "2027-11-21T10:00:00.000Z" }, ["body", "deliverAt"], "is too far ahead"],
    [{ channels: [] }, ["body", "channels"], "expected a list of 1 to 5 channels"],
    [{ channels: "a" }, ["body", "channels"], "expected a list of 1 to 5 channels"],
    [{ channels: ["a", "b c"] }, ["body", "channels", "1"], "expected 1 to 128 letters"],
    [{ channels: Array(6).fill("a") }, ["body", "channels"], "expected a list of 1 to 5 channels"],
    [{ payloadRetentionPeriod: 1 }, ["body", "payloadRetentionPeriod"], "is not supported"],
    [{ payloadRetentionHours: 1 }, ["body", "payloadRetentionHours"], "is not supported"],
    [{ transformationsParams: { a: 1 } }, ["body", "transformationsParams"], "is not supported"],
  ])("is refused with %j at %j, and not taken", async (body, loc, msg) => {
    const { status, json } = await post(body);
    expect([status, json]).toMatchObject([422, { detail: [{ loc, msg: expect.stringContaining(msg) }] }]);
    expect((await call("GET", at)).json.data).toEqual([]);
  });

  it("is listed, the newest first, page by page, by type, by tag and by channel", async () => {
    for (const eventId of ["a", "b", "c"])
      await post({
        eventId,
        tags: [eventId],
        channels: ["all", eventId],
        eventType: eventId === "c" ? "other" : "order.paid",
      });
    const names = async (query: string) =>
      (await call("GET", `${at}?${query}`)).json.data.map((one: { eventId: string }) => one.eventId);
    expect(await names("")).toEqual(["c", "b", "a"]);
    expect(await names("event_types=order.paid,else")).toEqual(["b", "a"]);
    expect(await names("tag=a")).toEqual(["a"]);
    expect(await names(`before=${AT}`)).toEqual([]);
    const first = (await call("GET", `${at}?limit=2&with_content=false`)).json;
    expect([first.done, first.data[0].payload]).toEqual([false, {}]);
    expect(await names(`limit=2&iterator=${first.iterator}`)).toEqual(["a"]);
    expect([await names("channel=b"), await names("channel=none")]).toEqual([["b"], []]);
    expect(await names("channel=all&limit=2")).toEqual(["c", "b"]);
    expect((await call("GET", `${at}?channel=a/b`)).json.detail[0].loc).toEqual(["query", "channel"]);
  });
});

describe("an example of an event type", () => {
  const send = (eventType: string, also: object = {}) =>
    call("POST", `/api/v1/app/${app}/endpoint/hook/send-example`, { eventType, ...also });

  it("is sent only to the endpoint", async () => {
    await native.call("PUT", "/v1/event-types/order.paid", { example: { total: 1 }, schema: true });
    await call("POST", `/api/v1/app/${app}/endpoint`, { url: "https://another.example/hooks" });
    deliveries();
    const { status, json } = await send("order.paid");
    expect([status, json.payload]).toEqual([202, { total: 1 }]);
    const shown = (await native.call("GET", `/v1/events/${json.id}`)).json;
    expect(shown.deliveries).toMatchObject([{ destination_id: endpoint }]);
  });

  it("is sent to an endpoint with channels in one of them", async () => {
    await native.call("PUT", "/v1/event-types/order.paid", { example: { total: 1 }, schema: true });
    await native.call("PATCH", `/v1/destinations/${endpoint}`, { channels: ["eu", "us"] });
    const { status, json } = await send("order.paid");
    expect([status, json.channels]).toEqual([202, ["eu"]]);
    const shown = (await native.call("GET", `/v1/events/${json.id}`)).json;
    expect(shown.deliveries).toMatchObject([{ destination_id: endpoint }]);
  });

  it("is refused if the type is unknown, has no example, or is not taken", async () => {
    await native.call("PUT", "/v1/event-types/order.paid", {});
    await native.call("PUT", "/v1/event-types/other", { example: 1, schema: true });
    const statuses = [await send("none"), await send("order.paid"), await send("other")].map(
      (one) => one.status,
    );
    expect(statuses).toEqual([404, 422, 422]);
  });

  it("is refused with the caller's own payload", async () => {
    await native.call("PUT", "/v1/event-types/order.paid", { example: { total: 1 }, schema: true });
    const { status, json } = await send("order.paid", { payload: { total: 2 } });
    expect([status, json.detail[0].loc]).toEqual([422, ["body", "payload"]]);
  });
});

describe("attempts", () => {
  const success = { at: NOW + 2_000, latencyMs: 7, status: 204 };
  const failure = { at: NOW + 1_000, latencyMs: 5, status: 503, excerpt: "busy" };

  /** A message whose delivery has this log and state. */
  async function attempted(state: string, log: object[]) {
    const { json } = await post({ channels: ["eu", "us"], tags: ["t"] });
    const { event } = await eventOf(json.id);
    const row = { destination_id: endpoint, event_id: event, state, give_up_at: NOW, log };
    await insertRow("deliveries", { ...row, attempts: log.length, ended_at: NOW });
    return json.id as string;
  }

  async function eventOf(id: string) {
    const key = deliveryKey(`dlv_${id.slice(4)}_${endpoint.slice(4)}`);
    if (!key) throw new Error("The id must be an event's");
    return { event: key.eventId };
  }

  it("are shown without entries that an edit of the log has made unreadable", async () => {
    const id = await attempted("delivered", [failure, success]);
    await env.DB.prepare("UPDATE deliveries SET log = json_insert(log, '$[#]', NULL, '$[#]', 7)").run();
    for (const path of [`attempt/msg/${id}`, "attempt/endpoint/hook"]) {
      const { status, json } = await call("GET", `/api/v1/app/${app}/${path}`);
      expect([status, json.data?.length]).toEqual([200, 2]);
    }
  });

  it("are listed by endpoint and by message, the newest first, and shown by id", async () => {
    const id = await attempted("delivered", [failure, success]);
    const { data } = (await call("GET", `/api/v1/app/${app}/attempt/endpoint/hook`)).json;
    expect(data).toMatchObject([
      { msgId: id, endpointId: endpoint, responseStatusCode: 204, status: 0, statusText: "success" },
      { response: "busy", responseStatusCode: 503, responseDurationMs: 5, status: 2, statusText: "fail" },
    ]);
    expect(data[0]).toMatchObject({ url: "https://receiver.example/hooks", triggerType: 0 });
    expect(data[1].timestamp).toBe("2026-11-21T09:00:01.000Z");
    const byMessage = (await call("GET", `/api/v1/app/${app}/attempt/msg/${id}?with_msg=true`)).json;
    expect(byMessage.data).toMatchObject([{ ...data[0], msg: { id, payload: message.payload } }, data[1]]);
    expect((await call("GET", `${at}/${id}/attempt/${data[1].id}`)).json).toEqual(data[1]);
    expect((await call("GET", `${at}/${id}/attempt/atmpt_none`)).status).toBe(404);
  });

  it("lose the receiver's answer when that is deleted, individually, once the delivery has ended", async () => {
    const other = { ...failure, at: NOW + 3_000, excerpt: "still busy" };
    const id = await attempted("dead", [failure, other]);
    const list = async () => (await call("GET", `/api/v1/app/${app}/attempt/msg/${id}`)).json.data;
    const [second, first] = await list();
    for (const _ of [1, 2])
      expect((await call("DELETE", `${at}/${id}/attempt/${first.id}/content`)).status).toBe(204);
    expect(await list()).toEqual([second, { ...first, response: "" }]);
    expect((await call("DELETE", `${at}/${id}/attempt/atmpt_none/content`)).status).toBe(404);
    const open = await attempted("retrying", [failure]);
    const [attempt] = (await call("GET", `/api/v1/app/${app}/attempt/msg/${open}`)).json.data;
    expect((await call("DELETE", `${at}/${open}/attempt/${attempt.id}/content`)).status).toBe(409);
    const { id: stranger } = (await call("POST", "/api/v1/app", { name: "B" })).json;
    const foreign = `/api/v1/app/${stranger}/msg/${id}/attempt/${second.id}/content`;
    expect((await call("DELETE", foreign)).status).toBe(404);
    expect((await list())[0].response).toBe("still busy");
  });

  it.each<[string, number[]]>([
    ["status=0", [204]],
    ["status=2", [503]],
    ["status=1", []],
    ["status_code_class=500", [503]],
    ["before=2026-11-21T09:00:02.000Z", [503]],
    ["after=2026-11-21T09:00:01.000Z", [204]],
    ["event_types=order.paid", [204, 503]],
    ["event_types=another", []],
    ["tag=none", []],
    ["channel=us", [204, 503]],
    ["channel=us&event_types=order.paid&status=2", [503]],
    ["channel=none", []],
    ["tag=t&channel=eu", [204, 503]],
    ["tag=t&channel=none", []],
  ])("are filtered by %s to %j, by endpoint and by message", async (query, wanted) => {
    const id = await attempted("delivered", [failure, success]);
    for (const path of ["endpoint/hook", `msg/${id}`]) {
      const { data } = (await call("GET", `/api/v1/app/${app}/attempt/${path}?${query}`)).json;
      expect(data.map((one: { responseStatusCode: number }) => one.responseStatusCode)).toEqual(wanted);
    }
  });

  it.each([1, 2, 3])("of many messages are listed whole in pages of %i", async (limit) => {
    for (let i = 0; i < 3; i++) await attempted("delivered", [failure, success]);
    const path = `/api/v1/app/${app}/attempt/endpoint/hook`;
    const all = (await call("GET", path)).json.data;
    const paged: unknown[] = [];
    let iterator = "";
    for (let done = false; !done; ) {
      const page = (await call("GET", `${path}?limit=${limit}${iterator && `&iterator=${iterator}`}`)).json;
      expect(page.data.length).toBeLessThanOrEqual(limit);
      paged.push(...page.data);
      ({ iterator, done } = page);
    }
    expect([all.length, paged]).toEqual([6, all]);
  });

  it.each([
    1, 2, 3,
  ])("are listed once each in pages of %i, although new ones come between the pages", async (limit) => {
    for (let i = 0; i < 3; i++) await attempted("delivered", [failure, success]);
    const path = `/api/v1/app/${app}/attempt/endpoint/hook`;
    const all = (await call("GET", path)).json.data;
    const paged: unknown[] = [];
    let iterator = "";
    for (let done = false; !done; ) {
      const page = (await call("GET", `${path}?limit=${limit}${iterator && `&iterator=${iterator}`}`)).json;
      paged.push(...page.data);
      ({ iterator, done } = page);
      if (paged.length < all.length) await attempted("delivered", [failure, success]);
    }
    expect(paged).toEqual(all);
  });

  it("refuse the iterator of another list, and unsupported filters", async () => {
    const path = `/api/v1/app/${app}/attempt/endpoint/hook`;
    for (const query of ["iterator=evt_1", "event_types=a,b", "with_msg=true", "channel=a/b", "status=5"])
      expect((await call("GET", `${path}?${query}`)).status).toBe(422);
  });

  it("are filtered by the channel of their own message, even if others share its bundle and pack", async () => {
    const events = [["a"], ["b"], undefined, ["a", "b"]].map((channels) => ({
      ...{ type: "order.paid", data: 1, tenant: app },
      ...(channels && { channels }),
    }));
    const { json } = await native.call("POST", "/v1/events/batch", { events });
    const ids: string[] = json.events.map(({ id }: { id: string }) => id);
    const { event } = await eventOf(ids[0] ?? "");
    const ends = [0, 1, 2, 3].map((index) => ({ index, at: NOW, latencyMs: 5, status: 204 }));
    const pack = { destination_id: endpoint, bundle_id: Math.floor(event / 128), delivered0: 0b1111 };
    await insertRow("packs", { ...pack, ends: endsText(ends) });
    const listed = async (query: string) =>
      (await call("GET", `/api/v1/app/${app}/attempt/endpoint/hook?${query}`)).json.data.map(
        (one: { msgId: string }) => ids.indexOf(one.msgId),
      );
    expect(await listed("")).toEqual([3, 2, 1, 0]);
    expect(await listed("channel=a")).toEqual([3, 0]);
    expect(await listed("channel=b&event_types=order.paid")).toEqual([3, 1]);
    expect(await listed("channel=c")).toEqual([]);
  });

  it.each<[string, number]>([
    ["delivered", 0],
    ["retrying", 1],
    ["waiting", 1],
    ["dead", 2],
    ["cancelled", 4],
  ])("of a message's endpoint, which is %s, have the status %i", async (state, status) => {
    const id = await attempted(state, [failure]);
    const { data } = (await call("GET", `${at}/${id}/endpoint`)).json;
    expect(data).toMatchObject([{ id: endpoint, uid: "hook", status }]);
  });

  test("of a message without any are none, and its endpoint is pending", async () => {
    const { id } = (await post()).json;
    expect((await call("GET", `${at}/${id}/endpoint`)).json.data).toMatchObject([{ status: 1 }]);
    expect((await call("GET", `/api/v1/app/${app}/attempt/msg/${id}`)).json.data).toEqual([]);
  });

  it("are repeated when an ended one is resent, but not one under way", async () => {
    for (const [state, entry] of [
      ["dead", failure],
      ["delivered", success],
    ] as const) {
      const id = await attempted(state, [entry]);
      const resend = () => call("POST", `${at}/${id}/endpoint/hook/resend`, {});
      expect(await resend()).toMatchObject({ status: 202, json: {} });
      expect(await env.DB.prepare("SELECT DISTINCT state FROM deliveries").first("state")).toBe("waiting");
      const refused = await resend();
      expect([refused.status, refused.json.detail]).toEqual([409, expect.stringContaining("has not ended")]);
    }
  });
});
