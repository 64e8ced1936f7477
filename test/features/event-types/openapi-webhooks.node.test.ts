/** Which event types the webhooks of an OpenAPI document are, and what is wrong with a document. */
import { describe, expect, it, test } from "vitest";
import { type JsonSchema, schemaFaults } from "../../../src/core/json-schema.ts";
import { dataFaults } from "../../../src/core/json-schema-check.ts";
import {
  isFaulty,
  type WebhookType,
  webhooksIn,
} from "../../../src/features/event-types/openapi-webhooks.ts";

const json = (schema: unknown, media = {}) => ({
  requestBody: { content: { "application/json": { schema, ...media } } },
});
const document = (post: object, rest = {}) => ({ webhooks: { "order.paid": { post } }, ...rest });
const withSchemas = (schema: unknown, schemas: object) => document(json(schema), { components: { schemas } });

function read(given: object): readonly WebhookType[] {
  const types = webhooksIn(given as Record<string, unknown>);
  if (isFaulty(types)) throw new Error(JSON.stringify(types));
  return types.map(({ conversion: _, conversionAt: __, ...type }) => type as WebhookType);
}
const schemaOf = (given: object) => read(given)[0]?.schema;
const faultsOf = (given: object) => webhooksIn(given as Record<string, unknown>);

const DEEP = Array.from({ length: 5_000 }).reduce((inner) => ({ items: inner }), {});

describe("the webhooks of a document", () => {
  it("are event types named by their keys, of webhooks and of x-webhooks", () => {
    const post = { description: "Paid", deprecated: true, ...json({ type: "object" }) };
    const types = read({
      webhooks: { "order.paid": { post } },
      "x-webhooks": { "order.sent": { post: { summary: "Sent", operationId: "sent" } }, lost: { post: {} } },
    });
    const none = { deprecated: false, schema: undefined, example: undefined };
    expect(types).toEqual([
      {
        name: "order.paid",
        description: "Paid",
        deprecated: true,
        schema: { type: "object" },
        example: undefined,
      },
      { name: "order.sent", description: "Sent", ...none },
      { name: "lost", description: "", ...none },
    ]);
  });

  it("have each schema that they refer to, also where names begin alike or look numbered", () => {
    const [long, other] = ["A", "B"].map((end) => "x".repeat(128) + end);
    const places = [`schemas/${long}`, `schemas/${other}`, "schemas/a", "schemas/a_4", "other/a"];
    const properties = Object.fromEntries(places.map((at, i) => [i, { $ref: `#/components/${at}` }]));
    const schemas = Object.fromEntries([long, other, "a", "a_4"].map((name, i) => [name, { const: i }]));
    const components = { schemas, other: { a: { const: 4 } } };
    const schema = schemaOf(document(json({ properties }), { components })) as JsonSchema;
    expect(places.map((_, i) => dataFaults(schema, { [i]: i }))).toEqual(places.map(() => []));
  });

  it("may refer to path items, bodies and examples, and take the first example", () => {
    const [type] = read({
      webhooks: { a: { $ref: "#/components/pathItems/A" } },
      components: {
        pathItems: { A: { post: { requestBody: { $ref: "#/components/requestBodies/A~1B" } } } },
        requestBodies: {
          "A/B": {
            content: {
              "application/vnd.shop+json": {
                schema: { type: "integer" },
                examples: { one: { $ref: "#/components/examples/one" }, two: { value: 2 } },
              },
            },
          },
        },
        examples: { one: { value: 1 } },
      },
    });
    expect(type).toMatchObject({ name: "a", schema: { type: "integer" }, example: 1 });
  });

  it("have the example of the media type", () => {
    const post = json({ type: "integer" }, { example: 7, examples: { a: { value: 8 } } });
    expect(read(document(post))[0]?.example).toBe(7);
  });

  it("have no schema if the body is not JSON", () => {
    const post = { requestBody: { content: { "text/xml": { schema: { type: "string" } } } } };
    expect(read(document(post))[0]?.schema).toBeUndefined();
  });
});

