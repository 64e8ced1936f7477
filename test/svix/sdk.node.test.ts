/** The official JavaScript SDK of Svix against Breakwater in the local runtime, with nothing but its server URL changed. */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { ApiException, MessageStatus, messageInRaw, Svix, Webhook } from "svix";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../scenario/until.ts";
import { startBreakwater } from "../support/breakwater-runtime.ts";
import type { Runtime } from "../support/runtime.ts";

const KEY = "test-admin-key-0123456789";

type Hit = Readonly<{ path: string; headers: IncomingHttpHeaders; body: string }>;

const hits: Hit[] = [];
const statuses = new Map<string, number>();
const receiver = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  const path = request.url ?? "/";
  hits.push({ path, headers: request.headers, body });
  response.writeHead(statuses.get(path) ?? 204).end();
});

let url: string;
let runtime: Runtime;
let svix: Svix;
beforeAll(async () => {
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
  url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  runtime = await startBreakwater({ vars: { ADMIN_KEY: KEY, ALLOW_PRIVATE_DESTINATIONS: "true" } });
  svix = new Svix(KEY, { serverUrl: runtime.url });
}, 120_000);
afterAll(async () => {
  await runtime?.stop();
  receiver.closeAllConnections();
  receiver.close();
});

/** The requests of a path, once there are so many. */
async function received(path: string, count: number): Promise<Hit[]> {
  const found = () => hits.filter((hit) => hit.path === path);
  const otherwise = () => `only ${found().length} of ${count} came to ${path}`;
  await until(() => found().length >= count, { withinMs: 20_000, otherwise });
  return found();
}

/** The status of what the SDK throws, and what is in the body. */
async function refusalOf(call: Promise<unknown>): Promise<readonly [number, unknown]> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof ApiException)) throw new Error(`Not refused by the API: ${error}`);
  return [error.code, error.body];
}

/** Whether the SDK's library verifies the request by the headers with that prefix alone. */
function isVerified(secret: string, { body, headers }: Hit, prefix: "svix-" | "webhook-"): boolean {
  const own = Object.entries(headers).filter(([name]) => name.startsWith(prefix));
  try {
    new Webhook(secret).verify(body, Object.fromEntries(own) as Record<string, string>);
    return true;
  } catch {
    return false;
  }
}

const OTHER_SECRET = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

