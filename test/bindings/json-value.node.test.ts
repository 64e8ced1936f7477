/** Values of other Workers as JSON: what JSON would drop or change in silence is refused, with its place. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { jsonTextOf, parseWithBigInts } from "../../src/bindings/json-value.ts";

const LARGE = 1_000_000;

const nested = (levels: number): unknown =>
  Array.from({ length: levels }).reduce<unknown>((inner) => [inner], 1);

/** Each level refers twice to the next: with so many, more values than could ever be visited. */
function doubled(levels: number): unknown {
  let value: unknown = "x";
  for (let i = 0; i < levels; i++) value = { a: value, b: value };
  return value;
}

function circular(): unknown {
  const value: Record<string, unknown> = {};
  value.self = value;
  return value;
}

test("a JSON value becomes the text that JSON.stringify makes of it, and its bytes are counted", () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: "binary" }), (value) => {
      const text = JSON.stringify(value);
      const bytes = new TextEncoder().encode(text).byteLength;
      expect(jsonTextOf(value, bytes)).toEqual({ kind: "text", text, bytes });
      expect(jsonTextOf(value, bytes - 1)).toEqual({ kind: "too_large" });
    }),
  );
});

test.each([
  ["a Date", { at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
  ["a bigint, with every digit", { id: 12345678901234567890n }, '{"id":12345678901234567890}'],
  ["a field that is undefined, which is left out", { a: 1, b: undefined }, '{"a":1}'],
  ["an object without a prototype", Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
  ["a field named __proto__", JSON.parse('{"__proto__":{"a":1}}'), '{"__proto__":{"a":1}}'],
])("%s has a form in JSON", (_what, value, text) => {
  expect(jsonTextOf(value, LARGE)).toMatchObject({ kind: "text", text });
});

describe("a value without a form in JSON is refused with its place:", () => {
  test.each([
    ["NaN", { data: [1, Number.NaN] }, "data[1]", "is NaN"],
    ["Infinity", { data: Number.POSITIVE_INFINITY }, "data", "is Infinity"],
    ["a Map", { data: { by: new Map([["a", 1]]) } }, "data.by", "is of the class Map"],
    ["a Set", { data: new Set() }, "data", "is of the class Set"],
    ["bytes", { data: new Uint8Array(2) }, "data", "is of the class Uint8Array"],
    ["a function", { data: { toJSON: () => 1 } }, "data.toJSON", "is a function"],
    ["a gap in a list", { data: [1, undefined] }, "data[1]", "is undefined"],
    ["a Date without a time", { data: new Date("no time") }, "data", "is a Date without a time"],
    ["an error", { data: new TypeError("x") }, "data", "is of the class TypeError"],
    ["nothing", undefined, "body", "is undefined"],
  ])("%s", (_what, value, field, fault) => {
    expect(jsonTextOf(value, LARGE)).toMatchObject({ kind: "fault", error: { field, fault } });
  });
});

test("at most five hundred levels are accepted, as over HTTP", () => {
  expect(jsonTextOf(nested(500), LARGE).kind).toBe("text");
  expect(jsonTextOf(nested(501), LARGE).kind).toBe("too_deep");
});

test.each([
  ["that refers to itself", circular(), "too_deep"],
  ["that refers to one object 2^400 times", doubled(400), "too_large"],
])("a value %s is refused, and no more of it visited than fits", (_what, value, kind) => {
  expect(jsonTextOf(value, LARGE).kind).toBe(kind);
});

test("whole numbers survive a round trip, however many digits they have", () => {
  fc.assert(
    fc.property(fc.bigInt(), (id) => {
      const json = jsonTextOf({ id }, LARGE);
      const read = parseWithBigInts(json.kind === "text" ? json.text : "") as { id: bigint | number };
      expect(BigInt(read.id)).toBe(id);
    }),
  );
});