describe("a schema", () => {
  it("includes what it refers to, once, and recursive references", () => {
    const schemas = {
      Order: {
        properties: {
          lines: { items: { $ref: "#/components/schemas/Line" } },
          parent: { $ref: "#/components/schemas/Order" },
        },
      },
      Line: { type: "string" },
      Unused: { type: "null" },
    };
    const properties = { lines: { items: { $ref: "#/$defs/Line" } }, parent: { $ref: "#/$defs/Order" } };
    const schema = schemaOf(withSchemas({ $ref: "#/components/schemas/Order" }, schemas));
    expect(schema).toEqual({
      $ref: "#/$defs/Order",
      $defs: { Order: { properties }, Line: { type: "string" } },
    });
    expect(schemaFaults(schema)).toEqual([]);
  });

  it("distinguishes two places with the same last step", () => {
    const schemas = {
      A: { properties: { id: { type: "string" } } },
      B: { properties: { id: { type: "integer" } } },
    };
    const refs = ["A", "B"].map((one) => ({ $ref: `#/components/schemas/${one}/properties/id` }));
    expect(schemaOf(withSchemas({ prefixItems: refs }, schemas))).toEqual({
      prefixItems: [{ $ref: "#/$defs/id" }, { $ref: "#/$defs/id_1" }],
      $defs: { id: { type: "string" }, id_1: { type: "integer" } },
    });
  });

  it.each<[object, object]>([
    [{ type: "string", nullable: true }, { type: ["string", "null"] }],
    [
      { type: "string", enum: ["a"], nullable: true },
      { type: ["string", "null"], enum: ["a", null] },
    ],
    [
      { type: "number", minimum: 1, exclusiveMinimum: true },
      { type: "number", exclusiveMinimum: 1 },
    ],
    [
      { type: "number", maximum: 1, exclusiveMaximum: false },
      { type: "number", maximum: 1 },
    ],
    [
      { allOf: [{ type: "object" }], nullable: true },
      { anyOf: [{ allOf: [{ type: "object" }] }, { type: "null" }] },
    ],
    [{ type: "integer", format: "int64" }, { type: "integer" }],
    [
      { type: "string", format: "date-time" },
      { type: "string", format: "date-time" },
    ],
    [{ type: "object", xml: {}, discriminator: { propertyName: "a" }, "x-order": 1 }, { type: "object" }],
    [
      { properties: { nullable: { type: "string" }, "x-a": true } },
      { properties: { nullable: { type: "string" }, "x-a": true } },
    ],
  ])("%j is %j in the catalogue", (given, wanted) => {
    expect(schemaOf(document(json(given)))).toEqual(wanted);
  });

  it("named like a prototype is a schema like any other", () => {
    const schemas = JSON.parse('{"__proto__": {"type": "string"}, "constructor": {"type": "null"}}');
    const refs = ["__proto__", "constructor"].map((one) => ({ $ref: `#/components/schemas/${one}` }));
    const schema = schemaOf(withSchemas({ prefixItems: refs }, schemas)) as { $defs: object };
    expect(Object.entries(schema.$defs)).toEqual([
      ["__proto__", { type: "string" }],
      ["constructor", { type: "null" }],
    ]);
  });
});

const circle = { a: { $ref: "#/components/schemas/b" }, b: { $ref: "#/components/schemas/a" } };

test.each<[string, object, string, string]>([
  ["no webhooks", {}, "", "has no webhooks"],
  ["webhooks that are a list", { webhooks: [] }, "/webhooks", "is not an object"],
  ["a webhook that is text", { webhooks: { a: "b" } }, "/webhooks/a", "is not an object"],
  ["a webhook without post", { webhooks: { a: { get: {} } } }, "/webhooks/a/post", "is missing"],
  [
    "an operation that is a number",
    { webhooks: { a: { post: JSON.rawJSON("1.0") } } },
    "/webhooks/a/post",
    "is not an object",
  ],
  ["a name with a space", { webhooks: { "a b": { post: {} } } }, "/webhooks/a b", "is not a valid name"],
  [
    "a long name",
    { webhooks: { [`a${"b".repeat(200)}`]: { post: {} } } },
    `/webhooks/a${"b".repeat(127)}…`,
    "is not a valid name",
  ],
  [
    "a long description",
    document({ description: "a".repeat(1_001) }),
    "/webhooks/order.paid/post",
    "1001 characters",
  ],
  [
    "a reference to another document",
    { webhooks: { a: { $ref: "other.yaml#/a" } } },
    "/webhooks/a/$ref",
    "leads elsewhere",
  ],
  [
    "a reference to nothing",
    { webhooks: { a: { $ref: "#/components/none" } } },
    "/components/none",
    "is missing",
  ],
  [
    "a reference to itself",
    { webhooks: { a: { $ref: "#/webhooks/a" } } },
    "/webhooks/a",
    "through more than 10",
  ],
  [
    "a schema that refers elsewhere",
    document(json({ $ref: "https://a.example/" })),
    "/webhooks/order.paid/post/requestBody/content/application~1json/schema/$ref",
    "leads elsewhere",
  ],
  [
    "a schema that refers to nothing",
    document(json({ $ref: "#/components/schemas/A" })),
    "/components/schemas/A",
    "is missing",
  ],
  [
    "a keyword that is not known",
    document(json({ patternProperties: {} })),
    "/webhooks/order.paid/post/requestBody/content/application~1json/schema/patternProperties",
    "is",
  ],
  ["a schema that only refers to itself", withSchemas({ $ref: "#/components/schemas/a" }, circle), "", ""],
  ["a schema that is too deep", document(json(DEEP)), "", "too deep"],
  ["a schema that is too large", document(json({ enum: ["a".repeat(20_000)] })), "", "characters long"],
  [
    "an example that does not fit",
    document(json({ type: "integer" }, { example: "a" })),
    "/webhooks/order.paid/post/requestBody/content/application~1json/example",
    "is",
  ],
])("%s is a fault", (_, given, pointer, fault) => {
  const faults = faultsOf(given);
  expect(faults.length).toBeGreaterThan(0);
  expect(faults[0]).toMatchObject({
    pointer: pointer === "" ? expect.any(String) : pointer,
    fault: expect.stringContaining(fault),
    expected: expect.stringMatching(/./),
  });
});

test("the cost is bounded: many webhooks, many schemas, and as many faults as fit into an answer", () => {
  const many = Object.fromEntries(Array.from({ length: 501 }, (_, i) => [`a${i}`, { post: {} }]));
  expect(faultsOf({ webhooks: many })).toMatchObject([{ fault: "has 501 webhooks" }]);
  const wrong = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`a${i}`, {}]));
  expect(faultsOf({ webhooks: wrong })).toHaveLength(20);
  const chain = Object.fromEntries(
    Array.from({ length: 300 }, (_, i) => [`s${i}`, { items: { $ref: `#/components/schemas/s${i + 1}` } }]),
  );
  const faults = faultsOf(withSchemas({ $ref: "#/components/schemas/s0" }, chain));
  expect(faults).toMatchObject([{ fault: "refers to more than 100 schemas" }]);
});
