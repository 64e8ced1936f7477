/** The document is valid OpenAPI 3.1, and complete: every operation says its errors and shows its bodies. */
import { Validator } from "@seriousme/openapi-schema-validator";
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.ts";
import { documentOf } from "../../src/api/document.ts";

const document = documentOf(createApp());
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => [`${method} ${path}`, operation] as const),
);

test("it is valid OpenAPI 3.1", async () => {
  const validator = new Validator();
  const { valid, errors } = await validator.validate({ ...structuredClone(document) });
  expect(errors).toBeUndefined();
  expect([valid, validator.version]).toEqual([true, "3.1"]);
});

test("every operation has an id of its own", () => {
  const ids = operations.map(([, { operationId }]) => operationId);
  expect(new Set(ids).size).toBe(operations.length);
});

test.each(operations)("%s says what is refused, and shows every JSON body", (_name, operation) => {
  if (operation.security.length > 0)
    expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(["401", "403"]));
  if (operation.requestBody)
    expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(["400", "413", "422"]));
  const contents = [
    operation.requestBody?.content,
    ...Object.values(operation.responses).map(({ content }) => content),
  ];
  for (const [type, media] of contents.flatMap((content) => Object.entries(content ?? {}))) {
    if (/json$/.test(type)) expect(media).toHaveProperty("example");
  }
});
