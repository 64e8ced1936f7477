/**
 * The story, run by the JavaScript SDK: the installed one, or that in the folder `SVIX_SDK`.
 *
 * The other languages run the same. `RUN` is a different name for each of them, so that one server serves all.
 */
import { deepEqual, equal, match, notEqual, ok, rejects } from "node:assert/strict";
import { createRequire } from "node:module";
import { received, step, until } from "../report.ts";
import { ofTypes, typesOf, withNamesOfVersion2 } from "./version-1.ts";

const { BREAKWATER_URL: serverUrl = "", BREAKWATER_KEY = "", RECEIVER_URL, RUN = "" } = process.env;
const sdk: typeof import("svix") = createRequire(import.meta.url)(process.env.SVIX_SDK ?? "svix");
const { MessageStatus, messageInRaw, Svix, Webhook } = sdk;
const svix = withNamesOfVersion2(new Svix(BREAKWATER_KEY, { serverUrl }));

/** Every character that a uid may have. */
const APP = `${RUN}-ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz.0123456789`;
const TYPE = `${RUN}.order.paid`;
const PAYLOAD = { total: 12.5, note: "Grüße 👋" };
const OTHER_SECRET = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

const urlOf = (path: string) => `${RECEIVER_URL}/${RUN}/${path}`;
const arrived = (path: string, count?: number) => received(`/${RUN}/${path}`, count);

type Page<T> = Readonly<{ data: T[]; done: boolean; iterator: string | null }>;

/** All entries of a list, page by page. */
async function all<T>(list: (page: { limit: number; iterator?: string | null }) => Promise<Page<T>>) {
  const found: T[] = [];
  let page = await list({ limit: 2 });
  for (found.push(...page.data); !page.done; found.push(...page.data))
    page = await list({ limit: 2, iterator: page.iterator });
  return found;
}

function isVerified(secret: string, body: string, headers: Record<string, string>): boolean {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  }
}

async function applications() {
  const name = RUN.padEnd(256, "x");
  await step("application: create", async () => {
    const app = await svix.application.create({ name, uid: APP });
    deepEqual([app.name, app.uid, app.metadata], [name, APP, {}]);
  });
  await step("application: get or create", async () => {
    const { id } = await svix.application.get(APP);
    equal((await svix.application.getOrCreate({ name, uid: APP })).id, id);
  });
  await step("application: list in pages", async () => {
    for (const n of [1, 2]) await svix.application.create({ name: `${RUN} ${n}`, uid: `${RUN}-${n}` });
    const uids = (await all((page) => svix.application.list(page))).map(({ uid }) => uid);
    for (const uid of [APP, `${RUN}-1`, `${RUN}-2`]) equal(uids.filter((one) => one === uid).length, 1);
  });
  await step("application: get by id and uid", async () => {
    const app = await svix.application.get(APP);
    deepEqual(await svix.application.get(app.id), app);
  });
  await step("application: update", async () => {
    const app = await svix.application.upsert(APP, { name: "Updated", uid: APP, metadata: { a: "b" } });
    deepEqual([app.name, app.uid, app.metadata], ["Updated", APP, { a: "b" }]);
  });
  await step("application: patch", async () => {
    const app = await svix.application.patch(APP, { name: "Patched" });
    deepEqual([app.name, app.uid, app.metadata], ["Patched", APP, { a: "b" }]);
  });
  await step("application: delete", async () => {
    await svix.application.delete(`${RUN}-1`);
    await rejects(svix.application.get(`${RUN}-1`), { code: 404 });
  });
}

async function eventTypes() {
  const schemas = { "1": { type: "object", examples: [{ total: 1 }] } };
  await step("event type: create", async () => {
    const type = await svix.eventType.create({ name: TYPE, description: "Paid", schemas });
    deepEqual([type.name, type.description, type.schemas], [TYPE, "Paid", schemas]);
  });
  await step("event type: list in pages", async () => {
    for (const n of [1, 2]) await svix.eventType.create({ name: `${RUN}.${n}`, description: "" });
    const names = (await all((page) => svix.eventType.list(page))).map(({ name }) => name);
    for (const one of [TYPE, `${RUN}.1`, `${RUN}.2`]) equal(names.filter((name) => name === one).length, 1);
  });
  await step("event type: get", async () => {
    const type = await svix.eventType.get(TYPE);
    deepEqual([type.name, type.archived, type.schemas], [TYPE, false, schemas]);
  });
  await step("event type: update", async () => {
    const type = await svix.eventType.upsert(TYPE, { description: "Updated", schemas });
    deepEqual([type.description, type.schemas], ["Updated", schemas]);
  });
  await step("event type: patch", async () => {
    const type = await svix.eventType.patch(TYPE, { description: "Patched" });
    deepEqual([type.description, type.schemas], ["Patched", schemas]);
  });
  await step("event type: archive and delete", async () => {
    await svix.eventType.delete(`${RUN}.1`);
    equal((await svix.eventType.get(`${RUN}.1`)).archived, true);
    await svix.eventType.delete(`${RUN}.1`, { expunge: true });
    await rejects(svix.eventType.get(`${RUN}.1`), { code: 404 });
  });
}

