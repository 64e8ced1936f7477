/** Data and its schema: which data fits, the faults of other data, and that checking cannot cost more than a bound. */
import { type Schema, Validator } from "@cfworker/json-schema";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { type JsonSchema, type SchemaFault, schemaFaults } from "../../src/core/json-schema.ts";
import { dataFaults } from "../../src/core/json-schema-check.ts";

const fits = (schema: JsonSchema, data: unknown) => dataFaults(schema, data).length === 0;
const said = (faults: readonly SchemaFault[]) =>
  faults.map(({ pointer, fault, expected }) => `${pointer} ${fault}, expected ${expected}`.trim());

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
  const long = "x".repeat(64 * 99_999 + 1);

  test("100,000 of them, and no more", () => {
    const text = long.slice(0, 64 * 99_999);
    expect(dataFaults({ format: "date" }, text)).toMatchObject([{ expected: "the format date" }]);
    expect(dataFaults({ format: "date" }, long)).toEqual([
      { pointer: "", fault: "takes too many steps to check", expected: "less data, or a simpler schema" },
    ]);
  });

  // A long text that its schema refuses at once takes most of the steps, so that little is left for what comes after.
  const filler = long.slice(0, 64 * 99_800);
  const names = Array.from({ length: 100 }, (_, i) => `n${i}`);
  const text = "x".repeat(64 * 100);
  const work: [string, JsonSchema, unknown][] = [
    ["entries", { items: true }, names],
    ["properties", { additionalProperties: true }, Object.fromEntries(names.map((name) => [name, 1]))],
    [
      "properties that are not looked at",
      {},
      Object.fromEntries([...names, ...names.map((name) => `${name}b`)].map((name) => [name, 1])),
    ],
    ["names that are required", { required: [...names, ...names] }, {}],
    ["alternatives", { anyOf: [...names.map(() => false), true] }, 1],
    ["entries that are compared", { enum: [[...names]] }, names],
    ["characters of a text that is measured", { maxLength: 1_000_000 }, text],
    ["characters of a text that is searched", { pattern: "^x*$" }, text],
    ["characters of a text with a format", { format: "date" }, text],
  ];
  test("for entries, properties, alternatives, comparisons and searches", () => {
    for (const [name, schema, data] of work) {
      const takesTooMany = (before: JsonSchema) => {
        const all = { prefixItems: [before, schema, schema, schema] };
        return dataFaults(all, [filler, data, data, data])[0]?.fault === tooMany[0]?.fault;
      };
      expect(takesTooMany(true), name).toBe(false);
      expect(takesTooMany({ format: "date" }), name).toBe(true);
    }
  });

  test("where subschemas are nested, with the data or without: never deeper than the stack", () => {
    let [list, alternatives, chain]: [unknown, JsonSchema, Record<string, JsonSchema>] = [
      [],
      { $ref: "#" },
      {},
    ];
    for (let i = 0; i < 498; i++) list = [list];
    for (let i = 0; i < 16; i++) alternatives = { oneOf: [alternatives] };
    for (let i = 0; i < 85; i++) {
      let next: JsonSchema = { $ref: `#/$defs/d${i + 1}` };
      for (let j = 0; j < 17; j++) next = { not: next };
      chain = { ...chain, [`d${i}`]: next };
    }
    for (const schema of [
      { items: alternatives },
      { $ref: "#/$defs/d0", $defs: { ...chain, d85: true } },
    ] satisfies JsonSchema[]) {
      expect(schemaFaults(schema)).toEqual([]);
      expect(dataFaults(schema, list)).toEqual(tooMany);
    }
  });

  test("with the deepest nesting, or more subschemas side by side", () => {
    const tree = { $ref: "#/$defs/node", $defs: { node: { items: { $ref: "#/$defs/node" } } } };
    let list: unknown = [];
    for (let i = 0; i < 249; i++) list = [list];
    expect(dataFaults(tree, list)).toEqual([]);
    expect(dataFaults(tree, [list])).toEqual(tooMany);
    expect(
      dataFaults(
        tree,
        Array.from({ length: 600 }, () => []),
      ),
    ).toEqual([]);
  });

  test("and a schema of references that multiply is read once", () => {
    expect(schemaFaults(laughs(60))).toEqual([]);
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

  const constant = "x".repeat(16_000);
  test.each<[string, JsonSchema]>([
    ["enum", { items: { enum: [constant] } }],
    ["const", { items: { const: constant } }],
    ["anyOf", { items: { anyOf: [{ const: constant }] } }],
  ])("and a long %s is serialized only when it is reported", (_, schema) => {
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

describe("a fault names the place as a JSON Pointer, the value and the expectation", () => {
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

  test("and values of more than 60 characters are cut", () => {
    const [whole, long] = ["x".repeat(60), "x".repeat(61)];
    expect(said(dataFaults(false, whole))).toEqual([`is "${whole}", expected it to be left out`]);
    expect(said(dataFaults(false, long))).toEqual([
      "is a string of 61 characters, expected it to be left out",
    ]);
    expect(said(dataFaults({ const: "x".repeat(58) }, 1))).toEqual([`is 1, expected "${"x".repeat(58)}"`]);
    expect(said(dataFaults({ const: "x".repeat(59) }, 1))).toEqual([`is 1, expected "${"x".repeat(59)}…`]);
  });

  test("and of many faults the first ten are reported", () => {
    const twelve = Array.from({ length: 12 }, () => 1);
    const places = dataFaults({ items: false }, twelve).map(({ pointer }) => pointer);
    expect(places).toEqual(Array.from({ length: 10 }, (_, i) => `/${i}`));
  });
});
