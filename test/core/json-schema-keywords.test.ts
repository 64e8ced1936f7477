/** The keywords of a schema: data that fits each, and the faults of data that does not. */
import { describe, expect, test } from "vitest";
import { type JsonSchema, type SchemaFault, schemaFaults } from "../../src/core/json-schema.ts";
import { dataFaults } from "../../src/core/json-schema-check.ts";

const fits = (schema: JsonSchema, data: unknown) => dataFaults(schema, data).length === 0;
const said = (faults: readonly SchemaFault[]) =>
  faults.map(({ pointer, fault, expected }) => `${pointer} ${fault}, expected ${expected}`.trim());

/** A schema, data that fits it, and data that does not, with its faults. */
type Case = readonly [schema: JsonSchema, fitting: readonly unknown[], unfit: readonly Unfit[]];
type Unfit = readonly [data: unknown, ...faults: string[]];

/** The number of the next pattern, so that no two runs search for the same. */
let fresh = 0;

describe("a keyword applies to values of its type, and to no others:", () => {
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

  test("pattern, whatever was searched before", () => {
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