async function endpoints() {
  await step("endpoint: create", async () => {
    const options = { uid: "orders", description: "Orders", metadata: { a: "b" }, headers: { "x-one": "1" } };
    const endpoint = await svix.endpoint.create(APP, { ...options, ...ofTypes(TYPE), url: urlOf("orders") });
    deepEqual([endpoint.uid, endpoint.description, endpoint.metadata], ["orders", "Orders", { a: "b" }]);
    deepEqual([endpoint.url, typesOf(endpoint)], [urlOf("orders"), [TYPE]]);
  });
  await step("endpoint: list in pages", async () => {
    for (const uid of ["second", "third"])
      await svix.endpoint.create(APP, { uid, url: urlOf(uid), ...ofTypes("none") });
    const uids = (await all((page) => svix.endpoint.list(APP, page))).map(({ uid }) => uid);
    deepEqual(uids.sort(), ["orders", "second", "third"]);
  });
  await step("endpoint: get by id and uid", async () => {
    const endpoint = await svix.endpoint.get(APP, "orders");
    deepEqual(await svix.endpoint.get(APP, endpoint.id), endpoint);
  });
  await step("endpoint: patch", async () => {
    const endpoint = await svix.endpoint.patch(APP, "second", { description: "Patched", throttleRate: 5 });
    deepEqual([endpoint.description, endpoint.throttleRate], ["Patched", 5]);
    deepEqual([endpoint.uid, typesOf(endpoint)], ["second", ["none"]]);
  });
  await step("endpoint: update", async () => {
    const url = urlOf("updated");
    const endpoint = await svix.endpoint.upsert(APP, "second", { url, uid: "second", ...ofTypes("none") });
    deepEqual([endpoint.url, endpoint.description, endpoint.throttleRate], [url, "", null]);
    deepEqual(typesOf(endpoint), ["none"]);
  });
  await step("endpoint: disable and enable", async () => {
    await svix.endpoint.patch(APP, "second", { disabled: true });
    equal((await svix.endpoint.get(APP, "second")).disabled, true);
    equal((await svix.endpoint.patch(APP, "second", { disabled: false })).disabled, false);
  });
  await step("endpoint: set headers", () =>
    svix.endpoint.setHeaders(APP, "orders", { headers: { "x-one": "1", "x-two": "2" } }),
  );
  await step("endpoint: patch headers", () =>
    svix.endpoint.patchHeaders(APP, "orders", { headers: { "x-three": "3" }, deleteHeaders: ["x-one"] }),
  );
  await step("endpoint: get headers", async () => {
    const { headers, sensitive } = await svix.endpoint.getHeaders(APP, "orders");
    deepEqual([headers, sensitive.sort()], [{}, ["x-three", "x-two"]]);
  });
  await step("endpoint: get the secret", async () => {
    match((await svix.endpoint.getSecret(APP, "orders")).key, /^whsec_/);
  });
  await step("endpoint: delete", async () => {
    await svix.endpoint.delete(APP, "third");
    await rejects(svix.endpoint.get(APP, "third"), { code: 404 });
  });
}

