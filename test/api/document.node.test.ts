/** The document is valid OpenAPI 3.1, and complete: every operation says what it does and shows its bodies. */
import { Validator } from "@seriousme/openapi-schema-validator";
import { describe, expect, test } from "vitest";
import { createApp } from "../../src/api/app.ts";
import { documentOf } from "../../src/api/openapi/document.ts";
import { schemaExamples } from "../../src/api/openapi/examples.ts";
import { schemaFaults } from "../support/schema-faults.ts";

const document = documentOf(createApp());
const { schemas } = document.components;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => [`${method} ${path}`, operation] as const),
);

test("it is valid OpenAPI 3.1", async () => {
  const validator = new Validator();
  const { valid, errors } = await validator.validate({ ...structuredClone(document) });
  expect(errors).toBeUndefined();
  expect([valid, validator.version]).toEqual([true, "3.1"]);
});

test("every operation has an id of its own, and a summary too", () => {
  for (const told of ["operationId", "summary"] as const) {
    const all = operations.map(([, operation]) => operation[told]);
    expect(new Set(all).size).toBe(operations.length);
  }
});

test("every tag is explained, and none is explained in vain", () => {
  const used = new Set(operations.flatMap(([, { tags = [] }]) => tags));
  expect([...used].sort()).toEqual(document.tags.map(({ name }) => name).sort());
});

test("the story tells of schemas and fields that are there", () => {
  const strange = Object.entries(schemaExamples).flatMap(([name, told]) =>
    Object.keys(told).filter((field) => schemas[name]?.properties?.[field] === undefined),
  );
  expect(strange).toEqual([]);
});

test("the example of deliver_at could have been posted with the event of the story", () => {
  const { example } = schemas.NewEvent?.properties?.deliver_at ?? {};
  const { timestamp } = schemaExamples.Event as { timestamp: string };
  const aheadMs = Date.parse(String(example)) - Date.parse(timestamp);
  expect(aheadMs).toBeGreaterThan(0);
  expect(aheadMs).toBeLessThan(30 * 86_400_000);
});

test("no action whose fields may all be left out asks for a body", () => {
  const asking = operations.flatMap(([name, { requestBody }]) => {
    const schema = requestBody?.content["application/json"]?.schema;
    const { required = [] } = (schema?.$ref ? schemas[schema.$ref.split("/").at(-1) ?? ""] : schema) ?? {};
    return requestBody?.required && required.length === 0 ? [name] : [];
  });
  // A change of nothing is a mistake: it is no action.
  expect(asking).toEqual(["patch /v1/destinations/{id}"]);
});

test("what holds fields together is told where they are described", () => {
  const parameters = Object.fromEntries(
    (document.paths["/v1/deliveries"]?.get?.parameters ?? []).map((one) => [one.name, one]),
  );
  const breaker = (name: string) =>
    schemas[name]?.properties?.breaker as { properties?: Record<string, object> };
  const told = {
    until: parameters.until,
    cursor: parameters.cursor,
    replay: schemas.NewReplay?.properties?.until,
    creation: breaker("NewDestination").properties?.max_cooldown_s,
    change: breaker("DestinationChange").properties?.max_cooldown_s,
  };
  const texts = Object.fromEntries(
    Object.entries(told).map(([name, of]) => [
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

describe.each(operations)("%s", (_name, operation) => {
  const bodies = [
    ...Object.entries(operation.requestBody?.content ?? {}).map((body) => ["the request", ...body] as const),
    ...Object.entries(operation.responses).flatMap(([status, { content = {} }]) =>
      Object.entries(content).map((body) => [status, ...body] as const),
    ),
  ];

  test("says what it does, and belongs to one tag", () => {
    expect(operation.summary).toMatch(/^[A-Z][^.]{5,60}$/);
    expect(operation.description ?? "A sentence.").toMatch(/^[A-Z].*[.]$/s);
    expect(operation.tags).toHaveLength(1);
  });

  test("says what is refused", () => {
    const statuses = Object.keys(operation.responses);
    expect(statuses).toContain("500");
    if (operation.security.length > 0) expect(statuses).toEqual(expect.arrayContaining(["401", "403"]));
    if (operation.requestBody) expect(statuses).toEqual(expect.arrayContaining(["400", "413", "422"]));
    if (operation.parameters?.some(({ in: where }) => where === "path")) expect(statuses).toContain("404");
  });

  test("shows every body as its schema has it", () => {
    const faults = bodies.flatMap(([where, type, { schema, example }]) =>
      example === undefined
        ? [`${where}: ${type} has no example`]
        : schemaFaults(schema, example, schemas).map((fault) => `${where}: ${fault}`),
    );
    expect(faults).toEqual([]);
  });

  test("shows no made-up words", () => {
    expect(JSON.stringify(bodies.map(([, , { example }]) => example))).not.toContain('"text"');
  });

  test("explains its parameters, and shows what goes into its path", () => {
    for (const { in: where, description, example } of operation.parameters ?? []) {
      expect(description).toBeTruthy();
      if (where === "path") expect(example).toBeTruthy();
    }
  });
});
