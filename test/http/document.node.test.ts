/** The document is valid OpenAPI 3.1, and complete: every operation has a summary, and examples of its bodies. */
import { Validator } from "@seriousme/openapi-schema-validator";
import { describe, expect, test } from "vitest";
import { createApp } from "../../src/http/app.ts";
import { documentOf } from "../../src/http/openapi/document.ts";
import { schemaExamples } from "../../src/http/openapi/examples.ts";
import { schemaFaults } from "../support/schema-faults.ts";

const document = documentOf(createApp());
const { schemas } = document.components;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => [`${method} ${path}`, operation] as const),
);

test("the document is valid OpenAPI 3.1", async () => {
  const validator = new Validator();
  const { valid, errors } = await validator.validate({ ...structuredClone(document) });
  expect(errors).toBeUndefined();
  expect([valid, validator.version]).toEqual([true, "3.1"]);
});

test("every operation has a unique id and a unique summary", () => {
  for (const field of ["operationId", "summary"] as const) {
    const all = operations.map(([, operation]) => operation[field]);
    expect(new Set(all).size).toBe(operations.length);
  }
});

test("every tag is described, and every described tag is used", () => {
  const used = new Set(operations.flatMap(([, { tags = [] }]) => tags));
  expect([...used].sort()).toEqual(document.tags.map(({ name }) => name).sort());
});

test("the examples name only existing schemas and fields", () => {
  const unknown = Object.entries(schemaExamples).flatMap(([name, example]) =>
    Object.keys(example).filter((field) => schemas[name]?.properties?.[field] === undefined),
  );
  expect(unknown).toEqual([]);
});

test("the example of deliver_at fits the event of the other examples", () => {
  const { example } = schemas.NewEvent?.properties?.deliver_at ?? {};
  const { timestamp } = schemaExamples.Event as { timestamp: string };
  const aheadMs = Date.parse(String(example)) - Date.parse(timestamp);
  expect(aheadMs).toBeGreaterThan(0);
  expect(aheadMs).toBeLessThan(30 * 86_400_000);
});

test("every operation that may be 401 may be 429", () => {
  const responses = operations.map(([route, operation]) => [route, operation.responses] as const);
  const authenticated = responses.filter(([, { 401: refused }]) => refused);
  expect(authenticated.length).toBeGreaterThan(20);
  expect(authenticated.filter(([, { 429: limited }]) => !limited)).toEqual([]);
});

test("no action whose fields are all optional requires a body", () => {
  const asking = operations.flatMap(([name, { requestBody }]) => {
    const schema = requestBody?.content["application/json"]?.schema;
    const { required = [] } = (schema?.$ref ? schemas[schema.$ref.split("/").at(-1) ?? ""] : schema) ?? {};
    return requestBody?.required && required.length === 0 ? [name] : [];
  });
  // Which fields a new destination needs depends on its kind. A change of nothing is a mistake: it is no action.
  expect(asking).toEqual([
    "post /v1/destinations",
    "patch /v1/destinations/{id}",
    "patch /v1/tenants/{tenant}",
  ]);
});

test("constraints between fields are in their descriptions", () => {
  const parameters = Object.fromEntries(
    (document.paths["/v1/deliveries"]?.get?.parameters ?? []).map((one) => [one.name, one]),
  );
  const breaker = (name: string) =>
    schemas[name]?.properties?.breaker as { properties?: Record<string, object> };
  const constrained = {
    until: parameters.until,
    cursor: parameters.cursor,
    replay: schemas.NewReplay?.properties?.until,
    creation: breaker("NewDestination").properties?.max_cooldown_s,
    change: breaker("DestinationChange").properties?.max_cooldown_s,
  };
  const texts = Object.fromEntries(
    Object.entries(constrained).map(([name, of]) => [
      name,
      (of as { description?: string } | undefined)?.description,
    ]),
  );
  expect(texts).toEqual({
    until: expect.stringContaining("after `since`"),
    cursor: expect.stringContaining("with the same other parameters"),
    replay: expect.stringContaining("after `since`"),
    creation: expect.stringContaining("not shorter than `cooldown_s`"),
    change: expect.stringContaining("not shorter than `cooldown_s`"),
  });
});

describe.each(operations)("%s", (name, operation) => {
  const bodies = [
    ...Object.entries(operation.requestBody?.content ?? {}).map((body) => ["the request", ...body] as const),
    ...Object.entries(operation.responses).flatMap(([status, { content = {} }]) =>
      Object.entries(content).map((body) => [status, ...body] as const),
    ),
  ];

  test("has a summary, and belongs to one tag", () => {
    expect(operation.summary).toMatch(/^[A-Z][^.]{5,60}$/);
    expect(operation.description ?? "A sentence.").toMatch(/^[A-Z].*[.]$/s);
    expect(operation.tags).toHaveLength(1);
  });

  test("lists its error responses", () => {
    const statuses = Object.keys(operation.responses);
    expect(statuses).toContain("500");
    if (operation.security.length > 0) expect(statuses).toEqual(expect.arrayContaining(["401", "403"]));
    if (operation.requestBody) expect(statuses).toEqual(expect.arrayContaining(["400", "413", "422"]));
    // An object that is put at a name need not exist.
    const isNamed =
      !name.startsWith("put ") && operation.parameters?.some(({ in: where }) => where === "path");
    if (isNamed) expect(statuses).toContain("404");
  });

  test("has an example of every body that matches its schema", () => {
    const faults = bodies.flatMap(([where, type, { schema, example }]) =>
      example === undefined
        ? [`${where}: ${type} has no example`]
        : schemaFaults(schema, example, schemas).map((fault) => `${where}: ${fault}`),
    );
    expect(faults).toEqual([]);
  });

  test("has no placeholder in an example", () => {
    const placeholders = bodies.flatMap(([where, , { example }]) =>
      pathsTo("text", example).map(
        (path) => `${where}: ${path} needs a value in src/http/openapi/examples.ts`,
      ),
    );
    expect(placeholders).toEqual([]);
  });

  test("describes its parameters, with examples for those of the path", () => {
    for (const { in: where, description, example } of operation.parameters ?? []) {
      expect(description).toBeTruthy();
      if (where === "path") expect(example).toBeTruthy();
    }
  });
});

/** The paths to this text within a value, such as `data[0].contact`. */
function pathsTo(text: string, value: unknown, path = ""): readonly string[] {
  if (value === text) return [path];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    pathsTo(text, inner, Array.isArray(value) ? `${path}[${key}]` : `${path}${path && "."}${key}`),
  );
}
