/** Every route that takes fields suggests the right name for a mistyped field. */
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, test } from "vitest";
import { scopes } from "../../src/core/scopes.ts";
import { resolved } from "../../src/http/openapi/examples.ts";
import { emptyDatabase, testApi } from "../support/api.ts";
import {
  bodyFor,
  type Described,
  document,
  operations,
  pathFor,
  type Things,
  thingsOf,
} from "../support/operations.ts";

const fetch = async () => new Response(null, { status: 204 });
const { call } = testApi({ authenticate: async () => ({ scopes }), services: { gates: env.GATES, fetch } });

let things: Things;
beforeAll(async () => {
  await emptyDatabase();
  things = await thingsOf(call, "acme");
});

/** Its first letters swapped, as by fast typing. */
const mistyped = (name: string) => `${name[1]}${name[0]}${name.slice(2)}`;

/** The longest name, which no other is near to. */
const longest = (names: readonly string[]) => names.toSorted((a, b) => b.length - a.length)[0];

function fieldOf({ operation }: Described): string | undefined {
  const schema = operation.requestBody?.content["application/json"]?.schema;
  return schema && longest(Object.keys(resolved(schema, document.components.schemas).properties ?? {}));
}

function parameterOf({ operation }: Described): string | undefined {
  const names = (operation.parameters ?? []).filter((one) => one.in === "query").map(({ name }) => name);
  return longest(names);
}

const nameOf = ({ method, path }: Described) => `${method} ${path}`;
const withFields = operations.flatMap((one) => {
  const field = fieldOf(one);
  return field === undefined ? [] : [[nameOf(one), field, one] as const];
});
const withParameters = operations.flatMap((one) => {
  const name = parameterOf(one);
  return name === undefined ? [] : [[nameOf(one), name, one] as const];
});

const hint = (name: string) => ({
  field: expect.stringContaining(mistyped(name)),
  fault: `is not a known field (did you mean ${name}?)`,
});

describe("a mistyped field of the body", () => {
  test.each(withFields)("of %s is taken for %s", async (_, field, described) => {
    const body = { ...(bodyFor(described, things) as object), [mistyped(field)]: null };
    const { status, json } = await call(described.method, pathFor(described.path, things), body);
    expect(status).toBe(422);
    expect(json.errors).toContainEqual(expect.objectContaining(hint(field)));
  });
});

describe("a mistyped parameter", () => {
  test.each(withParameters)("of %s is taken for %s", async (_, name, described) => {
    // With a type, the query of a post has the event's fields.
    const type = nameOf(described) === "POST /v1/events" ? "type=order.paid&" : "";
    const path = `${pathFor(described.path, things)}?${type}${mistyped(name)}=x`;
    const body = described.method === "GET" ? undefined : bodyFor(described, things);
    const { status, json } = await call(described.method, path, body);
    expect(status).toBe(422);
    expect(json.errors).toContainEqual(expect.objectContaining(hint(name)));
  });
});
