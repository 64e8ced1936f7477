/** The filter in SQL says what a filter of ten lines says, and a broken one takes everything. */
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type EventFilter, eventFilter } from "../../src/policy/event-filter.ts";
import { letsThrough } from "../../src/store/event-filter.ts";

/** What a filter means. */
function isWanted(filter: EventFilter, data: unknown): boolean {
  return Object.entries(filter).every(([path, condition]) =>
    meets(valueAt(data, path.split(".")), condition),
  );
}

function meets(value: unknown, condition: unknown): boolean {
  if (Array.isArray(condition)) return condition.includes(value);
  if (typeof condition !== "object" || condition === null) return value === condition;
  return Object.entries(condition).every(([operator, operand]) =>
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

/** What D1 says, for many at once; a filter is given as the column's text. */
async function ask(cases: readonly (readonly [filter: string, data: unknown])[]): Promise<boolean[]> {
  const given = cases.map(([filter, data]) => ({ filter, body: JSON.stringify({ type: "a", data }) }));
  const sql = `SELECT ${letsThrough("g.value ->> 'filter'", "g.value ->> 'body'")} AS wanted FROM json_each(?1) g ORDER BY g.id`;
  const { results } = await env.DB.prepare(sql).bind(JSON.stringify(given)).all<{ wanted: number }>();
  return results.map(({ wanted }) => wanted === 1);
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
const condition = fc.oneof(
  value,
  values,
  someOf({ ...comparisons, not: denied }),
  fc.record({ not: denied }),
);
const filter = fc.dictionary(path, condition, { minKeys: 1, maxKeys: 3 });
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
  test("means the same in SQL as in a few lines of code", async () => {
    const cases = fc.array(fc.tuple(filter, data), { minLength: 50, maxLength: 50 });
    let wanted = 0;
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(cases, async (given) => {
        for (const [one] of given) expect(eventFilter.safeParse(one).success).toBe(true);
        const said = await ask(given.map(([one, about]) => [JSON.stringify(one), about]));
        const meant = given.map(([one, about]) => isWanted(one as EventFilter, about));
        for (const yes of meant) yes ? wanted++ : refused++;
        expect(given.filter((_, i) => said[i] !== meant[i])).toEqual([]);
      }),
      { numRuns: 60 },
    );
    // Of 3,000 about a tenth is wanted: fewer than a thirtieth, and it would hardly have been tried.
    expect(Math.min(wanted, refused)).toBeGreaterThan(100);
  });

  test("of one condition on what is there means the same too", async () => {
    const cases = fc.array(fc.tuple(condition, data), { minLength: 50, maxLength: 50 });
    await fc.assert(
      fc.asyncProperty(cases, async (given) => {
        const asked = given.map(([one, about]) => [{ a: one }, { a: about }] as const);
        const said = await ask(asked.map(([one, about]) => [JSON.stringify(one), about]));
        const wrong = asked.filter(([one, about], i) => said[i] !== isWanted(one as EventFilter, about));
        expect(wrong).toEqual([]);
      }),
      { numRuns: 60 },
    );
  });

  test("tells whole numbers apart that JavaScript cannot", async () => {
    const body = { filter: '{"id":9007199254740991}', body: '{"data":{"id":9007199254740993}}' };
    const sql = `SELECT ${letsThrough("?1", "?2")} AS wanted`;
    const wanted = (text: string) => env.DB.prepare(sql).bind(body.filter, text).first("wanted");
    expect(await wanted(body.body)).toBe(0);
    expect(await wanted('{"data":{"id":9007199254740991}}')).toBe(1);
    expect(await wanted('{"data":{"id":12345678901234567890123}}')).toBe(0);
    expect(await wanted('{"data":{"id":1e400}}')).toBe(0);
  });
});

describe("a filter that a person has edited into nonsense takes everything", () => {
  const aboutNothing = [{}, { a: 1 }, null, [1], "a"];

  test.each([
    ["{not json"],
    [""],
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
  ])("%s", async (text) => {
    expect(await ask(aboutNothing.map((data) => [text, data]))).toEqual(aboutNothing.map(() => true));
  });

  test("whatever JSON it is, and without an error", async () => {
    const anyKey = fc.oneof(key, fc.constantFrom(...Object.keys(operators)), fc.string({ maxLength: 3 }));
    const { junk } = fc.letrec((tie) => ({
      junk: fc.oneof(
        { maxDepth: 3 },
        value,
        fc.array(tie("junk"), { maxLength: 2 }),
        fc.dictionary(anyKey, tie("junk"), { maxKeys: 3 }),
      ),
    }));
    const cases = fc.array(fc.tuple(fc.dictionary(anyKey, junk, { maxKeys: 3 }), data), {
      minLength: 50,
      maxLength: 50,
    });
    await fc.assert(
      fc.asyncProperty(cases, async (given) => {
        const said = await ask(given.map(([one, about]) => [JSON.stringify(one), about]));
        const meant = given.map(([one, about]) => !isFilter(one) || isWanted(one, about));
        expect(given.filter((_, i) => said[i] !== meant[i])).toEqual([]);
      }),
      { numRuns: 60 },
    );
  });
});

function isFilter(given: unknown): given is EventFilter {
  return eventFilter.safeParse(given).success;
}
