/** Schemas of events: which may be stored, what data fits them, and that neither can cost more than a bound. */
import { type Schema, Validator } from "@cfworker/json-schema";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { dataFaults, type JsonSchema, schemaFaults } from "../../src/core/json-schema.ts";

const fits = (schema: JsonSchema, data: unknown) => dataFaults(schema, data).length === 0;

describe("data fits a schema", () => {
  const names = ["a", "b", "c"] as const;
  const name = fc.constantFrom(...names);
  const scalar = fc.constantFrom<unknown>(null, true, false, 0, 1, 2, 2.5, -1, "", "a", "ab", "abc", "💥");
  const { data } = fc.letrec((tie) => ({
    data: fc.oneof(
      { maxDepth: 3 },
      scalar,
      fc.array(tie("data"), { maxLength: 3 }),
      fc.dictionary(name, tie("data"), { maxKeys: 3 }),
    ),
  }));
  const count = fc.nat(3);
  // Not empty: the other validator takes an empty list for an empty object.
  const constant = fc.oneof(
    scalar,
    fc.array(scalar, { minLength: 1, maxLength: 2 }),
    fc.dictionary(name, scalar, { minKeys: 1, maxKeys: 2 }),
  );
  const list = (of: fc.Arbitrary<unknown>) => fc.array(of, { minLength: 1, maxLength: 3 });
  const { schema } = fc.letrec((tie) => ({
    schema: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      fc.boolean(),
      fc
        .record(
          {
            type: fc.oneof(
              fc.constantFrom("null", "boolean", "object", "array", "number", "integer", "string"),
              fc.constant(["object", "array"]),
            ),
            enum: list(constant),
            const: constant,
            required: fc.uniqueArray(name),
            properties: fc.dictionary(name, tie("schema"), { maxKeys: 3 }),
            additionalProperties: tie("schema"),
            dependentRequired: fc.dictionary(name, fc.uniqueArray(name), { maxKeys: 2 }),
            minProperties: count,
            maxProperties: count,
            prefixItems: list(tie("schema")),
            items: tie("schema"),
            contains: tie("schema"),
            minItems: count,
            maxItems: count,
            minLength: count,
            maxLength: count,
            minimum: count,
            maximum: count,
            exclusiveMinimum: count,
            exclusiveMaximum: count,
            multipleOf: fc.constantFrom(0.5, 1, 2),
            pattern: fc.constantFrom("^a", "^[a-c]+$", "^.b?$"),
            allOf: list(tie("schema")),
            anyOf: list(tie("schema")),
            oneOf: list(tie("schema")),
            not: tie("schema"),
            if: tie("schema"),
            // biome-ignore lint/suspicious/noThenProperty: it is JSON Schema's word.
            then: tie("schema"),
            else: tie("schema"),
          },
          { requiredKeys: [] },
        )
        .map((all) => Object.fromEntries(Object.entries(all).slice(0, 4))),
    ),
  }));

  test("exactly when an independent validator says so", () => {
    let fitting = 0;
    let unfit = 0;
    fc.assert(
      fc.property(schema, data, (given, value) => {
        expect(schemaFaults(given)).toEqual([]);
        const copy = structuredClone(given) as Schema;
        const isValid = new Validator(copy, "2020-12", false).validate(value).valid;
        if (isValid) fitting += 1;
        else unfit += 1;
        expect(fits(given as JsonSchema, value)).toBe(isValid);
      }),
      { numRuns: 5_000 },
    );
    expect(Math.min(fitting, unfit)).toBeGreaterThan(500);
  });

  test.each<[unknown[], boolean]>([
    [[1, 2, "1"], true],
    [
      [
        { a: 1, b: 2 },
        { b: 2, a: 1 },
      ],
      false,
    ],
    [[[], {}], true],
    [
      [
        [1, [2]],
        [1, [2]],
      ],
      false,
    ],
  ])("of different entries (%j: %s)", (entries, different) => {
    expect(fits({ uniqueItems: true }, entries)).toBe(different);
  });

  test("whatever its properties are called", () => {
    const given = { properties: { constructor: { type: "string" } }, required: ["toString"] };
    expect(fits(given, {})).toBe(false);
    expect(fits(given, JSON.parse('{"toString":1,"__proto__":2}'))).toBe(true);
    expect(fits(given, { toString: 1, constructor: 1 })).toBe(false);
    expect(
      fits(JSON.parse('{"properties":{"__proto__":{"type":"string"}}}'), JSON.parse('{"__proto__":1}')),
    ).toBe(false);
  });

  test("that refers to its own parts, deep into the data", () => {
    const tree = {
      $ref: "#/$defs/node",
      $defs: { node: { type: "object", properties: { next: { $ref: "#/$defs/node" } }, required: ["id"] } },
    };
    expect(schemaFaults(tree)).toEqual([]);
    expect(fits(tree, { id: 1, next: { id: 2 } })).toBe(true);
    expect(dataFaults(tree, { id: 1, next: { id: 2, next: {} } })).toEqual([
      { pointer: "/next/next/id", fault: "is missing", expected: "it to be there" },
    ]);
  });
});