async function messages() {
  const order = { eventType: TYPE, eventId: "order-1", payload: PAYLOAD, tags: ["eu"] };
  await step("message: create", async () => {
    const message = await svix.message.create(APP, order);
    deepEqual([message.eventType, message.eventId, message.tags], [TYPE, "order-1", ["eu"]]);
  });
  await step("message: a repeated eventId is refused", () =>
    rejects(svix.message.create(APP, order), { code: 409 }),
  );
  await step("message: list by tag", async () => {
    await svix.message.create(APP, { eventType: "none.else", payload: {}, tags: ["us"] });
    const { data } = await svix.message.list(APP, { tag: "eu", withContent: true });
    deepEqual(
      data.map(({ eventId, payload }) => [eventId, payload]),
      [["order-1", PAYLOAD]],
    );
  });
  await step("message: get by id and eventId", async () => {
    const message = await svix.message.get(APP, "order-1", { withContent: true });
    deepEqual(message.payload, PAYLOAD);
    deepEqual(await svix.message.get(APP, message.id, { withContent: true }), message);
  });
  await step("webhook: verify what has arrived", async () => {
    const [{ body, headers } = { body: "", headers: {} }] = await arrived("orders");
    const { key } = await svix.endpoint.getSecret(APP, "orders");
    deepEqual(JSON.parse(body), PAYLOAD);
    deepEqual([headers["x-two"], headers["x-three"]], ["2", "3"]);
    equal(headers["svix-id"], (await svix.message.get(APP, "order-1")).id);
    for (const prefix of ["svix-", "webhook-"]) {
      const own = Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith(prefix)));
      ok(isVerified(key, body, own), `the headers ${prefix} are not verified`);
      ok(!isVerified(OTHER_SECRET, body, own), `the headers ${prefix} are verified by another secret`);
      ok(!isVerified(key, `${body} `, own), `the headers ${prefix} are verified with another body`);
    }
  });
  await step("message: a raw payload", async () => {
    await svix.endpoint.create(APP, { uid: "raw", url: urlOf("raw"), ...ofTypes(`${RUN}.raw`) });
    const message = await svix.message.create(APP, messageInRaw(`${RUN}.raw`, "<a> 1 </a>", "text/xml"));
    const [request] = await arrived("raw");
    deepEqual([request?.body, request?.headers["content-type"]], ["<a> 1 </a>", "text/xml"]);
    equal((await svix.message.get(APP, message.id, { withContent: true })).id, message.id);
  });
  await step("message: channels", async () => {
    const types = ofTypes(`${RUN}.channel`);
    const endpoint = { uid: "west", url: urlOf("west"), channels: ["west"], ...types };
    deepEqual((await svix.endpoint.create(APP, endpoint)).channels, ["west"]);
    for (const channel of ["east", "west"]) {
      const payload = { channel };
      await svix.message.create(APP, { eventType: `${RUN}.channel`, payload, channels: [channel] });
    }
    equal((await arrived("west"))[0]?.body, '{"channel":"west"}');
    const { data } = await svix.message.list(APP, { channel: "east", withContent: true });
    deepEqual(
      data.map(({ channels, payload }) => [channels, payload]),
      [[["east"], { channel: "east" }]],
    );
  });
}

async function secrets() {
  const secret = async () => (await svix.endpoint.getSecret(APP, "rotated")).key;
  let former = "";
  await step("endpoint: rotate the secret", async () => {
    await svix.endpoint.create(APP, { uid: "rotated", url: urlOf("rotated"), ...ofTypes(`${RUN}.rotated`) });
    former = await secret();
    await svix.endpoint.rotateSecret(APP, "rotated", {});
    notEqual(await secret(), former);
  });
  await step("webhook: verify by the old secret and the new", async () => {
    await svix.message.create(APP, { eventType: `${RUN}.rotated`, payload: PAYLOAD });
    const [{ body, headers } = { body: "", headers: {} }] = await arrived("rotated");
    for (const key of [former, await secret()]) ok(isVerified(key, body, headers));
  });
  await step("endpoint: send an example", async () => {
    await svix.endpoint.create(APP, { uid: "example", url: urlOf("example") });
    await svix.endpoint.sendExample(APP, "example", { eventType: TYPE });
    equal((await arrived("example"))[0]?.body, '{"total":1}');
  });
}

