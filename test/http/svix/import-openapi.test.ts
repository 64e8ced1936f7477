/** The import of an OpenAPI document into the catalogue of event types, in the Svix API. */
import { beforeEach, describe, expect, it } from "vitest";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { MOST_TYPES } from "../../../src/store/event-types.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";

const { call } = testApi({ create: createSvixApi });
const native = testApi();
beforeEach(emptyDatabase);

const post = (body: object, headers = {}) => call("POST", "/api/v1/event-type/import/openapi", body, headers);
const webhook = (schema: unknown, media = {}, rest = {}) => ({
  post: { ...rest, requestBody: { content: { "application/json": { schema, ...media } } } },
});
const schema = { type: "object", properties: { total: { type: "number" } } };
const spec = {
  openapi: "3.1.0",
  webhooks: {
    "order.paid": webhook(schema, { example: { total: 1 } }, { description: "Paid" }),
    "order.sent": { post: {} },
  },
};
const typeOf = async (name: string) => (await native.call("GET", `/v1/event-types/${name}`)).json;
const names = async () =>
  (await call("GET", "/api/v1/event-type")).json.data.map((one: { name: string }) => one.name);

describe("an import", () => {
  it("creates the event types of the webhooks, with schema and example", async () => {
    const { status, json } = await post({ spec });
    expect([status, json]).toEqual([
      200,
      { data: { modified: ["order.paid", "order.sent"], to_modify: null } },
    ]);
    const about = { description: "Paid", schema, example: { total: 1 }, validate: false, archived: false };
    expect(await typeOf("order.paid")).toMatchObject(about);
    expect((await call("GET", "/api/v1/event-type/order.sent")).json).toMatchObject({
      description: "",
      schemas: null,
    });
    expect((await post({ spec })).json.data.modified).toEqual([]);
  });

  it("reads a document as YAML or JSON", async () => {
    const yaml = `
openapi: 3.1.0
x-webhooks:
  order.lost:
    post:
      description: Lost
      requestBody: {content: {application/json: {schema: &any {type: object}}}}
  order.found:
    post: {requestBody: {content: {application/json: {schema: *any}}}}`;
    expect((await post({ specRaw: yaml })).json.data.modified).toEqual(["order.lost", "order.found"]);
    expect((await typeOf("order.found")).schema).toEqual({ type: "object" });
    expect((await post({ specRaw: JSON.stringify(spec) })).json.data.modified).toHaveLength(2);
  });

  it("writes nothing in a dry run, and shows what it would modify", async () => {
    const { json } = await post({ spec, dryRun: true });
    expect(json.data).toEqual({
      modified: ["order.paid", "order.sent"],
      to_modify: [
        {
          name: "order.paid",
          description: "Paid",
          schemas: { "1": schema },
          deprecated: false,
          groupName: null,
          featureFlags: null,
        },
        {
          name: "order.sent",
          description: "",
          schemas: null,
          deprecated: false,
          groupName: null,
          featureFlags: null,
        },
      ],
    });
    expect(await names()).toEqual([]);
  });

  it("archives other types only with replaceAll, and unarchives imported ones", async () => {
    for (const name of ["old", "order.sent"])
      await native.call("PUT", `/v1/event-types/${name}`, { archived: name === "order.sent" });
    await post({ spec });
    expect(await names()).toEqual(["old", "order.paid", "order.sent"]);
    expect((await post({ spec, replaceAll: true, dryRun: true })).json.data.modified).toEqual(["old"]);
    expect((await post({ spec, replaceAll: true })).json.data.modified).toEqual(["old"]);
    expect(await names()).toEqual(["order.paid", "order.sent"]);
    expect((await typeOf("old")).archived).toBe(true);
  });

  it("keeps what the document lacks: validation, and schema and example if it has none", async () => {
    const kept = { schema: { type: "integer" }, example: 7, validate: true };
    for (const name of ["order.paid", "order.sent"])
      await native.call("PUT", `/v1/event-types/${name}`, kept);
    await post({ spec });
    expect(await typeOf("order.sent")).toMatchObject(kept);
    expect(await typeOf("order.paid")).toMatchObject({ schema, example: { total: 1 }, validate: true });
    await post({ spec: { webhooks: { "order.paid": webhook({ type: "object" }) } } });
    expect(await typeOf("order.paid")).toMatchObject({ schema: { type: "object" }, example: { total: 1 } });
    // An example that no longer fits is removed.
    await post({ spec: { webhooks: { "order.paid": webhook({ type: "string" }) } } });
    expect((await typeOf("order.paid")).example).toBeNull();
  });

  it("is refused as a whole for one fault, which is named", async () => {
    const webhooks = { ...spec.webhooks, bad: webhook({ type: "text" }) };
    const { status, json } = await post({ spec: { webhooks } });
    const msg = expect.stringMatching(/^\/webhooks\/bad\/.*schema\/type is .*; expected one of null/);
    expect([status, json]).toEqual([422, { detail: [{ loc: ["body", "spec"], msg, type: "value_error" }] }]);
    expect(await names()).toEqual([]);
  });

  it("is refused as a whole if the catalogue has no room", async () => {
    const some = (count: number, name: string) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`${name}.${i}`, { post: {} }]));
    expect((await post({ spec: { webhooks: some(MOST_TYPES - 1, "a") } })).status).toBe(200);
    const { status, json } = await post({ spec: { webhooks: some(2, "b") }, replaceAll: true });
    expect([status, json.detail[0].msg]).toEqual([422, expect.stringContaining("room")]);
    expect((await names()).some((name: string) => name.startsWith("b."))).toBe(false);
    expect(await names()).toContain("a.0");
    expect((await post({ spec: { webhooks: some(1, "b") } })).status).toBe(200);
  });

  const aliases = [
    "a: &a [x, x]",
    ...Array.from(
      "bcdefghij",
      (one, i) =>
        `${one}: &${one} [*${"abcdefghi"[i]}, *${"abcdefghi"[i]}, *${"abcdefghi"[i]}, *${"abcdefghi"[i]}]`,
    ),
  ].join("\n");

  it.each<[string, object, number]>([
    ["neither document", {}, 400],
    ["both documents", { spec, specRaw: "{}" }, 400],
    ["a list", { specRaw: "[]" }, 422],
    ["text", { specRaw: "a" }, 422],
    ["nothing", { specRaw: "" }, 422],
    ["broken YAML", { specRaw: "a: [b" }, 422],
    ["two documents", { specRaw: "a: 1\n---\nb: 2" }, 422],
    ["aliases that multiply", { specRaw: aliases }, 422],
    ["brackets without an end", { specRaw: "[".repeat(100_000) }, 422],
    ["a dry run that is text", { spec, dryRun: "yes" }, 422],
    ["a document that is text", { spec: "a" }, 422],
  ])("of %s is refused", async (_, body, wanted) => {
    const { status, json } = await post(body);
    expect([status, json.detail !== undefined]).toEqual([wanted, true]);
    expect(await names()).toEqual([]);
  });

  it("is refused with 413 above a megabyte", async () => {
    expect((await post({ specRaw: "a".repeat(1024 * 1024) })).status).toBe(413);
  });

  it("is refused to a key that is bound to a tenant", async () => {
    const { json } = await native.call("POST", "/v1/keys", { scopes: ["admin"], tenant: "a" });
    const headers = { authorization: `Bearer ${json.key}` };
    expect((await post({ spec }, headers)).status).toBe(403);
  });
});