describe("the SDK", () => {
  test("takes a message from its application to a receiver that verifies it, and shows the attempt", async () => {
    await svix.health.get();
    const app = await svix.application.getOrCreate({ name: "Acme", uid: "acme" });
    expect(await svix.application.getOrCreate({ name: "Acme", uid: "acme" })).toEqual(app);
    expect((await svix.application.list()).data).toContainEqual(app);
    const endpoint = await svix.endpoint.create("acme", {
      url: `${url}/orders`,
      uid: "orders",
      eventTypes: ["order.paid"],
    });
    const { key } = await svix.endpoint.getSecret("acme", "orders");
    const payload = { total: 12.5, lines: ["a"] };
    const message = await svix.message.create("acme", { eventType: "order.paid", eventId: "o-1", payload });
    const [hit] = await received("/orders", 1);
    expect(hit?.body).toBe(JSON.stringify(payload));
    for (const prefix of ["svix-", "webhook-"] as const) {
      expect(isVerified(key, hit as Hit, prefix)).toBe(true);
      expect(isVerified(OTHER_SECRET, hit as Hit, prefix)).toBe(false);
    }
    const { "svix-id": id, "webhook-id": same } = hit?.headers ?? {};
    expect([id, same]).toEqual([message.id, message.id]);
    const shown = await svix.message.get("acme", "o-1", { withContent: true });
    expect(shown).toMatchObject({ id: message.id, eventId: "o-1", payload });
    const attempts = async () => (await svix.messageAttempt.listByMsg("acme", message.id)).data;
    await until(async () => (await attempts()).length > 0, {
      withinMs: 20_000,
      otherwise: () => "no attempt",
    });
    const [attempt] = await attempts();
    expect(attempt).toMatchObject({
      endpointId: endpoint.id,
      responseStatusCode: 204,
      status: MessageStatus.Success,
    });
    expect(await svix.messageAttempt.get("acme", message.id, attempt?.id ?? "")).toEqual(attempt);
    expect((await svix.messageAttempt.listByEndpoint("acme", "orders")).data).toEqual([attempt]);
    const { data } = await svix.messageAttempt.listAttemptedDestinations("acme", message.id);
    expect(data).toMatchObject([{ id: endpoint.id, status: MessageStatus.Success }]);
  });

  test("resends what has failed for good, and a raw payload is sent to the byte", async () => {
    const app = await svix.application.create({ name: "Retry" });
    const { id } = await svix.endpoint.create(app.id, { url: `${url}/retry` });
    statuses.set("/retry", 410);
    const message = await svix.message.create(app.id, messageInRaw("a", "<a/>", "text/xml"));
    const attempts = async (status: MessageStatus) =>
      (await svix.messageAttempt.listByEndpoint(app.id, id, { status })).data;
    const failed = async () => (await attempts(MessageStatus.Fail)).length === 1;
    await until(failed, { withinMs: 20_000, otherwise: () => "it has not failed" });
    statuses.set("/retry", 204);
    // A receiver that is gone has been disabled.
    expect((await svix.endpoint.get(app.id, id)).disabled).toBe(true);
    await svix.endpoint.patch(app.id, id, { disabled: false });
    await svix.messageAttempt.resend(app.id, message.id, id);
    const [first, second] = await received("/retry", 2);
    expect([first?.body, second?.body]).toEqual(["<a/>", "<a/>"]);
    expect(second?.headers["content-type"]).toBe("text/xml");
  });

  test("changes, rotates, lists and deletes endpoints", async () => {
    const { id: app } = await svix.application.create({ name: "Changes" });
    const { id } = await svix.endpoint.create(app, { url: `${url}/rotate`, throttleRate: 5 });
    const { key: before } = await svix.endpoint.getSecret(app, id);
    await svix.endpoint.rotateSecret(app, id, {});
    const { key: after } = await svix.endpoint.getSecret(app, id);
    expect(after).not.toBe(before);
    await svix.message.create(app, { eventType: "a", payload: { a: 1 } });
    const [hit] = await received("/rotate", 1);
    for (const key of [before, after]) expect(isVerified(key, hit as Hit, "svix-")).toBe(true);
    await svix.endpoint.setHeaders(app, id, { headers: { "x-one": "1" } });
    await svix.endpoint.patchHeaders(app, id, { headers: { "x-two": "2" } });
    expect(await svix.endpoint.getHeaders(app, id)).toEqual({ headers: {}, sensitive: ["x-one", "x-two"] });
    const patched = await svix.endpoint.patch(app, id, { description: "New", metadata: { a: "b" } });
    expect(patched).toMatchObject({ description: "New", throttleRate: 5, metadata: { a: "b" } });
    const updated = await svix.endpoint.upsert(app, id, { url: `${url}/other` });
    expect(updated).toMatchObject({ url: `${url}/other`, description: "", throttleRate: null });
    expect((await svix.endpoint.list(app)).data).toEqual([updated]);
    await svix.endpoint.delete(app, id);
    expect((await svix.endpoint.list(app)).data).toEqual([]);
    await svix.application.delete(app);
    expect((await refusalOf(svix.application.get(app)))[0]).toBe(404);
  });

  test("keeps the catalogue of event types, and sends the example of one", async () => {
    const schemas = { "1": { type: "object", examples: [{ total: 1 }] } };
    const type = await svix.eventType.create({ name: "order.sent", description: "Sent", schemas });
    expect((await svix.eventType.get("order.sent")).schemas).toEqual(schemas);
    expect((await svix.eventType.list({ withContent: true })).data).toContainEqual(type);
    await svix.eventType.patch("order.sent", { description: "Sent out" });
    const { id: app } = await svix.application.create({ name: "Example" });
    const { id } = await svix.endpoint.create(app, { url: `${url}/example` });
    await svix.endpoint.sendExample(app, id, { eventType: "order.sent" });
    expect((await received("/example", 1))[0]?.body).toBe('{"total":1}');
    await svix.eventType.delete("order.sent");
    expect((await svix.eventType.list()).data).toEqual([]);
  });

  test("gets errors in the shapes that it knows", async () => {
    const { id: app } = await svix.application.create({ name: "Errors" });
    const [missing, body] = await refusalOf(svix.application.get("none"));
    expect([missing, body]).toEqual([404, { code: "not_found", detail: "There is no application none" }]);
    const [invalid, fields] = await refusalOf(svix.endpoint.create(app, { url: "nowhere" }));
    expect([invalid, fields]).toMatchObject([422, { detail: [{ loc: ["body", "url"] }] }]);
    const message = { eventType: "a", eventId: "once", payload: {} };
    await svix.message.create(app, message);
    expect((await refusalOf(svix.message.create(app, message)))[0]).toBe(409);
    const [missingRoute, text] = await refusalOf(svix.statistics.aggregateEventTypes());
    expect([missingRoute, text]).toEqual([
      501,
      expect.stringContaining("PUT /api/v1/stats/usage/event-types"),
    ]);
    const stranger = new Svix("bw_none", { serverUrl: runtime.url });
    expect((await refusalOf(stranger.application.list()))[0]).toBe(401);
  });
});
