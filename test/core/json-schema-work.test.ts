/** Checking data does a bounded amount of work, whatever schema and data are: each read of either is counted here. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type JsonSchema, schemaFaults } from "../../src/core/json-schema.ts";
import { dataFaults } from "../../src/core/json-schema-check.ts";

/** The most that a check may read of a schema and of data: a multiple of its steps. */
const MOST_READS = 20 * 100_000;

/** Reads of values that are wrapped: each property and each of the names that are listed is one. */
class Reads {
  #left = MOST_READS;
  readonly #wrapped = new WeakMap<object, object>();

  of<T>(value: T): T {
    if (typeof value !== "object" || value === null) return value;
    const known = this.#wrapped.get(value);
    if (known) return known as T;
    const wrapped = new Proxy(value, {
      get: (target, name, receiver) => {
        this.#read(1);
        return this.of(Reflect.get(target, name, receiver));
      },
      ownKeys: (target) => {
        const keys = Reflect.ownKeys(target);
        this.#read(keys.length);
        return keys;
      },
    });
    this.#wrapped.set(value, wrapped);
    return wrapped;
  }

  #read(count: number): void {
    this.#left -= count;
    if (this.#left < 0) throw new Error("More has been read than may be");
  }
}

function checkCounting(schema: JsonSchema, data: unknown): void {
  const reads = new Reads();
  dataFaults(reads.of(schema), reads.of(data));
}

const times = <T>(count: number, one: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => one(i));
const record = <T>(count: number, one: (i: number) => T): Record<string, T> =>
  Object.fromEntries(times(count, (i) => [`k${i}`, one(i)]));

const KEYS = record(18_000, () => 0);
const ENTRIES = times(60_000, () => 1);
const DEEP = (levels: number) => JSON.parse("[".repeat(levels) + "]".repeat(levels)) as unknown;
const tooMany = [
  { pointer: "", fault: "takes too many steps to check", expected: "less data, or a simpler schema" },
];

describe("the work for one event is counted, and ends,", () => {
  const cases: [string, JsonSchema, unknown][] = [
    ["where objects of an enum are compared with 18,000 keys", { enum: times(5_400, () => ({})) }, KEYS],
    [
      "where the properties of one object are counted again and again",
      { anyOf: times(620, () => ({ minProperties: 18_001 })) },
      KEYS,
    ],
    [
      "where a list is gone through again and again",
      { allOf: times(1_000, () => ({ minItems: 1 })) },
      ENTRIES,
    ],
    ["where a list of types is long", { items: { type: times(1_500, () => "string") } }, ENTRIES],
    [
      "where many names demand others",
      { items: { dependentRequired: record(1_000, () => []) } },
      times(60_000, () => ({})),
    ],
    [
      "where many names are required",
      { items: { required: times(1_500, (i) => `k${i}`) } },
      [{}, ...ENTRIES],
    ],
  ];
  test.each(cases)("%s", (_, schema, data) => {
    expect(schemaFaults(schema)).toEqual([]);
    expect(() => checkCounting(schema, data)).not.toThrow();
  });

  test("where a pattern of optional parts meets a text of a quarter of a megabyte, in as many schemas as there may be", () => {
    const text = "ab".repeat(125 * 1024);
    const patterns = times(350, (i) => ({ pattern: `^a?b?[ab]*[ab]{60}${"x".repeat(i % 4)}y` }));
    const schema = { anyOf: patterns };
    expect(schemaFaults(schema)).toEqual([]);
    expect(dataFaults(schema, text)).toEqual(tooMany);
  });

  test("where many alternatives are followed at once in a long text", () => {
    const classes = times(46, (i) => `[^${String.fromCharCode(0xc0 + i)}]`).join("");
    const schema = { pattern: `^[^b]*${classes}x` };
    expect(schemaFaults(schema)).toEqual([]);
    const text = times(125 * 1024, (i) => (i % 2 ? "a" : "\u00c0")).join("");
    expect(dataFaults({ pattern: "^[^b]*$" }, text)).toEqual([]);
    expect(dataFaults(schema, text)).toEqual(tooMany);
  });

  test("where a long name of the schema, or of the data, is used for each entry", () => {
    const ref = { items: { $ref: `#/$defs/${"~0".repeat(3_900)}` }, $defs: { ["~".repeat(3_900)]: false } };
    expect(schemaFaults(ref)).toEqual([]);
    const replaced = countReplacements(() => {
      expect(dataFaults(ref, ENTRIES.slice(0, 40_000))).toHaveLength(10);
      const named = { anyOf: times(500, () => ({ additionalProperties: false })) };
      expect(dataFaults(named, { ["~".repeat(250_000)]: 1 })).toHaveLength(1);
    });
    expect(replaced).toBeLessThan(100);
  });

  test("where compared values are nested deeper than the stack", () => {
    const schema = { const: DEEP(7_000) };
    expect(dataFaults(schema, DEEP(7_000))).toEqual(tooMany);
    expect(schemaFaults(schema)).toEqual([
      { pointer: "", fault: "is nested too deep", expected: "at most 500 levels of JSON" },
    ]);
    const deepest = { const: DEEP(499) };
    expect(schemaFaults(deepest)).toEqual([]);
    expect(dataFaults(deepest, DEEP(7_000))).toMatchObject([{ fault: "is a list of 1" }]);
  });
});

