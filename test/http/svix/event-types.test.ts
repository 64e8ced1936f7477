/** Event types in the Svix API: those of the catalogue. */
import { beforeEach, describe, expect, it } from "vitest";
import { scopes } from "../../../src/core/scopes.ts";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";

const { call } = testApi({ create: createSvixApi });
const native = testApi();
const AT = "2026-11-21T09:00:00.000Z";
const schema = { type: "object", required: ["total"] };
const full = { name: "order.paid", description: "Paid", schemas: { "1": schema } };
const one = "/api/v1/event-type/order.paid";

beforeEach(emptyDatabase);

const create = (body: object = full) => call("POST", "/api/v1/event-type", body);

describe("an event type", () => {
  it("is shown as it was created, and is in the catalogue", async () => {
    const { status, json } = await create();
    expect([status, json]).toEqual([
      201,
      {
        ...full,
        archived: false,
        deprecated: false,
        groupName: null,
        featureFlag: null,
        featureFlags: null,
        createdAt: AT,
        updatedAt: AT,
      },
    ]);
    expect((await call("GET", one)).json).toEqual(json);
    const { json: stored } = await native.call("GET", "/v1/event-types/order.paid");
    expect(stored).toMatchObject({ description: "Paid", schema, validate: false });
  });

  it("is created once, and again after it was archived", async () => {
    await create();
    expect((await create()).status).toBe(409);
    expect((await call("DELETE", one)).status).toBe(204);
    expect((await call("GET", one)).json).toMatchObject({ archived: true, schemas: { "1": schema } });
    expect((await create()).json.archived).toBe(false);
  });

  it("keeps omitted fields, its example and its validation with PATCH, and replaces them with PUT", async () => {
    const known = { schema, example: { total: 1 }, validate: true, description: "Paid" };
    await native.call("PUT", "/v1/event-types/order.paid", known);
    const patched = (await call("PATCH", one, { description: "New" })).json;
    expect(patched).toMatchObject({ description: "New", schemas: { "1": schema } });
    const stored = await native.call("GET", "/v1/event-types/order.paid");
    expect(stored.json).toMatchObject({ example: { total: 1 }, validate: true });
    const put = (await call("PUT", one, { description: "Put" })).json;
    expect(put).toMatchObject({ description: "Put", schemas: null });
    expect((await call("PUT", "/api/v1/event-type/fresh", { description: "F" })).status).toBe(201);
  });

  it("keeps each digit of examples, also of one that only the catalogue has", async () => {
    const total = JSON.rawJSON("12345678901234567890");
    const schemas = { "1": { ...schema, examples: [{ total }] } };
    const shown = '"examples":[{"total":12345678901234567890}]';
    expect((await create({ ...full, schemas })).text).toContain(shown);
    await native.call("PUT", "/v1/event-types/order.paid", { schema, example: { total } });
    await call("PATCH", one, { description: "New" });
    expect((await native.call("GET", "/v1/event-types/order.paid")).text).toContain(
      '"example":{"total":12345678901234567890}',
    );
  });

  it("is listed by name, page by page, with archived ones and with schemas on demand", async () => {
    for (const name of ["b", "a", "c"]) await create({ ...full, name, archived: name === "c" });
    const names = (json: { data: { name: string }[] }) => json.data.map(({ name }) => name);
    const { json } = await call("GET", "/api/v1/event-type");
    expect([names(json), json.data[0].schemas]).toEqual([["a", "b"], null]);
    const all = await call(
      "GET",
      "/api/v1/event-type?include_archived=true&order=descending&with_content=true",
    );
    expect([names(all.json), all.json.data[0].schemas]).toEqual([["c", "b", "a"], { "1": schema }]);
    const first = (await call("GET", "/api/v1/event-type?limit=1")).json;
    const rest = (await call("GET", `/api/v1/event-type?limit=1&iterator=${first.iterator}`)).json;
    expect([first.done, names(rest), rest.done]).toEqual([false, ["b"], true]);
  });

  it("is gone when it is expunged", async () => {
    await create();
    expect((await call("DELETE", `${one}?expunge=true`)).status).toBe(204);
    expect((await call("GET", one)).status).toBe(404);
    expect((await call("DELETE", one)).status).toBe(404);
  });

  it("can be read with the key of an application, but not changed", async () => {
    await create();
    const bound = testApi({ create: createSvixApi, authenticate: async () => ({ tenant: "app_a", scopes }) });
    expect((await bound.call("GET", one)).status).toBe(200);
    for (const [method, path, body] of [
      ["POST", "/api/v1/event-type", { ...full, name: "b" }],
      ["PATCH", one, { description: "New" }],
      ["DELETE", one, undefined],
      ["DELETE", `${one}?expunge=true`, undefined],
    ] as const)
      expect((await bound.call(method, path, body)).status).toBe(403);
    expect((await call("GET", one)).json).toMatchObject({ description: "Paid", archived: false });
  });

  it.each<[object, string[], string]>([
    [{ name: undefined }, ["body", "name"], "is missing"],
    [{ name: "a b" }, ["body", "name"], "expected letters"],
    [{ description: undefined }, ["body", "description"], "is missing"],
    [{ schemas: { "1": { $ref: "https://example.com" } } }, ["body", "schemas"], ""],
    [{ schemas: { "1": schema, "2": schema } }, ["body", "schemas"], "is not supported"],
    [{ deprecated: true }, ["body", "deprecated"], "is not supported"],
    [{ groupName: "a" }, ["body", "groupName"], "is not supported"],
    [{ featureFlags: ["a"] }, ["body", "featureFlags"], "is not supported"],
  ])("is refused with %j at %j", async (body, loc, msg) => {
    const { status, json } = await create({ ...full, ...body });
    expect([status, json.detail[0].loc.slice(0, 2)]).toEqual([422, loc]);
    expect(json.detail[0].msg).toContain(msg);
    expect((await call("GET", "/api/v1/event-type?include_archived=true")).json.data).toEqual([]);
  });
});
