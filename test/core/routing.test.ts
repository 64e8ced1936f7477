/** A filter says what a filter of ten lines says, and a broken one takes everything. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type EventFilter, eventFilter } from "../../src/core/event-filter.ts";
import {
  channelsInEffect,
  destinationChannels,
  letsThrough,
  refusalOf,
  refusals,
  routed,
  takesType,
} from "../../src/core/routing.ts";
import { zodOf } from "../../src/core/zod-of.ts";

const channelsSchema = zodOf(destinationChannels);

/** The meaning of a filter. */
function isWanted(filter: EventFilter, data: unknown): boolean {
  return Object.entries(filter).every(([path, condition]) =>
    isListOfFilters(path, condition)
      ? condition.some((one) => isWanted(one, data))
      : meets(valueAt(data, path.split(".")), condition),
  );
}

function isListOfFilters(path: string, condition: unknown): condition is EventFilter[] {
  return path === "or" && Array.isArray(condition) && condition.some((one) => one && typeof one === "object");
}

function meets(value: unknown, condition: unknown): boolean {
  if (Array.isArray(condition)) return condition.includes(value);
  if (typeof condition !== "object" || condition === null) return value === condition;
  const { ignore_case: ignoresCase, ...given } = condition as Record<string, unknown>;
  return Object.entries(given).every(([operator, operand]) =>
    ignoresCase && ["prefix", "suffix", "in"].includes(operator)
      ? operators[operator]?.(folded(value), folded(operand) as never)
      : operators[operator]?.(value, operand as never),
  );
}

function folded(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(folded);
  return typeof value === "string" ? value.toLowerCase().toUpperCase() : value;
}

const operators: Record<string, (value: unknown, operand: never) => boolean> = {
  exists: (value, operand) => (value !== undefined) === operand,
  prefix: (value, operand) => typeof value === "string" && value.startsWith(operand),
  suffix: (value, operand) => typeof value === "string" && value.endsWith(operand),
  in: (value, operand) => [value].flat().some((one) => [operand].flat().includes(one as never)),
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

const keys = ["a", "b", "0", "a b", "ключ", "$", "[0]", "__proto", "%_", "or"] as const;
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
  "É",
  "ß",
  "SS",
  "ΑΣ",
  "ας",
  "𐐨",
  "𐐀x",
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
  suffix: texts,
  in: values,
  ignore_case: fc.boolean(),
  gt: numbers,
  gte: numbers,
  lt: numbers,
  lte: numbers,
};
const someOf = (model: Record<string, fc.Arbitrary<unknown>>) =>
  fc
    .record(model, { requiredKeys: [] })
    .map(({ ignore_case: ignoresCase, ...given }) =>
      ["prefix", "suffix", "in"].some((one) => one in given) && ignoresCase !== undefined
        ? { ...given, ignore_case: ignoresCase }
        : given,
    )
    .filter((given) => Object.keys(given).length > 0);
const denied = fc.oneof(value, values, someOf(comparisons));
const condition = fc.oneof(
  value,
  values,
  someOf({ ...comparisons, not: denied }),
  fc.record({ not: denied }),
);
const flat = fc.dictionary(path, condition, { minKeys: 1, maxKeys: 3 });
const alternatives = (of: fc.Arbitrary<object>) => fc.array(of, { minLength: 1, maxLength: 3 });
const withOr = (of: fc.Arbitrary<object>) =>
  fc.oneof(
    flat,
    fc.record({ or: alternatives(of) }),
    fc.tuple(flat, alternatives(of)).map(([own, or]) => ({ ...own, or })),
  );
