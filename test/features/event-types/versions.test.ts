/** Versions of event types by the API: published, listed, pinned, deprecated, and checked before publishing. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, test } from "vitest";
import { scopes } from "../../../src/core/scopes.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { interceptedD1 } from "../../support/intercept.ts";
import { visitor } from "../../support/portal.ts";

const { call } = testApi();
const TYPE = "order.paid";
const first = { type: "object", required: ["id"], properties: { id: { type: "integer" } } };
const second = { type: "object", required: ["order"], properties: { order: first } };
const conversion = '{"id": "{{ data.order.id }}"}';
const version = { schema: second, example: { order: { id: 5 } }, conversion };

beforeEach(async () => {
  await emptyDatabase();
  await call("PUT", `/v1/event-types/${TYPE}`, { schema: first, example: { id: 1 }, validate: true });
});

const put = (n: number | string, body: object, type = TYPE) =>
  call("PUT", `/v1/event-types/${type}/versions/${n}`, body);

test.each(["0x1", "1e0", "%202", "1.0", "01", "+1", "0"])("%s is no version's number", async (written) => {
  const { status, json } = await call("PATCH", `/v1/event-types/${TYPE}/versions/${written}`, {});
  expect([status, json.errors]).toMatchObject([422, [{ expected: "the number of a version, such as 2" }]]);
});

const patch = (n: number, body: object) => call("PATCH", `/v1/event-types/${TYPE}/versions/${n}`, body);
const endpoint = (body: object = {}) =>
  call("POST", "/v1/destinations", { url: "https://example.com/hook", tenant: "acme", ...body });
const post = (data: unknown) => call("POST", "/v1/events", { type: TYPE, data, tenant: "acme" });

describe("publishing", () => {
  it("adds the next version, against which posts are validated from then on, and keeps the one before", async () => {
    expect((await post({ id: 1 })).status).toBe(202);
    const made = await put(2, version);
    expect([made.status, made.json]).toMatchObject([201, { version: 2, conversion, deprecated_at: null }]);
    expect((await call("GET", `/v1/event-types/${TYPE}`)).json).toMatchObject({ version: 2, schema: second });
    const { json } = await call("GET", `/v1/event-types/${TYPE}/versions`);
    expect(json.data).toMatchObject([
      { version: 2, schema: second, example: { order: { id: 5 } } },
      { version: 1, schema: first, example: { id: 1 }, conversion: null },
    ]);
    expect((await post({ id: 1 })).status).toBe(422);
    expect((await post({ order: { id: 1 } })).status).toBe(202);
    const audit = await call("GET", "/v1/audit");
    expect(audit.json.data[0]).toMatchObject({
      action: "event_type.changed",
      changes: { version: expect.anything() },
    });
  });

  it("happens once", async () => {
    expect((await put(2, version)).status).toBe(201);
    expect((await put(2, version)).status).toBe(409);
    expect((await put(1, version)).status).toBe(409);
    expect((await put(4, version)).json.errors).toMatchObject([
      { field: "version", expected: "3, the next one" },
    ]);
  });

  it("of two at the same time happens once", async () => {
    const both = await Promise.all([
      put(2, version),
      put(2, { ...version, schema: first, example: { id: 2 }, conversion: "{{ data | json }}" }),
    ]);
    expect(both.map(({ status }) => status).sort()).toEqual([201, 409]);
    expect((await call("GET", `/v1/event-types/${TYPE}/versions`)).json.data).toHaveLength(2);
  });

  it.each([
    ["a schema that is none", { schema: 7 }, "schema#"],
    ["no schema", {}, "schema"],
    ["an example that does not fit", { ...version, example: { order: 1 } }, "example#/order"],
    ["a conversion that is no Liquid", { ...version, conversion: "{% nothing %}" }, "conversion"],
    [
      "a conversion that makes something else of the example",
      { ...version, conversion: '{"id": "x"}' },
      "conversion",
    ],
    ["an unknown field", { ...version, more: 1 }, "more"],
  ])("refuses %s", async (_, body, field) => {
    const { status, json } = await put(2, body);
    expect([status, json.errors[0].field]).toEqual([422, field]);
    expect((await call("GET", `/v1/event-types/${TYPE}`)).json.version).toBe(1);
  });

  it.each(["0", "-1", "1.5", "x", "1e3", "9007199254740993"])("refuses the version %s", async (n) => {
    expect([404, 422]).toContain((await put(n, version)).status);
  });

  it("needs the operator, in any spelling, and a known type", async () => {
    const acme = testApi({ authenticate: async () => ({ tenant: "acme", scopes }) });
    for (const type of [TYPE, "order%2Epaid"])
      expect((await acme.call("PUT", `/v1/event-types/${type}/versions/2`, version)).status).toBe(403);
    expect((await acme.call("PATCH", `/v1/event-types/${TYPE}/versions/1`, {})).status).toBe(403);
    expect((await acme.call("POST", `/v1/event-types/${TYPE}/check`, { schema: second })).status).toBe(403);
    expect((await acme.call("GET", `/v1/event-types/${TYPE}/versions`)).status).toBe(200);
    for (const type of ["Order.paid", "order.paid%20", "nobody"])
      expect((await put(2, version, type)).status).toBe(404);
  });

  it("protects the schema that conversions use: PUT refuses another shape, but not other annotations", async () => {
    const change = (schema: object | null) => call("PUT", `/v1/event-types/${TYPE}`, { schema });
    expect((await change({ type: "object" })).status).toBe(200);
    expect((await change(first)).status).toBe(200);
    expect((await put(2, version)).status).toBe(201);
    const refused = await change({ type: "object" });
    expect([refused.status, refused.json.errors]).toMatchObject([
      422,
      [{ field: "schema", expected: expect.stringContaining(`/v1/event-types/${TYPE}/versions/3`) }],
    ]);
    expect((await change({ ...second, title: "Paid" })).status).toBe(200);
    expect((await call("GET", `/v1/event-types/${TYPE}`)).json).toMatchObject({ schema: { title: "Paid" } });
    expect((await change(null)).status).toBe(200);
  });

  it("is not undone by a change that read the type before", async () => {
    const around = async <T>(sql: string, query: () => Promise<T>) => {
      if (sql.includes("INSERT INTO event_types (")) expect((await put(2, version)).status).toBe(201);
      return query();
    };
    const other = testApi({ services: { db: interceptedD1(env.DB, around) } });
    const changed = await other.call("PUT", `/v1/event-types/${TYPE}`, { schema: { type: "object" } });
    expect(changed.status).toBe(409);
    const { json } = await call("GET", `/v1/event-types/${TYPE}`);
    expect(json).toMatchObject({ version: 2, schema: second });
  });

  it("prevents the deletion of the type", async () => {
    await put(2, version);
    expect((await call("DELETE", `/v1/event-types/${TYPE}`)).status).toBe(409);
    expect((await call("DELETE", "/v1/event-types/nobody")).status).toBe(404);
  });
});

test("a version is deprecated with dates, and a conversion corrected; the newest has none and the first no conversion", async () => {
  await put(2, version);
  const dates = { deprecated_at: "2026-12-01T00:00:00Z", sunset_at: "2027-01-01T00:00:00Z" };
  expect((await patch(1, dates)).json).toMatchObject({
    deprecated_at: "2026-12-01T00:00:00.000Z",
    sunset_at: "2027-01-01T00:00:00.000Z",
  });
  expect((await patch(1, { deprecated_at: null })).json.errors).toMatchObject([{ field: "sunset_at" }]);
  expect((await patch(1, { deprecated_at: null, sunset_at: null })).json).toMatchObject({
    deprecated_at: null,
  });
  expect((await patch(2, dates)).status).toBe(422);
  expect((await patch(1, { conversion })).status).toBe(422);
  expect((await patch(3, {})).status).toBe(404);
  expect((await patch(2, { conversion: '{"id": 1}' })).json).toMatchObject({ conversion: '{"id": 1}' });
  expect((await patch(2, { conversion: '{"id": 1}' })).status).toBe(200);
  const stored = await env.DB.prepare("SELECT conversions FROM event_type_versions WHERE version = 2").first(
    "conversions",
  );
  expect(JSON.parse(String(stored)).map(({ template }: { template: string }) => template)).toEqual([
    conversion,
    '{"id": 1}',
  ]);
});

test("the portal says in the visitor's language which versions are deprecated and when they end", async () => {
  await put(2, version);
  await patch(1, { deprecated_at: "2026-12-01T00:00:00Z" });
  const page = async (language: string) =>
    (await (await visitor("acme", { language })).get("/portal/event-types")).html;
  expect(await page("en")).toContain("Version 1 is deprecated since 1 Dec 2026, 00:00:00 UTC.");
  await patch(1, { sunset_at: "2027-01-01T00:00:00Z" });
  expect(await page("de")).toContain(
    "Version 1 ist veraltet seit 01.12.2026, 00:00:00 UTC und endet am 01.01.2027, 00:00:00 UTC.",
  );
});

describe("pinning", () => {
  beforeEach(() => put(2, version));

  it("accepts existing versions, can change, and can be undone", async () => {
    const { json } = await endpoint({ event_versions: { [TYPE]: 1 } });
    expect(json.event_versions).toEqual({ [TYPE]: 1 });
    const change = async (event_versions: unknown) =>
      call("PATCH", `/v1/destinations/${json.id}`, { event_versions });
    expect((await change({ [TYPE]: 2 })).json.event_versions).toEqual({ [TYPE]: 2 });
    expect((await change(null)).json.event_versions).toEqual({});
    for (const pins of [
      { [TYPE]: 3 },
      { nobody: 1 },
      { [TYPE]: 0 },
      { [TYPE]: "1" },
      { "a b": 1 },
      { "Order.paid": 1 },
    ])
      expect([pins, (await change(pins)).status]).toEqual([pins, 422]);
    const inbox = await call("POST", "/v1/destinations", {
      kind: "poll",
      tenant: "acme",
      event_versions: { [TYPE]: 1 },
    });
    expect(inbox.json.event_versions).toEqual({ [TYPE]: 1 });
  });

  it("converts downwards only: a post that names another version than the newest is refused, with the expectation", async () => {
    const post = (event: object) =>
      call("POST", "/v1/events", { type: TYPE, tenant: "acme", data: { order: { id: 1 } }, ...event });
    expect((await post({ version: 2 })).status).toBe(202);
    for (const version of [1, 3]) {
      const { status, json } = await post({ version });
      const expected = `2, the newest version of ${TYPE}`;
      expect([status, json.errors]).toEqual([422, [{ field: "version", fault: `is ${version}`, expected }]]);
    }
    const other = await call("POST", "/v1/events/batch", {
      events: [
        { type: "a", data: 1, version: 1 },
        { type: "a", data: 1, version: 2 },
      ],
    });
    expect(other.json.errors).toMatchObject([
      { field: "events[1].version", expected: "1, the newest version of a" },
    ]);
    expect((await post({ version: "2" })).status).toBe(422);
  });

  it("stores only the last changes, of which the oldest counts for everything earlier", async () => {
    const { json } = await endpoint();
    for (let i = 0; i < 25; i++)
      await call("PATCH", `/v1/destinations/${json.id}`, { event_versions: { [TYPE]: 1 + (i % 2) } });
    await call("PATCH", `/v1/destinations/${json.id}`, { event_versions: { [TYPE]: 1 } });
    const stored = await env.DB.prepare("SELECT event_versions FROM destinations WHERE id = ?1")
      .bind(json.id)
      .first("event_versions");
    const changes = JSON.parse(String(stored));
    expect(changes).toHaveLength(20);
    expect([changes[0], changes[19]]).toMatchObject([{ after: -1 }, { pins: { [TYPE]: 1 } }]);
  });

  it("is listed by type; a tenant sees only its own endpoints", async () => {
    const mine = (await endpoint({ event_versions: { [TYPE]: 1 } })).json.id;
    const theirs = (await endpoint({ tenant: "beta" })).json.id;
    await endpoint({ event_types: ["other.*"] });
    const listed = await call("GET", `/v1/event-types/${TYPE}/endpoints`);
    expect(
      listed.json.data.toSorted((a: { version: number }, b: { version: number }) => a.version - b.version),
    ).toEqual([
      { destination_id: mine, tenant: "acme", version: 1 },
      { destination_id: theirs, tenant: "beta", version: 2 },
    ]);
    const acme = testApi({ authenticate: async () => ({ tenant: "acme", scopes }) });
    const own = await acme.call("GET", `/v1/event-types/${TYPE}/endpoints?limit=1`);
    const rest = await acme.call(
      "GET",
      `/v1/event-types/${TYPE}/endpoints?limit=1&cursor=${own.json.next_cursor}`,
    );
    expect([...own.json.data, ...rest.json.data]).toEqual([
      { destination_id: mine, tenant: "acme", version: 1 },
    ]);
    expect(
      (await acme.call("PATCH", `/v1/destinations/${theirs}`, { event_versions: { [TYPE]: 1 } })).status,
    ).toBe(404);
    const foreign = btoa(JSON.stringify("dst_")).replaceAll("=", "");
    const after = await acme.call("GET", `/v1/event-types/${TYPE}/endpoints?cursor=${foreign}`);
    expect(JSON.stringify(after.json)).not.toContain(theirs);
  });
});

test("a check shows what would break for whom, without changing anything; erased events are counted", async () => {
  await call("PUT", `/v1/event-types/${TYPE}`, {});
  await call("PUT", `/v1/event-types/${TYPE}`, { schema: first });
  await endpoint();
  await endpoint({ tenant: "beta" });
  const say = (tenant: string, data: unknown) => call("POST", "/v1/events", { type: TYPE, data, tenant });
  await say("acme", { order: { id: 1 } });
  await say("acme", { id: 1 });
  await say("beta", { order: { id: 2, name: "x" } });
  await say("beta", { order: { id: 3 } });
  const erased = (await say("beta", { order: { id: 4 } })).json.id;
  expect((await call("POST", "/v1/erasures", { tenant: "beta", event_id: erased })).status).toBeLessThan(300);
  const draft = { schema: second, conversion: '{"id": {% if data.order.name %}"x"{% else %}1{% endif %}}' };
  const { status, json } = await call("POST", `/v1/event-types/${TYPE}/check`, draft);
  expect(status).toBe(200);
  const byTenant = Object.fromEntries(json.tenants.map((one: { tenant: string }) => [one.tenant, one]));
  expect(byTenant.acme).toMatchObject({ events: 2, refused: 1, failed: 0, unfit: 0 });
  expect(byTenant.beta).toMatchObject({
    refused: 0,
    unfit: 1,
    faults: [expect.stringContaining("data#/id")],
  });
  expect(json.skipped + byTenant.beta.events).toBe(3);
  expect((await call("GET", `/v1/event-types/${TYPE}`)).json.version).toBe(1);
});
