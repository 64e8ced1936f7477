/**
 * A canary in each kind of secret, and every use of a deployment: then every table of every database, every storage of a
 * Durable Object, every object in R2, every log line, message, mail, data point, page and answer is searched for it.
 */
import { env } from "cloudflare:workers";
import { beforeAll, expect, test, vi } from "vitest";
import { checkThresholds } from "../../src/features/notifications/thresholds.ts";
import { createApp } from "../../src/http/app.ts";
import { createDocs } from "../../src/http/docs/app.tsx";
import { documentOf } from "../../src/http/openapi/document.ts";
import { newAgentActionId } from "../../src/ids.ts";
import { toBase64 } from "../../src/secrets/base64.ts";
import { vaultOf } from "../../src/secrets/vault.ts";
import { runCron } from "../../src/upkeep.ts";
import { testApi } from "../support/api.ts";
import { testBucket } from "../support/bucket.ts";
import {
  type Canary,
  keptObjects,
  leaksIn,
  objectStorage,
  storedRows,
  type Trace,
} from "../support/canaries.ts";
import { withoutTailPauses } from "../support/clock.ts";
import { testConfig } from "../support/config.ts";
import { testDashboard } from "../support/dashboard.ts";
import { bodyFor, operations, pathFor } from "../support/operations.ts";
import { testPortal } from "../support/portal.ts";
import type { Call } from "../support/receivers.ts";
import { bodyText } from "../support/utf8.ts";
import { keysOf } from "../support/vault.ts";
import { newWorld } from "../support/world.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

const adminKey = "Qz7mWv2rT9pL4xKc8sNd";
const masterKey = "uG5hYj1eB3oF6aVnXr0iMwStZkCdPq2L";
const newMasterKey = "8fHcTb4gKy7nQeJx9mRsWvA3dUpZo1Li";
const previousSecret = "Kd93nfJs72Hqpz05Lwvbtr64";
const currentSecret = "m1Xo8ePu6Gy2Tci4Zsa7Rkwj";
const seed = "y6RtB0vNqW4jH8sLxC2zDkFm5gPu9aEi";
const headerValue = "e7Ck/Vu3o+9Wd?Ya&5%Ht1Mx";
const basicPassword = "Sg2Pf6Zl8Bn4Oj0Ire5X";
const authPassword = "Wq1xZt7Rb3Vn5Hc9Ld2G";
const bearerToken = "fU4sJ8kPm6Ae0Yo2TiXv";
const keyValue = "Bz9QgWd3Nh7Mr1Kc5SjE";
const clientSecret = "oL6vPx2Ft8Iy4Ua0ZqCn";
const accessTokens = ["Hk5Rm9Tw1Bs3Xd7GfJzV", "eN2aYp6Qc8Lo4Mu0IiSk"];
const eventBody = "bT3yJw7Ku1Nd9Fv5QhMa";

/** The pages that show the content of an event to those who may see it. */
const EVENT_PAGES =
  /^GET \/(v1\/events|v1\/deliveries\/[^/]+\/attempts|dashboard\/(events|deliveries)|portal\/deliveries)\//;

const whsec = (text: string) => `whsec_${toBase64(bytes(text))}`;
const known: readonly Canary[] = [
  { name: "the admin key", secret: adminKey },
  { name: "the master key", secret: masterKey },
  { name: "the new master key", secret: newMasterKey },
  {
    name: "the previous signing secret",
    secret: previousSecret,
    allowed: [/^POST \/v1\/destinations$/],
  },
  {
    name: "the signing secret",
    secret: currentSecret,
    allowed: [/^POST \/v1\/destinations\/[^/]+\/rotate-secret$/],
  },
  { name: "the seed of an ed25519 key", secret: seed },
  { name: "a header's value", secret: headerValue },
  { name: "the password in a header", secret: basicPassword },
  { name: "the password of auth", secret: authPassword },
  { name: "the bearer token of auth", secret: bearerToken },
  { name: "the key of auth", secret: keyValue },
  { name: "the client secret", secret: clientSecret },
  ...accessTokens.map((secret) => ({ name: "an access token", secret })),
  {
    name: "the event's body",
    secret: eventBody,
    allowed: [/^D1 \d: bundles\.body$/, EVENT_PAGES, /^POST \/v1\/destinations\/[^/]+\/transform\/preview$/],
  },
];

const traces: Trace[] = [];
const canaries: Canary[] = [...known];
/** The receivers' requests, all of which are expected. */
let received: readonly Call[] = [];
/** The same of those to which requests authenticate: basic, bearer, header and oauth2. */
let authenticated: readonly (readonly Call[])[] = [];