const filter = withOr(withOr(flat));
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
  test("means the same as a few lines of code", () => {
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
    // About a tenth of 3,000 is expected to match; with less than a thirtieth, matching would hardly have been tried.
    expect(Math.min(wanted, refused)).toBeGreaterThan(100);
  });

  test("of one condition on existing data means the same too", () => {
    fc.assert(
      fc.property(condition, data, (one, about) => {
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
  ])("distinguishes numbers that are stored as they were written (%s)", (id, wanted) => {
    expect(letsThrough({ id: 9007199254740991 }, { id: JSON.rawJSON(id) })).toBe(wanted);
  });

  test("compares numbers that are stored as they were written", () => {
    expect(letsThrough({ total: { gte: 100 } }, { total: JSON.rawJSON("100.00") })).toBe(true);
    expect(letsThrough({ total: { lt: 100 } }, { total: JSON.rawJSON("1e2") })).toBe(false);
  });
});

describe("a filter's condition", () => {
  test.each<[unknown, unknown, boolean]>([
    [{ suffix: ".pdf" }, "bill.pdf", true],
    [{ suffix: ".pdf" }, "bill.PDF", false],
    [{ suffix: ".pdf", ignore_case: true }, "bill.PDF", true],
    [{ suffix: "" }, "", true],
    [{ suffix: "a" }, ["a"], false],
    [{ prefix: "Über", ignore_case: true }, "ÜBERWEISUNG", true],
    [{ prefix: "ord", ignore_case: false }, "ORDER", false],
    [{ in: ["eu", "us"] }, "eu", true],
    [{ in: ["eu", "us"] }, "EU", false],
    [{ in: ["eu", "us"], ignore_case: true }, "EU", true],
    [{ in: ["eu", "us"] }, ["asia", "us"], true],
    [{ in: ["eu", "us"], ignore_case: true }, ["asia", "US"], true],
    [{ in: ["eu", "us"] }, [], false],
    [{ in: ["eu", "us"] }, [["us"]], false],
    [{ in: ["eu"] }, { eu: true }, false],
    [{ in: [7, null] }, [1, 7], true],
    [{ in: [7, null] }, null, true],
    [{ in: [7] }, ["7"], false],
    [{ not: { in: ["eu"] } }, ["eu", "us"], false],
    [{ not: { in: ["eu"] } }, undefined, true],
    [{ in: ["straße"], ignore_case: true }, "STRASSE", true],
    [{ in: ["a"] }, [...Array.from({ length: 99 }, () => "b"), "a"], true],
    [{ in: ["a"] }, [...Array.from({ length: 100 }, () => "b"), "a"], false],
  ])("%j of %j: %s", (condition, value, wanted) => {
    expect(eventFilter.safeParse({ a: condition }).success).toBe(true);
    expect(letsThrough({ a: condition }, value === undefined ? {} : { a: value })).toBe(wanted);
  });
});

describe("a filter's meaning", () => {
  const meanings: [filter: unknown, data: unknown, wanted: boolean][] = [
    [{ a: { exists: true } }, { a: null }, true],
    [{ a: { exists: true } }, {}, false],
    [{ a: { exists: false } }, {}, true],
    [{ a: { exists: false } }, { a: 0 }, false],
    [{ a: { gt: 1 } }, { a: 1 }, false],
    [{ a: { gte: 1 } }, { a: 1 }, true],
    [{ a: { lt: 1 } }, { a: 1 }, false],
    [{ a: { lte: 1 } }, { a: 1 }, true],
    [{ a: { lte: 1 } }, { a: 0 }, true],
    [{ a: { lte: 1 } }, { a: 2 }, false],
    [{ a: { lt: 1 } }, { a: "0" }, false],
    [{ a: { lt: 1 } }, {}, false],
    [{ a: { not: { lt: 1 } } }, { a: null }, true],
    [{ "a.b": 1 }, { a: { b: 1 } }, true],
    [{ "a.b": 1 }, { a: [{ b: 1 }] }, false],
    [{ "a.b": 1 }, { a: null }, false],
    [{ "a.b": { exists: true } }, { a: {} }, false],
    [{ toString: { exists: true } }, {}, false],
    [{ "a.rawJSON": { exists: true } }, { a: JSON.rawJSON("1") }, false],
    // Half of a surrogate pair must not be folded: 𐐨 is 𐐀 in upper case.
    [{ a: { prefix: "𐐀", ignore_case: true } }, { a: "𐐨x" }, true],
    [{ a: { suffix: "𐐀", ignore_case: true } }, { a: "x𐐨" }, true],
    [{ a: { suffix: "é" } }, { a: "eé" }, true],
    [{ a: { suffix: "ab" } }, { a: "ab" }, true],
    // ς and σ are one letter, also at the end of a word; ß is SS; the Kelvin sign is a K.
    [{ a: { in: ["ΑΣ"], ignore_case: true } }, { a: "ας" }, true],
    [{ a: { in: ["ß"], ignore_case: true } }, { a: "ss" }, true],
    [{ a: { in: ["k"], ignore_case: true } }, { a: "\u212a" }, true],
  ];

  test("is that of each of these", () => {
    for (const [filter, about, wanted] of meanings) {
      expect(eventFilter.safeParse(filter).success, JSON.stringify(filter)).toBe(true);
      expect(letsThrough(filter, about), JSON.stringify([filter, about])).toBe(wanted);
    }
  });

  const nonsense: [what: string, filter: unknown][] = [
    ["a list of filters under another name than `or`", { c: [{ a: 1 }] }],
    ["a key that may not be in a path, behind one that may", { 'b."c': 1 }],
    ["a denial of nothing", { a: { not: {} } }],
    ["a denial in a denial", { a: { not: { not: 1 } } }],
    ["a list of filters and nonsense", { or: [{ c: 1 }, 7] }],
    ["an `ignore_case` of nothing", { b: { exists: true, ignore_case: true } }],
    ["an `ignore_case` that is neither true nor false", { b: { prefix: "x", ignore_case: 1 } }],
    ["filters four levels deep", { or: [{ or: [{ or: [{ b: 1 }] }] }] }],
  ];

  test("is everything when the filter is invalid", () => {
    for (const [what, filter] of nonsense) {
      expect(eventFilter.safeParse(filter).success, what).toBe(false);
      expect(letsThrough(filter, { a: 1 }), what).toBe(true);
    }
  });
});

describe("a filter that the API refuses", () => {
  const of = (count: number, one: (i: number) => unknown) => Array.from({ length: count }, (_, i) => one(i));
  const conditions = (count: number) =>
    Object.fromEntries(of(count, (i) => [`k${i}`, i]) as [string, number][]);
  const faultsOf = (given: unknown) =>
    (eventFilter.safeParse(given).error?.issues ?? []).map((issue) => [
      issue.path.join("/"),
      issue.code === "invalid_key" ? issue.issues[0]?.message : issue.message,
    ]);

  const faults: [filter: unknown, path: string, message: RegExp][] = [
    [{}, "", /1 to 10 conditions/],
    [conditions(11), "", /1 to 10 conditions/],
    [{ ...conditions(11), k0: {} }, "", /1 to 10 conditions/],
    [7, "", /1 to 10 conditions/],
    [{ or: [conditions(10), conditions(11)] }, "or/1", /1 to 10/],
    [{ or: [{ a: 1 }, 7] }, "or/1", /1 to 10 conditions/],
    [{ or: of(11, () => ({ a: 1 })) }, "or", /1 to 10 filters/],
    [{ or: [{ or: [{ or: [{ a: 1 }] }] }] }, "or/0/or/0/or", /3 levels/],
    [{ a: of(21, (i) => i) }, "a", /1 to 20 values/],
    [{ a: [] }, "a", /1 to 20 values/],
    [{ a: ["x", {}] }, "a/1", /a string of at most 256/],
    [{ a: "x".repeat(257) }, "a", /a string of at most 256/],
    [{ a: "\0" }, "a", /a string of at most 256/],
    [{ a: 2 ** 53 }, "a", /2\^53/],
    [{ a: { gt: 2 ** 53 } }, "a/gt", /a number/],
    [{ a: { gt: "1" } }, "a/gt", /a number/],
    [{ a: { exists: 1 } }, "a/exists", /true or false/],
    [{ a: {} }, "a", /exists, prefix, .*, not$/],
    [{ a: { like: 1 } }, "a", /exists, prefix, .*, not$/],
    [{ a: { not: { not: 1 } } }, "a/not", /exists, prefix, .*, lte$/],
    [{ a: { gt: 1, ignore_case: true } }, "a/ignore_case", /prefix, suffix or in beside it/],
    [{ "a..b": 1 }, "a..b", /keys joined by dots/],
    [{ ["x".repeat(129)]: 1 }, "x".repeat(129), /at most 128 characters/],
  ];

  test("gets an error with the place and the expectation", () => {
    for (const [given, path, message] of faults)
      expect(faultsOf(given)).toEqual([[path, expect.stringMatching(message)]]);
  });

  test("is accepted with each of these one smaller", () => {
    expect(faultsOf(conditions(10))).toEqual([]);
    expect(faultsOf({ or: of(10, () => ({ a: 1 })) })).toEqual([]);
    expect(faultsOf({ or: [{ or: [{ a: 1 }] }] })).toEqual([]);
    expect(faultsOf({ a: of(20, (i) => i) })).toEqual([]);
    expect(faultsOf({ a: ["x".repeat(256), 2 ** 53 - 1, 0.5, true, null] })).toEqual([]);
    expect(faultsOf({ ["x".repeat(128)]: { not: { in: [1] } } })).toEqual([]);
  });

  test("is not counted deeper than its filters may be", () => {
    const deepest = { or: [{ or: of(5, () => conditions(10)) }] };
    expect(faultsOf(deepest)).toEqual([]);
    const tooDeep = { or: [{ or: [{ or: of(6, () => conditions(10)) }] }] };
    expect(faultsOf(tooDeep)).toEqual([["or/0/or/0/or", expect.stringMatching(/3 levels/)]]);
    expect(faultsOf({ ...deepest, a: 1 })).toEqual([["", expect.stringMatching(/50 conditions in all/)]]);
  });
});

describe("a filter with `or`", () => {
  const either = { or: [{ a: 1 }, { b: { gt: 1 } }], c: true };

  test.each<[unknown, boolean]>([
    [{ a: 1, c: true }, true],
    [{ b: 2, c: true }, true],
    [{ a: 1, b: 2 }, false],
    [{ a: 2, b: 1, c: true }, false],
  ])("needs one of its filters and all other conditions (%j: %s)", (about, wanted) => {
    expect(letsThrough(either, about)).toBe(wanted);
  });

  test("is distinguished from a condition on a key of that name", () => {
    expect(letsThrough({ or: "x" }, { or: "x" })).toBe(true);
    expect(letsThrough({ or: ["x", "y"] }, { or: "z" })).toBe(false);
    expect(letsThrough({ "or.a": 1 }, { or: { a: 1 } })).toBe(true);
  });

  function within(depth: number): unknown {
    let filter: unknown = { a: 1 };
    for (let level = 1; level < depth; level++) filter = { or: [filter] };
    return filter;
  }

  test("is refused beyond three levels, and takes everything if it is stored nevertheless", () => {
    expect(eventFilter.safeParse(within(3)).success).toBe(true);
    expect(letsThrough(within(3), { a: 2 })).toBe(false);
    expect(eventFilter.safeParse(within(4)).success).toBe(false);
    expect(eventFilter.safeParse(within(100_000)).success).toBe(false);
    expect(letsThrough(within(4), { a: 2 })).toBe(true);
    expect(letsThrough(within(100_000), {})).toBe(true);
  });

  test("has at most fifty conditions in all", () => {
    const ten = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`k${i}`, i]));
    expect(eventFilter.safeParse({ or: [ten, ten, ten, ten, ten] }).success).toBe(true);
    const over = eventFilter.safeParse({ or: [ten, ten, ten, ten, ten], a: 1 });
    expect(over.error?.issues.map(({ message }) => message)).toEqual([
      "expected at most 50 conditions in all",
    ]);
  });
});

