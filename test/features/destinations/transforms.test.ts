/** The transformation of a destination in the API: saved, previewed, listed by versions and restored. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { readyTemplate } from "../../../src/core/transform/ready.ts";
import { type FunctionBindings, functionsFault } from "../../../src/services.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { testConfig } from "../../support/config.ts";
import { visitor } from "../../support/portal.ts";

const url = "https://example.com/hook";

let api: ReturnType<typeof testApi>;
let id: string;
beforeEach(async () => {
  await emptyDatabase();
  api = testApi();
  id = (await api.call("POST", "/v1/destinations", { url })).json.id;
});

const change = (transform: unknown) => api.call("PATCH", `/v1/destinations/${id}`, { transform });
const path = (rest: string) => `/v1/destinations/${id}/transform/${rest}`;

test("a ready template is stored as its text", async () => {
  const { status, json } = await change({ template: "slack" });
  expect(status).toBe(200);
  expect(json.transform).toEqual({ template: readyTemplate("slack") });
  const created = await api.call("POST", "/v1/destinations", { url, transform: { template: "text" } });
  expect(created.json.transform).toEqual({ template: readyTemplate("text") });
  expect((await change(null)).json.transform).toBeNull();
});

test.each([
  [{ template: { body: "a\n{{ b | nosuch }}" } }, "body", "(line 2", "Liquid"],
  [{ template: { headers: { "x-a": "{% if %}" } } }, "headers.x-a", "(line 1", "Liquid"],
  [
    { template: { headers: { "content-type": "a/b" } } },
    "headers.content-type",
    "is a string of 3",
    "at most 20",
  ],
  [{ template: { content_type: "text\r\nx: y" } }, "content_type", 'is "text', "a media type"],
  [{ template: { path: "no" } }, "path", 'is "no"', "a text that begins with /"],
  [{ template: { body: "x".repeat(16_001) } }, "body", "is a string of 16001", "a text of at most 16000"],
  [{ template: { body: 5 } }, "body", "is 5", "a text of at most 16000"],
  [{ template: { bdy: "{}" } }, "bdy", "is not a known field (did you mean body?)", "one of body"],
  [{ template: "nosuch" }, "", 'is "nosuch"', "one of slack, discord"],
  [{ template: 5 }, "", "is 5", /one of slack, .*, or an object/],
])("%j is refused with its field, fault and expectation", async (transform, part, fault, expected) => {
  const { status, json } = await change(transform);
  expect(status).toBe(422);
  const field = ["transform.template", part].filter((name) => name !== "").join(".");
  const error = { field, fault: expect.stringContaining(fault), expected: expect.stringMatching(expected) };
  expect(json.errors).toEqual([error]);
});

test("only a template or code is accepted, not both", async () => {
  for (const both of [{}, { template: {}, code: "export default () => null" }])
    expect((await change(both)).json.errors).toMatchObject([
      { field: "transform", expected: "either template or code" },
    ]);
  const { json } = await change({ template: {}, more: 1 });
  expect(json.errors).toMatchObject([{ field: "transform.more", fault: "is not a known field" }]);
});

test("a queue takes no method, path and query", async () => {
  const queue = {
    kind: "queue",
    account_id: "0".repeat(32),
    queue_id: "1".repeat(32),
    token: "t".repeat(40),
  };
  const transform = { template: { body: "{}", method: "PUT", path: "/a", query: { a: "b" } } };
  const { status, json } = await api.call("POST", "/v1/destinations", { ...queue, transform });
  expect(status).toBe(422);
  expect(json.errors.map(({ field }: { field: string }) => field)).toEqual(
    ["method", "path", "query"].map((name) => `transform.template.${name}`),
  );
});

describe("a preview", () => {
  const preview = (body: unknown) => api.call("POST", path("preview"), body);

  test.each(["transform/preview", "preview"])("counts as reading, and as no change: %s", async (rest) => {
    const counted: string[] = [];
    const counting = (kind: string) =>
      ({
        limit: async () => {
          counted.push(kind);
          return { success: true };
        },
      }) as RateLimit;
    const limited = testApi({ services: { readLimit: counting("read"), writeLimit: counting("write") } });
    const { key } = (await api.call("POST", "/v1/keys", { scopes: ["read"] })).json;
    const headers = { authorization: `Bearer ${key}` };
    expect((await limited.call("POST", `/v1/destinations/${id}/${rest}`, {}, headers)).status).toBe(200);
    expect(counted).toEqual(["read"]);
  });

  test("shows the last events before and after, and why one fails", async () => {
    await api.call("POST", "/v1/events", { type: "order.paid", data: { text: "no json" } });
    await api.call("POST", "/v1/events", { type: "order.paid", data: { text: 5 } });
    const template = { body: '{"a": {{ data.text }} }', path: "/x", headers: { "X-A": "{{ type }}" } };
    const { status, json } = await preview({ template });
    expect(status).toBe(200);
    const [sound, faulty] = json.events;
    expect(sound).toMatchObject({
      result: "sent",
      fault: null,
      before: { method: "POST", url, body: expect.stringContaining('"text":5') },
      after: { method: "POST", url: `${url}/x`, headers: { "x-a": "order.paid" }, body: '{"a": 5 }' },
      changed: ["url", "headers", "body"],
    });
    expect(faulty).toMatchObject({ result: "failed", fault: expect.stringMatching(/^body/), after: null });
    expect((await api.call("GET", `/v1/destinations/${id}`)).json.transform).toBeNull();
  });

  test("takes a type's example, and refuses an invalid Liquid template", async () => {
    await api.call("PUT", "/v1/event-types/order.paid", { example: { total: 7 } });
    const { json } = await preview({ template: { body: '{"t":"{{ data.total }}"}' }, type: "order.paid" });
    expect(json.events).toMatchObject([{ event_id: null, after: { body: '{"t":7}' } }]);
    expect((await preview({ type: "order.none" })).json.errors).toMatchObject([{ field: "type" }]);
    const wrong = await preview({ template: { body: "{% nosuch %}" } });
    expect(wrong.status).toBe(422);
    expect(wrong.json.errors).toMatchObject([{ field: "template.body" }]);
  });
});

test("versions are listed with author and time, and an earlier one can be restored", async () => {
  expect((await api.call("GET", path("versions"))).json).toEqual({ data: [] });
  await change({ template: { body: "1" } });
  await change({ template: { body: "2" } });
  const restored = await api.call("POST", path("restore"), { version: 1 });
  expect(restored.json.transform).toEqual({ template: { body: "1" } });
  const { json } = await api.call("GET", path("versions"));
  expect(json.data).toMatchObject([
    { version: 3, template: { body: "1" }, author: { kind: "admin_key", key: null } },
    { version: 2, template: { body: "2" } },
    { version: 1, template: { body: "1" } },
  ]);
  expect((await api.call("POST", path("restore"), { version: 9 })).status).toBe(404);
  const audit = await api.call("GET", `/v1/audit?subject=${id}`);
  expect(audit.json.data[0]).toMatchObject({ action: "destination.changed" });
  expect(Object.keys(audit.json.data[0].changes)).toEqual(["transform"]);
});

describe("code", () => {
  const CODE = "export default ({ data }) => (data.n > 1 ? null : { body: { n: data.n } });";
  const saved = async () => (await api.call("GET", `/v1/destinations/${id}`)).json.transform;

  test("is saved, listed, restored and previewed like a template", async () => {
    expect((await change({ code: CODE })).json.transform).toEqual({ code: CODE });
    await change({ template: { body: "1" } });
    expect((await api.call("POST", path("restore"), { version: 1 })).json.transform).toEqual({ code: CODE });
    const { data } = (await api.call("GET", path("versions"))).json;
    expect(data.map(({ code, template }: Record<string, unknown>) => [code, template])).toEqual([
      [CODE, null],
      [null, { body: "1" }],
      [CODE, null],
    ]);
    await api.call("POST", "/v1/events", { type: "order.paid", data: { n: 1 } });
    await api.call("POST", "/v1/events", { type: "order.paid", data: { n: 2 } });
    const results = [
      { result: "cancelled", fault: null, after: null },
      { result: "sent", fault: null, after: { body: '{"n":1}' }, changed: ["body"] },
    ];
    expect((await api.call("POST", path("preview"), {})).json.events).toMatchObject(results);
    expect((await api.call("POST", path("preview"), { code: CODE })).json.events).toMatchObject(results);
    const failing = "export default () => {\n  throw new Error('no') };";
    expect((await api.call("POST", path("preview"), { code: failing })).json.events[0]).toMatchObject({
      result: "failed",
      fault: expect.stringMatching(/^code \(line 2, column \d+\): threw no$/),
    });
    expect(await saved()).toEqual({ code: CODE });
    expect((await env.DB.prepare("SELECT * FROM transform_results").all()).results).toEqual([]);
  });

  test.each([
    ["export const x = 1;", "has no default export"],
    ['import a from "a";\nexport default () => a;', "imports a module"],
    ['export { default } from "./b.js";', "imports a module"],
    ['export * from "b";', "imports a module"],
    ["export default (", "threw"],
    ["export default 7;", "The default export is not a function"],
    [`export default () => "${"é".repeat(33_000)}";`, "is larger than 65536 bytes"],
  ])("that is %j is refused", async (code, fault) => {
    const { status, json } = await change({ code });
    expect(status).toBe(422);
    expect(json.errors).toMatchObject([
      {
        field: "transform.code",
        fault: expect.stringContaining(fault),
        expected: expect.stringContaining("export default"),
      },
    ]);
    expect((await api.call("POST", path("preview"), { code })).json.errors).toMatchObject([
      { field: "code" },
    ]);
  });

  test("is scanned once: a scan from each line would take a quarter of a minute", async () => {
    for (const code of ["\n".repeat(65_000), `export${" ".repeat(65_000)}`, "export\n".repeat(9_000)]) {
      const { json } = await change({ code });
      expect(json.errors).toMatchObject([{ fault: expect.stringContaining("has no default export") }]);
    }
  });

  const { FUNCTIONS, LOADER } = env as unknown as Required<FunctionBindings>;
  test.each<[FunctionBindings, boolean, string]>([
    [{}, false, "an operator switches code on by FUNCTIONS and [[worker_loaders]]"],
    [{ FUNCTIONS }, false, 'LOADER is not: add [[worker_loaders]] with binding = "LOADER"'],
    [{ LOADER }, false, 'FUNCTIONS is not: add { name = "FUNCTIONS", class_name = "TenantFunctions" }'],
    [{ FUNCTIONS, LOADER }, true, "ALLOW_PRIVATE_DESTINATIONS"],
  ])("is refused if the deployment does not run it, with instructions to change that (%#)", async (bindings, allowPrivateDestinations, how) => {
    const fault = functionsFault(bindings, testConfig({ allowPrivateDestinations }));
    const other = testApi({ services: { functions: undefined, functionsFault: fault } });
    const { status, json } = await other.call("POST", "/v1/destinations", { url, transform: { code: CODE } });
    expect(status).toBe(422);
    expect(json.errors).toMatchObject([{ field: "transform.code", expected: expect.stringContaining(how) }]);
  });

  test("runs in production with both bindings, and in development where its loader ends endless loops", () => {
    const development = testConfig({ allowPrivateDestinations: true });
    expect(functionsFault({ FUNCTIONS, LOADER }, testConfig({}))).toBeUndefined();
    const ending = { ...LOADER, endsLoops: true };
    expect(functionsFault({ FUNCTIONS, LOADER: ending }, development)).toBeUndefined();
  });

  test("is not run in a preview for keys that only read", async () => {
    const reader = testApi({ authenticate: async () => ({ scopes: ["read"] }) });
    const { status, json } = await reader.call("POST", path("preview"), { code: CODE });
    expect([status, json.errors]).toMatchObject([422, [{ field: "code" }]]);
  });

  test("of a tenant is switched off by its settings", async () => {
    await api.call("PATCH", "/v1/tenants/default", { functions: false });
    expect((await change({ code: CODE })).json.errors).toMatchObject([
      { field: "transform.code", fault: expect.stringContaining("switched") },
    ]);
    await api.call("PATCH", "/v1/tenants/default", { functions: true });
    expect((await change({ code: CODE })).status).toBe(200);
  });

  test("is written by a visitor of the portal only where the tenant's settings give that right", async () => {
    const linked = async (portal: object | null, access: object = {}) => {
      await api.call("PATCH", "/v1/tenants/default", { portal });
      const browser = await visitor("default", { access });
      const form = {
        read_version: String((await api.call("GET", path("versions"))).json.data[0]?.version ?? 0),
        code: CODE,
      };
      return (await browser.post(`/portal/endpoints/${id}/transform`, form)).status;
    };
    expect(await linked(null)).toBe(422);
    expect(await linked(null, { may_write_code: true })).toBe(422);
    expect(await linked({ may_write_code: true }, { may_write_code: false })).toBe(422);
    expect(await linked({ may_write_code: true, may_transform: false })).not.toBe(303);
    expect(await saved()).toBeNull();
    expect(await linked({ may_write_code: true })).toBe(303);
    expect(await saved()).toEqual({ code: CODE });
  });
});