const note = (where: string, ...texts: readonly unknown[]) =>
  void traces.push({
    where,
    text: texts.map((text) => (typeof text === "string" ? text : JSON.stringify(text))).join("\n"),
  });

beforeAll(async () => {
  for (const way of ["log", "info", "warn", "error", "debug"] as const)
    vi.spyOn(console, way).mockImplementation((...args) => note(`console.${way}`, ...args));
  const world = await newWorld();
  const { services, receiver, clock } = world;
  const configure = (keys: string) => {
    const config = testConfig({
      adminKey,
      masterKeys: keysOf(keys),
      logAttempts: "all",
      bodiesOf: "all",
      alertEmail: { from: "a@example.com", to: "b@example.com" },
    });
    Object.assign(services, { config, vault: vaultOf(config.masterKeys) });
  };
  const oldKeys = `k1:${toBase64(bytes(masterKey))}`;
  const newKeys = `k2:${toBase64(bytes(newMasterKey))}`;
  configure(oldKeys);
  Object.assign(services, {
    log: (line: unknown) => note("A log line", line),
    mailer: { send: async (mail: unknown) => note("A mail", mail) },
    attempts: { writeDataPoint: (point: unknown) => note("A data point", point) },
    bodies: (await testBucket()).bucket,
    // The clock moves only when no request is open.
    sleep: withoutTailPauses(services.sleep),
    readLimit: undefined,
    ingestLimit: undefined,
    anonymousLimit: undefined,
  });

  async function call(method: string, path: string, body?: unknown, key = adminKey) {
    // A new one each time, because it stores the services that it gets.
    const api = testApi({ services });
    const answer = await api.call(method, path, body, { authorization: `Bearer ${key}` });
    await world.settled();
    note(`${method} ${path.split("?")[0]}`, [...answer.headers], answer.text);
    return answer;
  }

  /** The messages on the queues, noted and consumed. */
  async function deliver() {
    const deliveries = world.deliveryQueue.taken();
    const drains = world.drainQueue.taken();
    const upkeep = world.upkeepQueue.taken();
    note("A message", deliveries, drains, upkeep);
    await world.consume(deliveries.map(({ body }) => body));
    await world.answer(drains.map(({ body }) => body));
    await world.keepUp(upkeep.map(({ body }) => body));
    await world.settled();
  }

  /** A receiver that repeats all of a request in its refusal, cut off anywhere. */
  const echo = ({ headers }: Call) =>
    new Response(`${[...headers].map(([name, value]) => `${name}: ${value}`).join("; ")}`, { status: 503 });
  const url = "https://shop.example/hook";
  const rejecting = "https://rejecting.example/hook";
  receiver.script(url, echo, echo, 204);
  receiver.script(rejecting, 400);

  const headers = {
    "x-api-key": headerValue,
    authorization: `Basic ${btoa(`shop:${basicPassword}`)}`,
    "x-last": `${"-".repeat(200)} ${headerValue}`,
  };
  const tenant = "acme";
  const made = { tenant, url, headers, secret: whsec(previousSecret) };
  const destination = (await call("POST", "/v1/destinations", made)).json.id;
  const place = `/v1/destinations/${destination}`;
  expect((await call("POST", `${place}/rotate-secret`, { secret: whsec(currentSecret) })).status).toBe(200);
  const pair = { tenant, url: rejecting, secret: `whsk_${toBase64(bytes(seed))}` };
  const other = (await call("POST", "/v1/destinations", pair)).json.id;
  for (const wrong of [
    { ...made, headers: { "x y": headerValue } },
    { ...made, headers: { "x-a": `${headerValue}\n` } },
    { ...made, secret: `${whsec(previousSecret)}?` },
    `{"secret":"${whsec(currentSecret)}"x`,
    { ...made, url: `https://user:${basicPassword}@shop.example/` },
  ])
    expect((await call("POST", place, wrong)).status).toBeGreaterThan(399);

  const tokenUrl = "https://login.example/token";
  const oauth = { kind: "oauth2", token_url: tokenUrl, client_id: "shop", client_secret: clientSecret };
  const auths = [
    { kind: "basic", username: "shop", password: authPassword },
    { kind: "bearer", token: bearerToken },
    { kind: "header", header: "x-key", value: keyValue },
    oauth,
  ];
  let fetched = 0;
  receiver.script(
    tokenUrl,
    // An endpoint that repeats the request in its refusal.
    ({ headers, body }: Call) =>
      Response.json({ error: `${headers.get("authorization")} ${body}` }, { status: 400 }),
    () => Response.json({ access_token: accessTokens[fetched++ % 2], token_type: "Bearer", expires_in: 90 }),
  );
  const protectedUrl = (kind: string) => `https://${kind}.example/hook`;
  const protectedIds: string[] = [];
  for (const auth of auths) {
    const to = protectedUrl(auth.kind);
    receiver.script(to, ...Array(6).fill(echo), 401, 204);
    const { json } = await call("POST", "/v1/destinations", { tenant, url: to, auth });
    protectedIds.push(json.id);
    for (const wrong of [
      { auth: { ...auth, another: clientSecret } },
      { auth: { ...auth, kind: authPassword } },
      { auth: { ...auth, value: `${keyValue}\n`, password: `${authPassword}\n`, token: `${bearerToken} ` } },
    ])
      expect((await call("PATCH", `/v1/destinations/${json.id}`, wrong)).status).toBe(422);
  }

  const key = (await call("POST", "/v1/keys", { scopes: ["events:write", "read"], tenant })).json;
  canaries.push({ name: "the API key", secret: key.key.slice(24, 56), allowed: [/^POST \/v1\/keys$/] });
  const event = { type: "order.paid", data: { eventBody } };
  const { json: accepted } = await call("POST", "/v1/events", event, key.key);
  await call("POST", "/v1/events", [event, event], key.key);
  await call("POST", "/v1/events", { ...event, type: `x ${eventBody}`.repeat(50) }, key.key);

  await deliver();
  for (let minutes = 0; minutes < 5; minutes++) {
    clock.pass(61_000);
    await runCron(services);
    for (const id of protectedIds) await world.drain(id);
    for (const id of protectedIds) await call("POST", `/v1/destinations/${id}/test`);
  }
  clock.pass(3_600_000);
  await deliver();
  await runCron(services);
  await checkThresholds(services);
  for (const one of [destination, other]) note("A message", await world.ring(one));
  await deliver();
  await call("POST", `${place}/test`);
  clock.pass(10_000);
  receiver.script(url, echo, 204);
  await call("POST", `${place}/test`);

  const range = { since: new Date(0).toISOString(), until: new Date(clock.now()).toISOString() };
  const replay = (await call("POST", "/v1/replays", { destination_id: other, ...range })).json;
  for (let step = 0; step < 5; step++) {
    clock.pass(60_000);
    await runCron(services);
    await deliver();
    await world.drain(other);
  }

  const browser = testDashboard({ services });
  const visitor = testPortal({ services });
  async function page(path: string, form?: Record<string, string>) {
    const { get, post } = path.startsWith("/portal") ? visitor : browser;
    const answer = await (form ? post(path, form) : get(path));
    await world.settled();
    const shown = [...answer.headers].filter(([name]) => name !== "set-cookie");
    note(`${form ? "POST" : "GET"} ${path.split("?")[0]}`, shown, answer.html);
    return answer;
  }
  await page("/dashboard/sign-in", { key: `${adminKey}x` });
  await page("/dashboard/sign-in", { key: adminKey });
  const cookies = [browser.cookie()];
  const pages = [
    "/dashboard",
    "/dashboard/destinations",
    "/dashboard/destinations/new",
    `/dashboard/destinations/${destination}`,
    `/dashboard/destinations/${other}?state=dead`,
    `/dashboard/events/${accepted.id}`,
    `/dashboard/simulator?destination=${destination}`,
    "/dashboard/nothing-here",
  ];
  for (const path of pages) await page(path);
  await page(`/dashboard/destinations/${destination}/test`, {});
  const [firstAttempt] = (await call("GET", `/v1/deliveries/${accepted.deliveries[0].id}`)).json.log;
  const attemptPage = `deliveries/${accepted.deliveries[0].id}/attempts/${firstAttempt.at}`;
  expect((await call("GET", `/v1/${attemptPage}`)).json).toMatchObject({ archive: "kept" });
  await page(`/dashboard/${attemptPage}`);
  const portalPages = [
    "/portal",
    "/portal/endpoints/new",
    "/portal/event-types",
    `/portal/endpoints/${destination}`,
    `/portal/endpoints/${destination}/change`,
    `/portal/endpoints/${destination}/verify`,
    `/portal/endpoints/${other}?state=dead`,
    `/portal/deliveries/${accepted.deliveries[0].id}`,
    `/portal/${attemptPage}`,
  ];
  const link = (await call("POST", "/v1/portal-links", { tenant })).json;
  const token = new URL(link.url).searchParams.get("token") ?? "";
  await page(`/portal/enter?token=${token}`);
  await page("/portal/enter", { token });
  cookies.push(visitor.cookie());
  for (const path of portalPages) await page(path);
  const signature = (text: string) => text.split(".").at(-1) ?? "";
  canaries.push({
    name: "the portal link's token",
    secret: signature(token),
    allowed: [/^POST \/v1\/portal-links$/, /^GET \/portal\/enter$/],
  });
  for (const cookie of cookies) canaries.push({ name: "a session cookie", secret: signature(cookie) });

  traces.push(...(await storedRows()), ...(await objectStorage()), ...(await keptObjects()));
  configure(`${newKeys},${oldKeys}`);
  expect((await call("POST", "/v1/rotate-master-key")).json).toMatchObject({
    rotated: 2 + auths.length,
    unreadable: [],
  });
  configure(newKeys);
  await call("POST", "/v1/events", event, key.key);
  clock.pass(60_000);
  await deliver();
  received = receiver.to(url);
  authenticated = auths.map(({ kind }) => receiver.to(protectedUrl(kind)));

  const { json: erasure } = await call("POST", "/v1/erasures", { tenant: "nobody", everything: true });
  const { json: inbox } = await call("POST", "/v1/destinations", { kind: "poll", tenant });
  const ids = {
    actions: newAgentActionId(),
    erasures: erasure.id,
    destinations: destination,
    inboxes: inbox.id,
    events: accepted.id,
    deliveries: accepted.deliveries[0].id,
    attempts: firstAttempt.at,
    keys: key.id,
    replays: replay.id,
    replay: replay.id,
  };
  const things = { tenant, ids };
  const lateness = (method: string) => (method === "GET" ? 0 : method === "DELETE" ? 2 : 1);
  for (const operation of operations.toSorted((a, b) => lateness(a.method) - lateness(b.method))) {
    const path = pathFor(operation.path, things);
    // These show a secret by design, and are called above.
    if (/^\/v1\/(portal-links|keys)$|rotate-secret$/.test(path) && operation.method === "POST") continue;
    await call(operation.method, path, bodyFor(operation, things));
  }
  const docs = createDocs(() => documentOf(createApp()));
  for (const path of ["/docs", "/docs/nothing", "/problems/not-found"]) {
    const answer = await docs.request(path, {}, env);
    note(path, [...answer.headers], await bodyText(answer));
  }
  // D1 that fails in the middle of a request.
  const db = { prepare: () => raise(), batch: () => raise() } as unknown as D1Database;
  const broken = testApi({ services: { ...services, db } });
  const failed = await broken.call("POST", "/v1/destinations", made, { authorization: `Bearer ${adminKey}` });
  note("POST /v1/destinations without D1", failed.text);
  await deliver();
  traces.push(...(await storedRows()), ...(await objectStorage()), ...(await keptObjects()));
});

