/**
 * Every request to a route of the Svix API is answered with a fault of the caller or a result, never with an internal
 * error.
 */
import { beforeAll, expect, test } from "vitest";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";

const { call } = testApi({ create: createSvixApi });

const routes = createSvixApi()
  .routes.filter(({ method }) => method !== "ALL" && method !== "OPTIONS")
  .map(({ method, path }) => `${method} ${path}`);

const names = ["%00", "%F0%9F%98%80", "'\"--", "a".repeat(2_000), "%zz", "__proto__", "evt_0000000000000"];
const values: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1e300,
  "",
  "\u0000",
  "x".repeat(3_000),
  [],
  [null],
  {},
  { a: { b: null } },
  // It cannot be converted to text.
  { toString: 1, valueOf: 1 },
];
const usual = {
  ...{ name: "a", url: "https://receiver.example/", description: "a", eventType: "a", payload: {} },
  headers: {},
  ...{ since: "2026-11-21T08:00:00Z", status: 2 },
};
const queries = [
  "limit=0",
  "iterator=%00",
  "iterator=W10",
  "order=x",
  "before=x",
  "status=9",
  "since=x",
  "until=1970-01-01T00:00:00Z",
  "task=x",
  "tag=%00",
  "tag=",
];

let app = "";
/** Fields of bodies that any route reads. */
const read = new Set<string>();

beforeAll(async () => {
  await emptyDatabase();
  app = (await call("POST", "/api/v1/app", { name: "A" })).json.id;
  await call("POST", `/api/v1/app/${app}/endpoint`, { url: "https://receiver.example/", uid: "hook" });
  await call("POST", `/api/v1/app/${app}/msg`, { eventType: "a", eventId: "message", payload: 1 });
  await call("POST", "/api/v1/event-type", { name: "a", description: "" });
});

/** The path with existing objects. */
function pathOf(pattern: string): string {
  const known: Record<string, string> = {
    app,
    endpoint: "hook",
    msg: "message",
    name: "a",
    attempt: "atmpt_a",
  };
  return pattern.replace(/:(\w+)/g, (_, name: string) => known[name] ?? name);
}

test.each([...new Set(routes)].filter((route) => !route.startsWith("DELETE")))("%s", async (route) => {
  const [method = "", pattern = ""] = route.split(" ");
  const takesBody = method !== "GET";
  const path = pathOf(pattern);
  const paths = [
    path,
    ...names.map((name) => pattern.replace(/:app/, app).replace(/:\w+/g, name)),
    ...names.map((name) => pattern.replace(/:\w+/g, name)),
    ...queries.map((query) => `${path}?${query}`),
  ];
  const fields = takesBody ? await fieldsReadBy(method, path) : [];
  for (const field of fields) read.add(field);
  // A field that the route does not read changes nothing.
  const bodies = takesBody
    ? ["{", "[]", "null", ...fields.flatMap((field) => values.map((value) => ({ ...usual, [field]: value })))]
    : [];
  const answers = [
    ...(await each(paths, (one) => call(method, one, takesBody ? usual : undefined))),
    ...(await each(bodies, (body) => call(method, path, body, { "content-type": "application/json" }))),
  ];
  expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
  const shapes = answers.filter(({ status, json }) => status >= 400 && json?.detail === undefined);
  expect(shapes).toEqual([]);
});

test("the test finds the fields that routes read", () => {
  expect([...read]).toEqual(expect.arrayContaining(["uid", "eventTypes", "deliverAt", "statusCodeClass"]));
  expect(read.size).toBeGreaterThan(30);
});

/** The fields that the route reads of a body. */
async function fieldsReadBy(method: string, path: string): Promise<string[]> {
  const found = new Set<string>();
  const sent = JSON.stringify(usual);
  const { parse } = JSON;
  const note = (name: string | symbol) => {
    // `await` reads `then` of the value.
    if (typeof name === "string" && name !== "then") found.add(name);
  };
  const noting: ProxyHandler<object> = {
    get: (body, name) => {
      note(name);
      return Reflect.get(body, name);
    },
    has: (body, name) => {
      note(name);
      return Reflect.has(body, name);
    },
  };
  JSON.parse = (text: string, ...rest) =>
    text === sent ? new Proxy(parse(text), noting) : parse(text, ...rest);
  try {
    await call(method, path, usual);
  } finally {
    JSON.parse = parse;
  }
  return [...found];
}

async function each<T, R>(items: readonly T[], use: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (const item of items) results.push(await use(item));
  return results;
}