describe("a filter that was edited into nonsense takes everything", () => {
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
    ['{"a":{"suffix":1}}'],
    ['{"a":{"in":"x"}}'],
    ['{"a":{"in":[]}}'],
    ['{"a":{"in":[[1]]}}'],
    ['{"a":{"ignore_case":true}}'],
    ['{"a":{"ignore_case":true,"gt":5}}'],
    ['{"a":{"ignore_case":1,"prefix":"x"}}'],
    ['{"or":[]}'],
    ['{"or":[{}]}'],
    ['{"or":[{"c":1},7]}'],
    ['{"or":[{"c":1},{"a":{"like":"x"}}]}'],
    ['{"or":[{"or":[{"or":[{"c":1}]}]}]}'],
  ])("%s", (text) => {
    expect(aboutNothing.map((data) => letsThrough(JSON.parse(text), data))).toEqual([
      true,
      true,
      true,
      true,
      true,
    ]);
  });

  test("whatever JSON it is, without an error", () => {
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

describe("channels", () => {
  const channel = fc.constantFrom("a", "b", "c", "A", "a.b", "ab");
  const some = fc.uniqueArray(channel, { minLength: 1, maxLength: 4 });
  const own = fc.option(some, { nil: null });
  const posted = fc.option(some, { nil: undefined });

  test("lead to the destinations that have one of them, and to those without any", () => {
    fc.assert(
      fc.property(fc.array(own, { maxLength: 6 }), posted, (each, channels) => {
        const routes = each.map((own, i) => ({
          ...{ destination: `dst_${i}`, types: null, filter: null },
          channels: own,
        }));
        const wanted = routes.filter(
          (route) => route.channels === null || (channels ?? []).some((one) => route.channels?.includes(one)),
        );
        expect(routed(routes, { type: "x", channels, data: () => undefined })).toEqual(
          wanted.map(({ destination }) => destination),
        );
      }),
    );
  });

  test("neither take what type, filter or body refuse, nor refuse what these take if a channel matches", () => {
    const route = fc.record({
      types: fc.constantFrom(null, ["x"], ["y"]),
      channels: own,
      filter: fc.constantFrom(null, { n: 1 }, { n: 2 }),
      takesContent: fc.boolean(),
    });
    fc.assert(
      fc.property(route, posted, fc.boolean(), (route, channels, isContent) => {
        const event = { type: "x", channels, data: () => (isContent ? undefined : { n: 1 }), isContent };
        const without = refusalOf({ ...route, channels: null }, event);
        const doesMatch =
          route.channels === null || (channels ?? []).some((one) => route.channels?.includes(one));
        const refusal = refusalOf(route, event);
        expect(refusal).toBe(doesMatch || without === "type" ? without : "channel");
        expect([undefined, ...refusals]).toContain(refusal);
      }),
    );
  });

  test("of a destination that are stored in another form than the API's count as none", () => {
    const name = fc.oneof(channel, fc.constantFrom("", "a b", "é", "x".repeat(129), "a\n"));
    const stored = fc.oneof(fc.array(fc.oneof(name, fc.anything()), { maxLength: 12 }), fc.anything());
    fc.assert(
      fc.property(fc.oneof(stored, fc.array(channel, { maxLength: 12 })), (stored) => {
        const isValid = channelsSchema.safeParse(stored).success;
        expect(channelsInEffect(stored)).toEqual(isValid ? stored : null);
      }),
    );
  });

  test.each<[unknown, boolean]>([
    [["a"], true],
    [["a", "a"], true],
    [["A-z_0.9", "x".repeat(128)], true],
    [Array.from({ length: 10 }, (_, i) => `c${i}`), true],
    [Array.from({ length: 11 }, (_, i) => `c${i}`), false],
    [[], false],
    [[""], false],
    [["a b"], false],
    [["a\n"], false],
    [["x".repeat(129)], false],
    [["a", 1], false],
    ["a", false],
    [{ 0: "a" }, false],
  ])("%j may be a destination's: %s", (given, may) => {
    expect(channelsSchema.safeParse(given).success).toBe(may);
  });
});

describe("a destination refuses an event", () => {
  const event = { type: "x", data: () => ({ n: 1 }) };
  const route = { types: ["x"], channels: null, filter: { n: 1 } };

  test.each<[string | undefined, object, object]>([
    [undefined, {}, {}],
    ["type", { type: "y" }, { filter: { n: 2 } }],
    ["channel", {}, { channels: ["a"], filter: { n: 2 } }],
    ["filter", {}, { filter: { n: 2 } }],
    [undefined, {}, { filter: null }],
    ["body", { isContent: true }, { filter: { n: 2 } }],
    ["body", { isContent: true }, { takesContent: false }],
    ["body", { isContent: true }, { takesContent: "yes" }],
    [undefined, { isContent: true }, { takesContent: true }],
  ])("because of its %s: %j to %j", (refusal, about, of) => {
    const found = refusalOf({ ...route, ...of }, { ...event, ...about });
    expect(found).toBe(refusal);
    if (found) expect(refusals).toContain(found);
  });
});

test("an invalid list of channels is refused with the expectation", () => {
  const [fault] = channelsSchema.safeParse([]).error?.issues ?? [];
  expect(fault?.message).toMatch(/1 to 10 channels/);
  const [other] = channelsSchema.safeParse(["a b"]).error?.issues ?? [];
  expect(other?.message).toMatch(/1 to 128 letters/);
});

test("data is not read without a filter", () => {
  const routes = [
    { destination: "a", types: null, channels: null, filter: null },
    { destination: "b", types: ["other"], channels: null, filter: { a: 1 } },
    { destination: "c", types: null, channels: ["x"], filter: { a: 1 } },
  ];
  const data = () => {
    throw new Error("looked at");
  };
  expect(routed(routes, { type: "order.paid", data })).toEqual(["a"]);
});

function isFilter(given: unknown): given is EventFilter {
  return eventFilter.safeParse(given).success;
}

test("the example of the API's document takes large paid orders that are not tests", () => {
  const { example } = eventFilter.meta() ?? {};
  const order = (data: object) => ({ order: { status: "paid", total: 100 }, ...data });
  expect(letsThrough(example, order({}))).toBe(true);
  expect(letsThrough(example, order({ test: false }))).toBe(true);
  expect(letsThrough(example, order({ test: true }))).toBe(false);
  expect(letsThrough(example, { order: { status: "refunded", total: 100 } })).toBe(false);
  expect(letsThrough(example, { order: { status: "shipped", total: 99 } })).toBe(false);
});