function raise(): never {
  throw new Error("D1_ERROR: away");
}

test("no secret is in any table, storage, log line, message, page or answer, except the one that shows it", () => {
  expect(leaksIn(canaries, traces)).toEqual([]);
});

test("the receivers got the headers' values and the body, and every kind of place was searched", () => {
  const [first] = received;
  expect(first?.headers.get("x-api-key")).toBe(headerValue);
  expect(first?.body).toContain(eventBody);
  expect(received.at(-1)?.headers.get("x-api-key")).toBe(headerValue);
  const [basic, bearer, header, oauth2] = authenticated.map((calls) => calls.map(({ headers }) => headers));
  expect(basic?.[0]?.get("authorization")).toBe(`Basic ${btoa(`shop:${authPassword}`)}`);
  expect(bearer?.[0]?.get("authorization")).toBe(`Bearer ${bearerToken}`);
  expect(header?.[0]?.get("x-key")).toBe(keyValue);
  const tokens = oauth2?.map((headers) => headers.get("authorization")?.slice(7));
  expect(new Set(tokens)).toEqual(new Set(accessTokens));
  const places = ["A log line", "A message", "A mail", "A data point", "D1 0: ", "D1 2: ", "GATES ", "R2 "];
  for (const place of places)
    expect([place, traces.some(({ where }) => where.startsWith(place))]).toEqual([place, true]);
  expect(canaries).toHaveLength(known.length + 4);
});

test.each(["plain", "base64", "base64url", "hex", "url"])("a canary that leaks as %s is found", (form) => {
  const text = `a ${headerValue}`;
  const written: Readonly<Record<string, string>> = {
    plain: text,
    base64: btoa(text),
    base64url: btoa(text).replaceAll("+", "-").replaceAll("/", "_"),
    hex: Array.from(bytes(text), (byte) => byte.toString(16)).join(""),
    url: encodeURIComponent(text),
  };
  expect(leaksIn(known, [{ where: "Somewhere", text: `${written[form]}` }])).toHaveLength(1);
});
