/** Schemas of events: which may be stored, what data fits them, and that neither can cost more than a bound. */
import { type Schema, Validator } from "@cfworker/json-schema";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { dataFaults, type JsonSchema, type SchemaFault, schemaFaults } from "../../src/core/json-schema.ts";

const fits = (schema: JsonSchema, data: unknown) => dataFaults(schema, data).length === 0;
const said = (faults: readonly SchemaFault[]) =>
  faults.map(({ pointer, fault, expected }) => `${pointer} ${fault}, expected ${expected}`.trim());

/** A schema, data that fits it, and data that does not, with what is said about it. */
type Case = readonly [schema: JsonSchema, fitting: readonly unknown[], unfit: readonly Unfit[]];
type Unfit = readonly [data: unknown, ...faults: string[]];

/** Of the next pattern, so that no two runs search for the same. */
let fresh = 0;

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
    ["characters of a text that is searched", { pattern: "^x" }, text],
    ["characters of a text with a format", { format: "date" }, text],
  ];
  test("for entries, properties, alternatives, and what is compared or searched", () => {
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

  test("where as many are nested as may be, or more beside one another", () => {
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

describe("a keyword holds for what it is about, and for that alone:", () => {
  const PAIR = "💥";
  const proto = JSON.parse('{"__proto__":{}}');

  test.each<[string, readonly Case[]]>([
    [
      "true and false",
      [
        [true, [null, 1, {}], []],
        [false, [], [[1, "is 1, expected it to be left out"]]],
        [{}, [null, 1, "", [], {}, undefined], []],
      ],
    ],
    [
      "type",
      [
        [{ type: "null" }, [null], [[{}, "is an object, expected a value of the type null"]]],
        [{ type: "boolean" }, [true, false], [[0, "is 0, expected a value of the type boolean"]]],
        [
          { type: "object" },
          [{}, { a: 1 }],
          [
            [null, "is null, expected a value of the type object"],
            [[1], "is a list of 1, expected a value of the type object"],
            [undefined, "is missing, expected a value of the type object"],
          ],
        ],
        [{ type: "array" }, [[]], [[{}, "is an object, expected a value of the type array"]]],
        [{ type: "number" }, [1, 1.5], [["1", 'is "1", expected a value of the type number']]],
        [{ type: "integer" }, [1, -1, 1e20], [[1.5, "is 1.5, expected a value of the type integer"]]],
        [{ type: "string" }, [""], [[true, "is true, expected a value of the type string"]]],
        [
          { type: ["string", "null"] },
          ["a", null],
          [[1, "is 1, expected a value of the type string or null"]],
        ],
      ],
    ],
    [
      "enum",
      [
        [
          { enum: [1, "a", null] },
          [1, "a", null],
          [
            ["1", 'is "1", expected one of [1,"a",null]'],
            [{}, 'is an object, expected one of [1,"a",null]'],
          ],
        ],
        [
          { enum: [[1, [2]], ["x"]] },
          [[1, [2]], ["x"]],
          [
            [[], 'is a list of 0, expected one of [[1,[2]],["x"]]'],
            [[1], 'is a list of 1, expected one of [[1,[2]],["x"]]'],
            [[1, [3]], 'is a list of 2, expected one of [[1,[2]],["x"]]'],
            [[2, [2]], 'is a list of 2, expected one of [[1,[2]],["x"]]'],
            [[1, [2], 3], 'is a list of 3, expected one of [[1,[2]],["x"]]'],
            [{ 0: "x", length: 1 }, 'is an object, expected one of [[1,[2]],["x"]]'],
          ],
        ],
        [
          { enum: [{ a: 1, b: { c: null } }] },
          [{ b: { c: null }, a: 1 }],
          [
            [{ a: 1, b: { c: 0 } }, 'is an object, expected one of [{"a":1,"b":{"c":null}}]'],
            [{ a: 1, d: { c: null } }, 'is an object, expected one of [{"a":1,"b":{"c":null}}]'],
            [{ a: 2, b: { c: null } }, 'is an object, expected one of [{"a":1,"b":{"c":null}}]'],
            [{ a: 1 }, 'is an object, expected one of [{"a":1,"b":{"c":null}}]'],
            [{ a: 1, b: { c: null }, d: 1 }, 'is an object, expected one of [{"a":1,"b":{"c":null}}]'],
          ],
        ],
        [{ enum: [proto] }, [proto], [[{ a: {} }, 'is an object, expected one of [{"__proto__":{}}]']]],
      ],
    ],
    [
      "const",
      [
        [{ const: null }, [null], [[0, "is 0, expected null"]]],
        [{ const: { a: 1 } }, [{ a: 1 }], [["a", 'is "a", expected {"a":1}']]],
      ],
    ],
    [
      "minimum and maximum",
      [
        [{ minimum: 5 }, [5, 6, "1", null], [[4.9, "is 4.9, expected at least 5"]]],
        [{ maximum: 5 }, [5, -6, "9"], [[5.1, "is 5.1, expected at most 5"]]],
        [{ exclusiveMinimum: 5 }, [5.1], [[5, "is 5, expected more than 5"]]],
        [{ exclusiveMaximum: 5 }, [4.9], [[5, "is 5, expected less than 5"]]],
        [
          { type: "number", minimum: 0, exclusiveMaximum: 1, multipleOf: 0.5 },
          [0, 0.5],
          [
            ["a", 'is "a", expected a value of the type number'],
            [-1.2, "is -1.2, expected at least 0"],
            [1, "is 1, expected less than 1"],
          ],
        ],
      ],
    ],
    [
      "multipleOf",
      [
        [{ multipleOf: 2 }, [0, 4, -2, "3"], [[7, "is 7, expected a multiple of 2"]]],
        [{ multipleOf: 0.1 }, [0.3, 0.7, 1.1, -0.3], [[0.35, "is 0.35, expected a multiple of 0.1"]]],
        [
          { multipleOf: 0.01 },
          [4.35, 19.99, 1_000_000.01],
          [[4.355, "is 4.355, expected a multiple of 0.01"]],
        ],
        // Their quotients are rounded to no whole number.
        [{ multipleOf: 0.07 }, [2.03, 4.27, 32.41], []],
        [{ multipleOf: 1 }, [], [[1e-17, "is 1e-17, expected a multiple of 1"]]],
      ],
    ],
    [
      "minLength and maxLength",
      [
        [{ minLength: 2 }, ["ab", "abc", 1, [], {}], [["a", 'is "a", expected at least 2 characters']]],
        [{ maxLength: 2 }, ["", "ab", 123], [["abc", 'is "abc", expected at most 2 characters']]],
        [
          { minLength: 1, maxLength: 1 },
          ["a", PAIR, "\ud83d", "\udca5"],
          [
            ["", 'is "", expected at least 1 characters'],
            [`${PAIR}${PAIR}`, `is "${PAIR}${PAIR}", expected at most 1 characters`],
            ["\udca5\ud83d", 'is "\\udca5\\ud83d", expected at most 1 characters'],
            ["\ud83da", 'is "\\ud83da", expected at most 1 characters'],
            ["a\udca5", 'is "a\\udca5", expected at most 1 characters'],
          ],
        ],
        [{ minLength: 3, maxLength: 3 }, [`a${PAIR}b`, `${PAIR}${PAIR}${PAIR}`], []],
      ],
    ],
    [
      "format",
      [[{ format: "date" }, ["2026-11-22", 1, null], [["now", 'is "now", expected the format date']]]],
    ],
    [
      "minItems and maxItems",
      [
        [{ minItems: 1 }, [[1], [1, 2], "", {}], [[[], "is a list of 0, expected at least 1 entries"]]],
        [{ maxItems: 1 }, [[], [1], "ab"], [[[1, 2], "is a list of 2, expected at most 1 entries"]]],
      ],
    ],
    [
      "items and prefixItems",
      [
        [
          { items: { type: "number" } },
          [[], [1, 2], { a: "a" }],
          [
            [
              [1, "a", null],
              '/1 is "a", expected a value of the type number',
              "/2 is null, expected a value of the type number",
            ],
          ],
        ],
        [
          { prefixItems: [{ type: "string" }, true], items: false },
          [[], ["a"], ["a", 1]],
          [
            [[1], "/0 is 1, expected a value of the type string"],
            [["a", 1, 2], "/2 is 2, expected it to be left out"],
          ],
        ],
      ],
    ],
    [
      "contains",
      [
        [
          { contains: { type: "string" } },
          [["a"], [1, "a"], "x"],
          [
            [[], "is a list of 0, expected an entry that fits `contains`"],
            [[1, 2], "is a list of 2, expected an entry that fits `contains`"],
          ],
        ],
      ],
    ],
    [
      "uniqueItems",
      [
        [
          { uniqueItems: true },
          [[], [1, 2, "1"], [[1], [2]]],
          [[[1, 2, 1], "has an entry twice, expected entries that are all different"]],
        ],
        [{ uniqueItems: false }, [[1, 1]], []],
        [{}, [[1, 1]], []],
      ],
    ],
    [
      "minProperties and maxProperties",
      [
        [{ minProperties: 1 }, [{ a: 1 }, [], null], [[{}, "has 0 properties, expected at least 1"]]],
        [
          { maxProperties: 1 },
          [{}, { a: 1 }, [1, 2]],
          [[{ a: 1, b: 2 }, "has 2 properties, expected at most 1"]],
        ],
      ],
    ],
    [
      "properties and additionalProperties",
      [
        [
          { properties: { a: { type: "number" }, b: true }, additionalProperties: false },
          [{}, { a: 1 }, { a: 1, b: 2 }, [], null],
          [
            [
              { a: "x", c: 1 },
              '/a is "x", expected a value of the type number',
              "/c is 1, expected it to be left out",
            ],
          ],
        ],
        [
          { properties: { "a/b~c": false } },
          [{ a: { b: 1 } }],
          [[{ "a/b~c": 1 }, "/a~1b~0c is 1, expected it to be left out"]],
        ],
        [
          { additionalProperties: { type: "string" } },
          [{}, { a: "b" }],
          [[{ a: 1, b: "" }, "/a is 1, expected a value of the type string"]],
        ],
      ],
    ],
    [
      "required and dependentRequired",
      [
        [
          { required: ["a", "b"] },
          [{ a: 1, b: 2 }, [], null, true, "a"],
          [
            [{ b: 1 }, "/a is missing, expected it to be there"],
            [{}, "/a is missing, expected it to be there", "/b is missing, expected it to be there"],
          ],
        ],
        [
          { dependentRequired: { a: ["b"], c: ["d"] } },
          [{}, { b: 1 }, { a: 1, b: 1 }],
          [
            [{ a: 1 }, "/b is missing, expected it to be there"],
            [{ c: 1, b: 1 }, "/d is missing, expected it to be there"],
          ],
        ],
      ],
    ],
    [
      "allOf",
      [
        [
          { allOf: [{ minimum: 1 }, { maximum: 2 }] },
          [1, 2, "a"],
          [
            [0, "is 0, expected at least 1"],
            [3, "is 3, expected at most 2"],
          ],
        ],
      ],
    ],
    [
      "anyOf",
      [
        [
          { anyOf: [{ type: "string" }, { minimum: 2 }] },
          ["a", 2],
          [[1, "is 1, expected a value that fits one of 2 schemas"]],
        ],
      ],
    ],
    [
      "oneOf",
      [
        [
          { oneOf: [{ minimum: 1 }, { maximum: 2 }] },
          [0, 3],
          [
            [1, "is 1, which fits 2, expected a value that fits exactly one of 2 schemas"],
            ["a", 'is "a", which fits 2, expected a value that fits exactly one of 2 schemas'],
          ],
        ],
        [
          { oneOf: [{ type: "null" }, { type: "integer", minimum: 1 }] },
          [null],
          [[0, "is 0, which fits 0, expected a value that fits exactly one of 2 schemas"]],
        ],
      ],
    ],
    [
      "not",
      [
        [
          { not: { type: "null" } },
          [1, {}],
          [[null, "is null, expected a value that does not fit the schema under `not`"]],
        ],
      ],
    ],
    [
      "if, then and else",
      [
        [
          // biome-ignore lint/suspicious/noThenProperty: it is JSON Schema's word.
          { if: { type: "number" }, then: { minimum: 1 }, else: { type: "string" } },
          [1, "a"],
          [
            [0, "is 0, expected at least 1"],
            [null, "is null, expected a value of the type string"],
          ],
        ],
        // biome-ignore lint/suspicious/noThenProperty: it is JSON Schema's word.
        [{ if: { type: "number" }, then: { minimum: 1 } }, [1, null], [[0, "is 0, expected at least 1"]]],
        [{ if: { type: "number" }, else: false }, [0], [[null, "is null, expected it to be left out"]]],
        // biome-ignore lint/suspicious/noThenProperty: it is JSON Schema's word.
        [{ then: false, else: false }, [1], []],
      ],
    ],
    [
      "$ref, beside what is there",
      [
        [
          { $ref: "#/$defs/a~1b~0c", maximum: 2, $defs: { "a/b~c": { minimum: 1 } } },
          [1, 2],
          [
            [0, "is 0, expected at least 1"],
            [3, "is 3, expected at most 2"],
          ],
        ],
      ],
    ],
    [
      "the others, which say nothing about data",
      [
        [
          {
            $schema: "https://json-schema.org/draft/2020-12/schema",
            $comment: "a",
            title: "b",
            description: "c",
            default: 1,
            examples: [2],
            example: 3,
            deprecated: true,
            readOnly: true,
            writeOnly: false,
          },
          [null, "a"],
          [],
        ],
      ],
    ],
  ])("%s", (_, cases) => {
    for (const [schema, fitting, unfit] of cases) {
      expect(schemaFaults(schema)).toEqual([]);
      const tried = { anyOf: [schema], $defs: (schema as { $defs?: object }).$defs ?? {} };
      for (const data of fitting) {
        expect(said(dataFaults(schema, data))).toEqual([]);
        expect(fits(tried, data)).toBe(true);
      }
      for (const [data, ...faults] of unfit) {
        expect(said(dataFaults(schema, data))).toEqual(faults);
        expect(fits(tried, data)).toBe(false);
      }
    }
  });

  test("pattern, whatever was searched for before", () => {
    // No two runs have the same patterns.
    const text = `${PAIR}${fresh++}`;
    const pattern = `^.${text.slice(2)}$`;
    expect(schemaFaults({ pattern })).toEqual([]);
    for (const times of ["first", "second"]) {
      expect(fits({ pattern }, text), times).toBe(true);
      expect(fits({ pattern }, 1), times).toBe(true);
      expect(said(dataFaults({ pattern }, "x")), times).toEqual([
        `is "x", expected a string that matches ${pattern}`,
      ]);
    }
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
  test("with a keyword whose value it cannot have", () => {
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

  test("with a fault that names what is there", () => {
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

  test("that comes back to itself by any keyword that is about the same value", () => {
    const self = { $ref: "#" };
    for (const [at, schema] of [
      ...["allOf", "anyOf", "oneOf"].map((keyword) => [`/${keyword}/0`, { [keyword]: [self] }] as const),
      ...["not", "if", "then", "else"].map((keyword) => [`/${keyword}`, { [keyword]: self }] as const),
    ])
      expect(schemaFaults(schema)).toMatchObject([{ pointer: `${at}/$ref`, fault: "refers to itself" }]);
  });

  test("but not one that comes back to itself deeper in the data", () => {
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

  test("with a pattern whose search could take long, or that is none", () => {
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

  test("and values of more than 60 characters are cut", () => {
    const [whole, long] = ["x".repeat(60), "x".repeat(61)];
    expect(said(dataFaults(false, whole))).toEqual([`is "${whole}", expected it to be left out`]);
    expect(said(dataFaults(false, long))).toEqual([
      "is a string of 61 characters, expected it to be left out",
    ]);
    expect(said(dataFaults({ const: "x".repeat(58) }, 1))).toEqual([`is 1, expected "${"x".repeat(58)}"`]);
    expect(said(dataFaults({ const: "x".repeat(59) }, 1))).toEqual([`is 1, expected "${"x".repeat(59)}…`]);
  });

  test("and of many the first ten are told", () => {
    const twelve = Array.from({ length: 12 }, () => 1);
    const places = dataFaults({ items: false }, twelve).map(({ pointer }) => pointer);
    expect(places).toEqual(Array.from({ length: 10 }, (_, i) => `/${i}`));
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

describe("a format", () => {
  test.each<[string, string[], string[]]>([
    [
      "date-time",
      ["2026-11-22T10:00:00Z", "2026-11-22t10:00:00.123+01:00"],
      ["2026-11-22 10:00:00Z", "2026-11-22T10:00:00"],
    ],
    [
      "date",
      ["2024-02-29", "2000-02-29", "2026-02-28", "2024-01-31", "2026-11-01"],
      ["2026-02-29", "1900-02-29", "2026-04-31", "2026-11-00", "2026-00-01", "2026-13-01", "22.11.2026"],
    ],
    ["time", ["23:59:60Z"], ["24:00:00Z"]],
    ["email", ["a.b+c@example.com"], ["a@b@c", "a b@example.com", "@example.com", "a@-b.example", "a"]],
    [
      "hostname",
      ["a-b.example", `${"a.".repeat(126)}a`],
      ["-a.example", "a..example", `${"a.".repeat(126)}ab`],
    ],
    ["ipv4", ["127.0.0.1"], ["127.0.0.256", "1.2.3.", "1.2.3.4.5"]],
    ["uri", ["https://example.com/a?b=c#d"], ["/relative", "https://example.com/a b"]],
    ["uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567-e89b-12d3-a456-42661417400"]],
  ])("%s", (format, valid, invalid) => {
    for (const text of valid) expect(fits({ format }, text), text).toBe(true);
    for (const text of invalid) expect(fits({ format }, text), text).toBe(false);
  });
});
