/**
 * Two changes of different fields of one thing at the same moment: both count, whichever is written first. The second
 * request is made, and answered, right before the first one writes.
 */
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { scopes } from "../../src/core/scopes.ts";
import { createSvixApi } from "../../src/http/svix/app.ts";
import { emptyDatabase, testApi } from "../support/api.ts";
import { interceptedD1 } from "../support/intercept.ts";

const authenticate = async () => ({ scopes });
const native = testApi({ authenticate }).call;
const svix = testApi({ authenticate, create: createSvixApi }).call;

beforeEach(emptyDatabase);

/** A statement that changes what the requests are about. */
const WRITE = /\b(?:UPDATE|INSERT INTO) "?(?:applications|destinations|event_types|tenant_settings)\b/i;

type Request = readonly [method: string, path: string, body?: object | undefined];
type Answer = Readonly<{ status: number }>;

/** Answers of the first request and of the second. */
async function atOnce(first: Request, second: Request): Promise<readonly Answer[]> {
  let answer: Answer | undefined;
  let isMade = false;
  const db = interceptedD1(env.DB, async (sql, work) => {
    if (!isMade && WRITE.test(sql)) {
      isMade = true;
      answer = await callerOf(second)(...second);
    }
    return work();
  });
  const create = isOfSvix(first) ? { create: createSvixApi } : {};
  const made = await testApi({ authenticate, services: { db }, ...create }).call(...first);
  if (answer === undefined) throw new Error("The first request has written nothing");
  return [made, answer];
}

const isOfSvix = ([, path]: Request) => path.startsWith("/api/");
const callerOf = (request: Request) => (isOfSvix(request) ? svix : native);

const HOOK = "https://example.com/hook";
const APP = "/api/v1/app/acme";
const ENDPOINT = `${APP}/endpoint/one`;
const TYPE = "/api/v1/event-type/order.paid";

async function prepare(): Promise<string> {
  await svix("POST", "/api/v1/app", { name: "Acme", uid: "acme" });
  await svix("POST", `${APP}/endpoint`, { url: HOOK, uid: "one", headers: { "x-a": "1", "x-b": "1" } });
  await svix("POST", "/api/v1/event-type", {
    name: "order.paid",
    description: "old",
    schemas: { "1": { type: "object" } },
  });
  return (await native("POST", "/v1/destinations", { url: HOOK, tenant: "other" })).json.id;
}

type Case = Readonly<{
  first: Request;
  second: Request;
  shown: string;
  expected: object;
}>;

const cases: Readonly<Record<string, Case>> = {
  "an application's name and metadata": {
    first: ["PATCH", APP, { name: "New" }],
    second: ["PATCH", APP, { metadata: { plan: "pro" } }],
    shown: APP,
    expected: { name: "New", metadata: { plan: "pro" }, uid: "acme" },
  },
  "an application's uid and rate": {
    first: ["PATCH", "/api/v1/app/acme", { uid: "acme-2" }],
    second: ["PATCH", APP, { throttleRate: 7 }],
    shown: "/api/v1/app/acme-2",
    expected: { uid: "acme-2", throttleRate: 7, name: "Acme" },
  },
  "an endpoint's description and channels": {
    first: ["PATCH", ENDPOINT, { description: "New" }],
    second: ["PATCH", ENDPOINT, { channels: ["a"] }],
    shown: ENDPOINT,
    expected: { description: "New", channels: ["a"] },
  },
  "two of an endpoint's headers": {
    first: ["PATCH", `${ENDPOINT}/headers`, { headers: { "x-c": "1" }, deleteHeaders: ["x-a"] }],
    second: ["PATCH", `${ENDPOINT}/headers`, { headers: { "x-d": "1" }, deleteHeaders: ["x-b"] }],
    shown: `${ENDPOINT}/headers`,
    expected: { sensitive: ["x-d", "x-c"] },
  },
  "an event type's description and archival": {
    first: ["PATCH", TYPE, { description: "New" }],
    second: ["PATCH", TYPE, { archived: true }],
    shown: TYPE,
    expected: { description: "New", archived: true, schemas: { "1": { type: "object" } } },
  },
  "an event type's schema, and that it is archived by deletion": {
    first: ["DELETE", TYPE],
    second: ["PATCH", TYPE, { schemas: { "1": { type: "string" } } }],
    shown: TYPE,
    expected: { description: "old", archived: true, schemas: { "1": { type: "string" } } },
  },
  "an event type's description, and its example in Breakwater's own API": {
    first: ["PATCH", TYPE, { description: "New" }],
    second: [
      "PUT",
      "/v1/event-types/order.paid",
      { schema: { type: "object" }, example: {}, validate: true },
    ],
    shown: "/v1/event-types/order.paid",
    expected: { description: "New", example: {}, validate: true },
  },
  "a destination's description and channels": {
    first: ["PATCH", "/v1/destinations/DST", { description: "New" }],
    second: ["PATCH", "/v1/destinations/DST", { channels: ["a"] }],
    shown: "/v1/destinations/DST",
    expected: { description: "New", channels: ["a"] },
  },
  "two settings of a destination's circuit breaker": {
    first: ["PATCH", "/v1/destinations/DST", { breaker: { cooldown_s: 11 } }],
    second: ["PATCH", "/v1/destinations/DST", { breaker: { min_attempts: 7 } }],
    shown: "/v1/destinations/DST",
    expected: { breaker: { cooldown_s: 11, min_attempts: 7 } },
  },
  "a tenant's address and portal": {
    first: ["PATCH", "/v1/tenants/other", { contact_email: "ops@other.example" }],
    second: ["PATCH", "/v1/tenants/other", { portal: { theme: "dark" } }],
    shown: "/v1/tenants/other",
    expected: { contact_email: "ops@other.example", portal: { theme: "dark" } },
  },
};

test.each(Object.entries(cases))("both changes take effect: %s", async (_, {
  first,
  second,
  shown,
  expected,
}) => {
  const id = await prepare();
  const named = ([method, path, body]: Request): Request => [method, path.replace("DST", id), body];
  const answers = await atOnce(named(first), named(second));
  for (const { status } of answers) expect(status).toBeLessThan(300);
  const [method, path] = named(["GET", shown]);
  const { json } = await callerOf(["GET", shown])(method, path);
  expect(json).toMatchObject(expected);
});

test("an application's new rate goes to the endpoints that have its rate at that moment", async () => {
  await prepare();
  const answers = await atOnce(
    ["PATCH", APP, { throttleRate: 5 }],
    ["PATCH", APP, { throttleRate: 9, name: "New" }],
  );
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  expect((await svix("GET", APP)).json).toMatchObject({ throttleRate: 5, name: "New" });
  expect((await svix("GET", ENDPOINT)).json.throttleRate, "none of its own").toBeNull();
});

test("one of two requests that create an event type at the same moment is refused", async () => {
  const create = (description: string): Request => [
    "POST",
    "/api/v1/event-type",
    { name: "order.paid", description },
  ];
  const answers = await atOnce(create("first"), create("second"));
  expect(answers.map(({ status }) => status)).toEqual([409, 201]);
  expect((await svix("GET", TYPE)).json.description).toBe("second");
});
