/** Which schemas of events may be stored. */
import { describe, expect, test } from "vitest";
import { type JsonSchema, schemaFaults } from "../../src/core/json-schema.ts";

describe("a schema is refused", () => {
  const chain = (length: number) =>
    Object.fromEntries(Array.from({ length }, (_, i) => [`d${i}`, { $ref: `#/$defs/d${i + 1}` }]));
  function deep(levels: number): JsonSchema {
    let schema: JsonSchema = {};
    for (let i = 0; i < levels; i++) schema = { items: schema };
    return schema;
  }
  test("with a keyword that has an impossible value", () => {
    for (const [keyword, values, expected] of [
      ["type", ["date", 7, [], ["date"], ["string", "date"], null], "one of null, boolean, object"],
      ["enum", [[], "ab", {}], "a list of values"],
      ["required", ["a", ["a", 1], { a: true }], "a list of names"],
      ["dependentRequired", [[], 7, { a: "b" }, { a: ["b"], c: [1] }], "lists of names by name"],
      ["uniqueItems", ["true", 1], "true or false"],
      ["minLength", [-1, 1.5, "3", null], "a whole number, 0 or more"],
      ["minimum", ["1", null, Number.POSITIVE_INFINITY], "a number"],
      ["multipleOf", [0, -1, "2"], "a number above 0"],
      ["pattern", [7, "a"], "^ and at most 256 characters, without groups"],
      ["format", ["iban", ["date"]], "one of date-time, date"],
      ["$ref", ["a", ["#"], "#/$defs/a/b"], "# or #/$defs/ and a name"],
      [
        "$schema",
        ["http://json-schema.org/draft-07/schema#"],
        "https://json-schema.org/draft/2020-12/schema",
      ],
      ["title", [1, null], "a string"],
    ] as const)
      for (const value of values)
        expect(schemaFaults({ [keyword]: value })).toEqual([
          {
            pointer: `/${keyword}`,
            fault: expect.stringMatching(/^is ./),
            expected: expect.stringContaining(expected),
          },
        ]);
  });

  test("with a fault that names the given value", () => {
    const facts = (schema: unknown) => schemaFaults(schema).map(({ fault }) => fault);
    expect(facts(deep(21))).toEqual(["is nested too deep"]);
    expect(facts({ $ref: "#" })).toEqual(["refers to itself"]);
    expect(facts({ $ref: "#/$defs/a" })).toEqual(['is "#/$defs/a"']);
    expect(facts({ anyOf: [null] })).toEqual(["is null"]);
    expect(facts({ anyof: [] })).toEqual(["is not a known keyword"]);
    const many = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [i, true]));
    expect(facts(many)).toHaveLength(10);
    expect(facts({ description: "x".repeat(17_000) })).toEqual(["is 17018 characters long"]);
  });

  test("that refers back to itself by any keyword for the same value", () => {
    const self = { $ref: "#" };
    for (const [at, schema] of [
      ...["allOf", "anyOf", "oneOf"].map((keyword) => [`/${keyword}/0`, { [keyword]: [self] }] as const),
      ...["not", "if", "then", "else"].map((keyword) => [`/${keyword}`, { [keyword]: self }] as const),
    ])
      expect(schemaFaults(schema)).toMatchObject([{ pointer: `${at}/$ref`, fault: "refers to itself" }]);
  });

  test("but not one that refers back to itself deeper in the data", () => {
    const self = { $ref: "#" };
    for (const schema of [
      { items: self },
      { contains: self },
      { additionalProperties: self },
      { prefixItems: [self] },
      { properties: { a: self } },
      { $defs: { a: self } },
    ])
      expect(schemaFaults(schema)).toEqual([]);
  });

  test("but not at its bounds", () => {
    const empty = JSON.stringify({ description: "" }).length;
    for (const schema of [
      { description: "x".repeat(16_384 - empty) },
      deep(19),
      { minLength: 0, minimum: 0 },
    ])
      expect(schemaFaults(schema)).toEqual([]);
  });

  test("with a pattern whose search could take long, or that is invalid", () => {
    for (const pattern of [
      "a",
      "^(a+)+$",
      "^a*b*",
      "^a|",
      "^[z-a]$",
      "^[\\d-z]$",
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
    ])
      expect(schemaFaults({ pattern }), pattern).toMatchObject([{ pointer: "/pattern" }]);
  });

  test("but not with a pattern whose search takes linear time", () => {
    for (const pattern of [
      "^inv_[0-9a-z]{20}$",
      "^[A-Z]{2}\\d+$",
      "^\\$\\d{1,9}\\.\\d{2}$",
      "^.*$",
      "^a?b?c{3}$",
      "^[^\\s@]+@x$",
      "^a\\$",
      "^a\\\\$",
      "^a{65}b*$",
      "^a*b{64}$",
      `^${"a".repeat(255)}`,
    ])
      expect(schemaFaults({ pattern }), pattern).toEqual([]);
  });

  test.each<[string, unknown, string, string]>([
    ["that is too large", { description: "x".repeat(17_000) }, "", "at most 16384"],
    ["that is nested too deep", deep(21), `${"/items".repeat(20)}`, "at most 20 levels"],
    ["that is no schema", { properties: { a: 7 } }, "/properties/a", "a schema: an object, true or false"],
    [
      "with an unknown keyword",
      { unevaluatedProperties: false },
      "/unevaluatedProperties",
      "one of allOf, anyOf, oneOf, not",
    ],
    ["with a prototype's property for a keyword", { constructor: {} }, "/constructor", "one of allOf"],
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
    ["with nothing for a map", { properties: null }, "/properties", "an object of schemas by name"],
    ["with an empty list", { anyOf: [] }, "/anyOf", "a list of schemas"],
    ["with a text for a list", { anyOf: "ab" }, "/anyOf", "a list of schemas"],
    ["with a count that is none", { items: { minLength: -1 } }, "/items/minLength", "a whole number"],
  ])("%s", (_, schema, pointer, expected) => {
    const [fault] = schemaFaults(schema);
    expect(fault?.expected).toContain(expected);
    if (pointer) expect(fault?.pointer).toBe(pointer);
  });
});
