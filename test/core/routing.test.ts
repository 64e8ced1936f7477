/** A filter says what a filter of ten lines says, and a broken one takes everything. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type EventFilter, eventFilter, letsThrough, routed, takesType } from "../../src/core/routing.ts";

/** What a filter means. */
function isWanted(filter: EventFilter, data: unknown): boolean {
  return Object.entries(filter).every(([path, destinationState]) =>
    meets(valueAt(data, path.split(".")), destinationState),
  );
}

function meets(value: unknown, destinationState: unknown): boolean {
  if (Array.isArray(destinationState)) return destinationState.includes(value);
  if (typeof destinationState !== "object" || destinationState === null) return value === destinationState;
  return Object.entries(destinationState).every(([operator, operand]) =>
    operators[operator]?.(value, operand as never),
  );
}

const operators: Record<string, (value: unknown, operand: never) => boolean> = {
  exists: (value, operand) => (value !== undefined) === operand,
  prefix: (value, operand) => typeof value === "string" && value.startsWith(operand),
  gt: (value, operand) => typeof value === "number" && value > operand,
  gte: (value, operand) => typeof value === "number" && value >= operand,
  lt: (value, operand) => typeof value === "number" && value < operand,
  lte: (value, operand) => typeof value === "number" && value <= operand,
  not: (value, operand) => !meets(value, operand),
};

function valueAt(data: unknown, [key, ...rest]: string[]): unknown {
  if (key === undefined) return data;
  if (typeof data !== "object" || data === null || Array.isArray(data) || !Object.hasOwn(data, key))
    return undefined;
  return valueAt((data as Record<string, unknown>)[key], rest);
}

const keys = ["a", "b", "0", "a b", "ключ", "$", "[0]", "__proto", "%_"] as const;
const key = fc.constantFrom(...keys);
const path = fc.array(key, { minLength: 1, maxLength: 3 }).map((parts) => parts.join("."));
const texts = fc.constantFrom(
  "",
  "a",
  "ab",
  "abc",
  "A",
  "1",
  "true",
  "null",
  "é",
  "日本",
  "💥x",
  "💥",
  "'",
  '"',
  "%",
  "a\n",
);
const numbers = fc.constantFrom(-1, 0, 1, 2, 0.5, 1.5, 1e15, 2 ** 53 - 1, -(2 ** 53 - 1), 0.1, 1e-7);
const value = fc.oneof(texts, numbers, fc.boolean(), fc.constant(null));
const values = fc.array(value, { minLength: 1, maxLength: 3 });
const comparisons = {
  exists: fc.boolean(),
  prefix: texts,
  gt: numbers,
  gte: numbers,
  lt: numbers,
  lte: numbers,
};
const someOf = (model: Record<string, fc.Arbitrary<unknown>>) =>
  fc.record(model, { requiredKeys: [] }).filter((given) => Object.keys(given).length > 0);
const denied = fc.oneof(value, values, someOf(comparisons));
const destinationState = fc.oneof(
  value,
  values,
  someOf({ ...comparisons, not: denied }),
  fc.record({ not: denied }),
);
const filter = fc.dictionary(path, destinationState, { minKeys: 1, maxKeys: 3 });
const { data } = fc.letrec((tie) => ({
  data: fc.oneof(
    { maxDepth: 3 },
    value,
    fc.array(tie("data"), { maxLength: 2 }),
    fc.dictionary(key, tie("data"), { maxKeys: 4 }),
    fc.dictionary(key, tie("data"), { maxKeys: 4 }),
  ),
}));

describe("a filter", () => {
  test("means what a few lines of code mean", () => {
    let wanted = 0;
    let refused = 0;
    fc.assert(
      fc.property(filter, data, (one, about) => {
        expect(eventFilter.safeParse(one).success).toBe(true);
        const meant = isWanted(one as EventFilter, about);
        if (meant) wanted++;
        else refused++;
        expect(letsThrough(one, about)).toBe(meant);
      }),
      { numRuns: 3_000 },
    );
    // Of 3,000 about a tenth is wanted: fewer than a thirtieth, and it would hardly have been tried.
    expect(Math.min(wanted, refused)).toBeGreaterThan(100);
  });

  test("of one condition on what is there means the same too", () => {
    fc.assert(
      fc.property(destinationState, data, (one, about) => {
        expect(letsThrough({ a: one }, { a: about })).toBe(isWanted({ a: one } as EventFilter, { a: about }));
      }),
      { numRuns: 3_000 },
    );
  });

  test.each([
    ["9007199254740993", false],
    ["9007199254740991", true],
    ["9007199254740991.0", true],
    ["12345678901234567890123", false],
    ["1e400", false],
  ])("tells numbers apart that are kept as they were written (%s)", (id, wanted) => {
    expect(letsThrough({ id: 9007199254740991 }, { id: JSON.rawJSON(id) })).toBe(wanted);
  });

  test("compares numbers that are kept as they were written", () => {
    expect(letsThrough({ total: { gte: 100 } }, { total: JSON.rawJSON("100.00") })).toBe(true);
    expect(letsThrough({ total: { lt: 100 } }, { total: JSON.rawJSON("1e2") })).toBe(false);
  });
});