describe("a fault names the place as a JSON Pointer, what is there and what is expected", () => {
  const order = {
    type: "object",
    required: ["id", "lines"],
    properties: {
      id: { type: "string", pattern: "^ord_[0-9a-z]+$" },
      lines: { type: "array", minItems: 1, items: { properties: { "a/b~c": { minimum: 1 } } } },
      state: { enum: ["paid", "open"] },
      at: { format: "date-time" },
    },
    additionalProperties: false,
  };
  test.each<[unknown, string, string, string]>([
    [{ id: "ord_1" }, "/lines", "is missing", "it to be there"],
    [{ id: 1, lines: [{}] }, "/id", "is 1", "a value of the type string"],
    [{ id: "x", lines: [{}] }, "/id", 'is "x"', "a string that matches ^ord_[0-9a-z]+$"],
    [{ id: "ord_1", lines: [] }, "/lines", "is a list of 0", "at least 1 entries"],
    [{ id: "ord_1", lines: [{}, { "a/b~c": 0 }] }, "/lines/1/a~1b~0c", "is 0", "at least 1"],
    [{ id: "ord_1", lines: [{}], state: "gone" }, "/state", 'is "gone"', 'one of ["paid","open"]'],
    [
      { id: "ord_1", lines: [{}], at: "2026-02-30T00:00:00Z" },
      "/at",
      'is "2026-02-30T00:00:00Z"',
      "the format date-time",
    ],
    [{ id: "ord_1", lines: [{}], more: {} }, "/more", "is an object", "it to be left out"],
    [[], "", "is a list of 0", "a value of the type object"],
  ])("%j", (data, pointer, fault, expected) => {
    expect(schemaFaults(order)).toEqual([]);
    expect(dataFaults(order, data)).toEqual([{ pointer, fault, expected }]);
  });
});

describe("a format", () => {
  test.each<[string, string, boolean]>([
    ["date-time", "2026-11-22T10:00:00Z", true],
    ["date-time", "2026-11-22t10:00:00.123+01:00", true],
    ["date-time", "2026-11-22 10:00:00Z", false],
    ["date-time", "2026-11-22T10:00:00", false],
    ["date", "2024-02-29", true],
    ["date", "2026-02-29", false],
    ["date", "2026-13-01", false],
    ["time", "23:59:60Z", true],
    ["time", "24:00:00Z", false],
    ["email", "a.b+c@example.com", true],
    ["email", "a@b@c", false],
    ["hostname", "a-b.example", true],
    ["hostname", "-a.example", false],
    ["ipv4", "127.0.0.1", true],
    ["ipv4", "127.0.0.256", false],
    ["ipv4", "1.2.3.", false],
    ["ipv4", "1.2.3.4.5", false],
    ["uri", "https://example.com/a?b=c#d", true],
    ["uri", "/relative", false],
    ["uri", "https://example.com/a b", false],
    ["uuid", "123e4567-e89b-12d3-a456-426614174000", true],
    ["uuid", "123e4567-e89b-12d3-a456-42661417400", false],
  ])("%s of %s: %s", (format, text, valid) => {
    expect(fits({ format }, text)).toBe(valid);
  });
});