/** How often texts are searched through to replace something in them. */
function countReplacements(work: () => void): number {
  const original = String.prototype.replaceAll;
  let count = 0;
  // biome-ignore lint/suspicious/noExplicitAny: it has two signatures.
  String.prototype.replaceAll = function (this: string, ...args: any[]): string {
    count += 1;
    return (original as (...args: unknown[]) => string).apply(this, args);
  };
  try {
    work();
  } finally {
    String.prototype.replaceAll = original;
  }
  return count;
}

describe("no stored schema and no data", () => {
  /** Lists and objects that are as large as an event of 256 KB can make them. */
  const data = fc.oneof(
    fc.nat(30_000).map((count) => record(count, () => 1)),
    fc.nat(60_000).map((count) => times(count, () => 1)),
    fc.nat(10_000).map((count) => times(count, (i) => ({ [`k${i % 7}`]: i }))),
    fc.nat(5_000).map((count) => times(count, () => [[], {}])),
    fc.integer({ min: 1, max: 900 }).map(DEEP),
  );
  const count = fc.nat(2_000);
  /** Keywords that are repeated until the schema has its greatest size. */
  const { schema } = fc.letrec<{ schema: object; part: object }>((tie) => ({
    part: fc.oneof(
      count.map((most) => ({ enum: times(most, () => ({})) })),
      count.map((most) => ({ enum: times(most, (i) => [i]) })),
      count.map((most) => ({ type: times(most + 1, () => "string") })),
      count.map((most) => ({ required: times(most, (i) => `k${i}`) })),
      count.map((most) => ({ dependentRequired: record(most, () => []) })),
      fc.constant({ minProperties: 1_000_000 }),
      fc.constant({ minItems: 1 }),
      fc.constant({ uniqueItems: true }),
      fc.constant({ const: record(100, () => 1) }),
      fc.constant({ contains: false }),
      fc.constant({ properties: { k1: true }, additionalProperties: { minimum: 0 } }),
    ),
    schema: fc.oneof(
      { maxDepth: 2 },
      tie("part"),
      fc
        .tuple(
          fc.constantFrom("allOf", "anyOf", "oneOf", "prefixItems"),
          tie("schema"),
          fc.integer({ min: 1, max: 400 }),
        )
        .map(([keyword, part, most]) => {
          const fitting = Math.floor(16_000 / (JSON.stringify(part).length + 1));
          return { [keyword]: times(Math.max(1, Math.min(most, fitting)), () => part) };
        }),
      fc
        .tuple(fc.constantFrom("items", "not", "additionalProperties", "contains"), tie("schema"))
        .map(([keyword, part]) => ({ [keyword]: part })),
    ),
  }));
  const storable = schema.filter(
    (given) => JSON.stringify(given).length <= 16 * 1024 && schemaFaults(given).length === 0,
  );

  test("make a check read more than a bound", () => {
    fc.assert(
      fc.property(storable, data, (given, value) => {
        checkCounting(given as JsonSchema, value);
      }),
      { numRuns: 40 },
    );
  });
});