async function attempts() {
  const { id: message } = await svix.message.get(APP, "order-1");
  const first = async () => (await svix.messageAttempt.listByMsg(APP, message)).data[0];
  await step("attempt: list by message", async () => {
    const attempt = await until(first);
    const { id } = await svix.endpoint.get(APP, "orders");
    deepEqual([attempt.msgId, attempt.endpointId], [message, id]);
    deepEqual([attempt.status, attempt.responseStatusCode], [MessageStatus.Success, 204]);
  });
  await step("attempt: list by endpoint", async () => {
    deepEqual((await svix.messageAttempt.listByEndpoint(APP, "orders")).data, [await first()]);
  });
  await step("attempt: get", async () => {
    const attempt = await first();
    deepEqual(await svix.messageAttempt.get(APP, message, attempt?.id ?? ""), attempt);
  });
  await step("attempt: endpoints of a message", async () => {
    const { data } = await svix.messageAttempt.listAttemptedDestinations(APP, message);
    deepEqual(
      data.map(({ uid, status }) => [uid, status]),
      [["orders", MessageStatus.Success]],
    );
  });
  await step("attempt: resend", async () => {
    const path = "gone-once";
    await svix.endpoint.create(APP, { uid: path, url: urlOf(path), ...ofTypes(`${RUN}.gone`) });
    const { id } = await svix.message.create(APP, { eventType: `${RUN}.gone`, payload: PAYLOAD });
    const failed = { status: MessageStatus.Fail };
    await until(async () => (await svix.messageAttempt.listByEndpoint(APP, path, failed)).data[0]);
    // A receiver that is gone has been disabled.
    equal((await svix.endpoint.get(APP, path)).disabled, true);
    await svix.endpoint.patch(APP, path, { disabled: false });
    await svix.messageAttempt.resend(APP, id, path);
    const [before, after] = await arrived(path, 2);
    deepEqual(after?.body, before?.body);
  });
}

async function services() {
  const since = new Date(Date.now() - 3_600_000);
  await step("attempt: messages of an endpoint", async () => {
    const { data } = await svix.messageAttempt.listAttemptedMessages(APP, "orders");
    deepEqual(
      data.map(({ eventId, status }) => [eventId, status]),
      [["order-1", MessageStatus.Success]],
    );
  });
  await step("endpoint: counts", async () => {
    const { fail, success } = await svix.endpoint.getStats(APP, "gone-once", { since });
    ok(fail >= 0 && success >= 0);
  });
  let task = "";
  await step("endpoint: recover", async () => {
    const recovery = await svix.endpoint.recover(APP, "gone-once", { since });
    equal(recovery.task, "endpoint.recover");
    task = recovery.id;
  });
  await step("background task: list and get", async () => {
    const { data } = await svix.backgroundTask.list();
    ok(data.some(({ id }) => id === task));
    equal((await svix.backgroundTask.get(task)).id, task);
  });
  await step("message: precheck", async () => {
    equal((await svix.message.precheck(APP, { eventType: `${RUN}.raw` })).active, true);
  });
  await step("event type: import OpenAPI", async () => {
    const post = { description: "Imported", responses: {} };
    const spec = { openapi: "3.1.0", webhooks: { [`${RUN}.imported`]: { post } } };
    await svix.eventType.importOpenapi({ spec });
    equal((await svix.eventType.get(`${RUN}.imported`)).description, "Imported");
  });
  await step("operational webhook", async () => {
    const endpoints = svix.operationalWebhook.endpoint;
    const { id } = await endpoints.create({ url: urlOf("operations"), ...ofTypes("endpoint.disabled") });
    const endpoint = await endpoints.get(id);
    deepEqual(typesOf(endpoint), ["endpoint.disabled"]);
    deepEqual(
      (await endpoints.list()).data.filter((one) => one.id === id),
      [endpoint],
    );
    await endpoints.delete(id);
    await rejects(endpoints.get(id), { code: 404 });
  });
  await step("portal link", async () => {
    const { url } = await svix.authentication.appPortalAccess(APP, {});
    ok(URL.canParse(url), `${url} is no URL`);
  });
}

async function errors() {
  await step("error: 404 for what there is not", () => {
    const body = { code: "not_found", detail: "There is no application none" };
    return rejects(svix.application.get("none"), { code: 404, body });
  });
  await step("error: 409 for a uid that is taken", () =>
    rejects(svix.application.create({ name: "Again", uid: APP }), { code: 409 }),
  );
  await step("error: 422 with the place of the fault", () =>
    rejects(svix.endpoint.create(APP, { url: "nowhere" }), ({ code, body }) => {
      deepEqual([code, body.detail[0].loc], [422, ["body", "url"]]);
      return true;
    }),
  );
  await step("error: 401 for an unknown token", () =>
    rejects(new Svix("testsk_none.eu", { serverUrl }).application.list(), { code: 401 }),
  );
  await step("error: 501 names the route", () =>
    rejects(svix.statistics.aggregateEventTypes(), ({ code, body }) => {
      equal(code, 501);
      match(body, /PUT \/api\/v1\/stats\/usage\/event-types/);
      return true;
    }),
  );
}

await step("health", () => svix.health.get());
await applications();
await eventTypes();
await endpoints();
await messages();
await secrets();
await attempts();
await services();
await errors();