describe("a schema is refused", () => {
  const chain = (length: number) =>
    Object.fromEntries(Array.from({ length }, (_, i) => [`d${i}`, { $ref: `#/$defs/d${i + 1}` }]));
  function deep(levels: number): JsonSchema {
    let schema: JsonSchema = {};
    for (let i = 0; i < levels; i++) schema = { items: schema };
    return schema;
  }
  test.each<[string, unknown, string, string]>([
    ["that is too large", { description: "x".repeat(17_000) }, "", "at most 16384"],
    ["that is nested too deep", deep(21), `${"/items".repeat(20)}`, "at most 20 levels"],
    ["that is no schema", { properties: { a: 7 } }, "/properties/a", "a schema: an object, true or false"],
    ["with an unknown keyword", { unevaluatedProperties: false }, "/unevaluatedProperties", "one of allOf"],
    ["with patterns for names", { patternProperties: {} }, "/patternProperties", "one of allOf"],
    ["that names itself", { $id: "https://example.com" }, "/$id", "one of allOf"],
    [
      "that refers elsewhere",
      { $ref: "https://example.com/schema" },
      "/$ref",
      "other documents are not fetched",
    ],
    ["that refers to nothing", { $ref: "#/$defs/a" }, "/$ref", "a name in $defs"],
    [
      "that refers to a prototype's property",
      { $ref: "#/$defs/constructor", $defs: {} },
      "/$ref",
      "a name in $defs",
    ],
    ["that is itself", { $ref: "#" }, "/$ref", "a $ref that goes deeper"],
    [
      "that comes back to itself by a detour",
      { $ref: "#/$defs/a", $defs: { a: { anyOf: [{ not: { $ref: "#/$defs/a" } }] } } },
      "/$ref/anyOf/0/not/$ref",
      "a $ref that goes deeper",
    ],
    [
      "whose part comes back to itself",
      { properties: { a: { $ref: "#/$defs/a" } }, $defs: { a: { allOf: [{ $ref: "#/$defs/a" }] } } },
      "/properties/a/$ref/allOf/0/$ref",
      "a $ref that goes deeper",
    ],
    ["with a chain to nowhere", { $ref: "#/$defs/d0", $defs: chain(20) }, "", "a name in $defs"],
    ["of an unknown type", { type: "date" }, "/type", "one of null, boolean"],
    ["with a format that would not be checked", { format: "iban" }, "/format", "one of date-time"],
    ["with a list for a map", { properties: [] }, "/properties", "an object of schemas by name"],
    ["with an empty list", { anyOf: [] }, "/anyOf", "a list of schemas"],
    ["with a count that is none", { items: { minLength: -1 } }, "/items/minLength", "a whole number"],
  ])("%s", (_, schema, pointer, expected) => {
    const [fault] = schemaFaults(schema);
    expect(fault?.expected).toContain(expected);
    if (pointer) expect(fault?.pointer).toBe(pointer);
  });

  test.each([
    "a",
    "^(a+)+$",
    "^(a|a)*$",
    "^a*a*$",
    "^a+b{1,5}$",
    "^(?=a)",
    "^\\1",
    "^a??$",
    "^a?b?c?$",
    "^[a-z$",
    "^a*a{65}$",
    "^[[]+$",
    `^${"a".repeat(256)}`,
    "^\\u{110000}",
  ])("with the pattern %s", (pattern) => {
    expect(schemaFaults({ pattern })).toMatchObject([{ pointer: "/pattern" }]);
  });

  test.each([
    "^inv_[0-9a-z]{20}$",
    "^[A-Z]{2}\\d+$",
    "^\\$\\d{1,9}\\.\\d{2}$",
    "^.*$",
    "^a?b?c{3}$",
    "^[^\\s@]+@x$",
  ])("but not with the pattern %s", (pattern) => {
    expect(schemaFaults({ pattern })).toEqual([]);
  });
});

describe("checking takes a bounded number of steps", () => {
  const tooMany = [{ pointer: "", fault: "takes too many steps to check", expected: expect.any(String) }];
  const laughs = (levels: number) => ({
    $ref: "#/$defs/l0",
    $defs: Object.fromEntries(
      Array.from({ length: levels }, (_, i) => [
        `l${i}`,
        i + 1 < levels ? { allOf: [{ $ref: `#/$defs/l${i + 1}` }, { $ref: `#/$defs/l${i + 1}` }] } : true,
      ]),
    ),
  });
  test.each<[string, JsonSchema, unknown]>([
    ["where references multiply", laughs(60), 1],
    ["where much data is compared", { uniqueItems: true }, Array.from({ length: 20_000 }, (_, i) => i)],
    ["where the data is large", { items: { type: "integer" } }, Array.from({ length: 120_000 }, () => 1)],
    [
      "where each entry is compared with much",
      { items: { enum: Array.from({ length: 1_000 }, (_, i) => `v${i}`) } },
      Array.from({ length: 1_000 }, () => "x"),
    ],
  ])("%s", (_, schema, data) => {
    expect(schemaFaults(schema)).toEqual([]);
    expect(dataFaults(schema, data)).toEqual(tooMany);
  });

  const long = "x".repeat(16_000);
  test.each<[string, JsonSchema]>([
    ["enum", { items: { enum: [long] } }],
    ["const", { items: { const: long } }],
    ["anyOf", { items: { anyOf: [{ const: long }] } }],
  ])("and a long %s is written out no more often than it is reported", (_, schema) => {
    const written = vi.spyOn(JSON, "stringify");
    try {
      dataFaults(schema, new Array(30_000).fill(0));
      const times = written.mock.calls.filter(([value]) => value !== 0).length;
      expect(times).toBeLessThanOrEqual(10);
    } finally {
      written.mockRestore();
    }
  });

  test("and a text of a quarter of a megabyte is searched within them", () => {
    const text = "a".repeat(256 * 1024);
    expect(fits({ pattern: "^a*a{64}b?b?$" }, text)).toBe(true);
    expect(fits({ pattern: "^a*[a-z]{63}x$" }, text)).toBe(false);
  });
});