describe("a filter that a person has edited into nonsense takes everything", () => {
  const aboutNothing = [{}, { a: 1 }, null, [1], "a"];

  test.each([
    ["5"],
    ["null"],
    ['"a"'],
    ["[1]"],
    ["{}"],
    ['{"a":[]}'],
    ['{"a":{}}'],
    ['{"a":{"like":"x"}}'],
    ['{"a":{"gt":5,"like":"x"}}'],
    ['{"a":{"gt":"5"}}'],
    ['{"a":{"exists":1}}'],
    ['{"a":{"prefix":5}}'],
    ['{"a":{"not":{"like":"x"}}}'],
    ['{"a":{"not":{"not":1}}}'],
    ['{"a":{"not":[]}}'],
    ['{"a":[[1]]}'],
    ['{"a":[1,{"gt":1}]}'],
    ['{"a\\"b":1}'],
    ['{"a\\\\":1}'],
    ['{"":1}'],
    ['{"a..b":1}'],
    ['{".a":1}'],
    ['{"a.":1}'],
    ['{"a\\u0000b":1}'],
    ['{"a\\tb":1}'],
    ['{"b":7,"a":{"like":"x"}}'],
  ])("%s", (text) => {
    expect(aboutNothing.map((data) => letsThrough(JSON.parse(text), data))).toEqual([
      true,
      true,
      true,
      true,
      true,
    ]);
  });

  test("whatever JSON it is, and without an error", () => {
    const anyKey = fc.oneof(key, fc.constantFrom(...Object.keys(operators)), fc.string({ maxLength: 3 }));
    const { junk } = fc.letrec((tie) => ({
      junk: fc.oneof(
        { maxDepth: 3 },
        value,
        fc.array(tie("junk"), { maxLength: 2 }),
        fc.dictionary(anyKey, tie("junk"), { maxKeys: 3 }),
      ),
    }));
    fc.assert(
      fc.property(fc.dictionary(anyKey, junk, { maxKeys: 3 }), data, (one, about) => {
        expect(letsThrough(one, about)).toBe(!isFilter(one) || isWanted(one, about));
      }),
      { numRuns: 3_000 },
    );
  });
});

describe("a destination's event types", () => {
  test.each<[readonly unknown[] | null, string, boolean]>([
    [null, "order.paid", true],
    [["order.paid"], "order.paid", true],
    [["order.paid"], "order.paid.twice", false],
    [["order.paid"], "order", false],
    [["order.paid"], "Order.Paid", false],
    [["invoice.sent", "order.paid"], "order.paid", true],
    [["order.*"], "order.paid", true],
    [["order.*"], "order.item.added", true],
    [["order.*"], "orders.paid", false],
    [["order.*"], "order", false],
    [["order.*"], "an.order.paid", false],
    [["order.item.*"], "order.paid", false],
    [["*"], "order.paid", true],
    [["o%.p_id"], "order.paid", false],
    [["order.paid*"], "order.paid.twice", false],
    [["order.*", "order.paid"], "order.paid", true],
    [[], "order.paid", false],
    [[1, null, {}], "order.paid", false],
  ])("%j and %s: %s", (types, type, wanted) => {
    expect(takesType(types, type)).toBe(wanted);
  });
});

test("data is not read where there is no filter", () => {
  const routes = [
    { destination: "a", types: null, filter: null },
    { destination: "b", types: ["other"], filter: { a: 1 } },
  ];
  const data = () => {
    throw new Error("looked at");
  };
  expect(routed(routes, "order.paid", data)).toEqual(["a"]);
});

function isFilter(given: unknown): given is EventFilter {
  return eventFilter.safeParse(given).success;
}
