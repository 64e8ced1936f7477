/** Which version of its type an endpoint gets, and how data is converted down to it. */
import { describe, expect, test } from "vitest";
import { eventAt, headerAt, storedHeader } from "../../src/core/bundle.ts";
import { type Converted, convertedTo, newestAt, versionFor } from "../../src/core/event-versions.ts";

const version = { version: 3, since: 300 };
const event = { id: eventAt(10, 0), acceptedAt: 1_000, type: "order.paid", version };
const pin = (after: number, pins: Record<string, number>) => ({ after, at: after, pins });

test.each([
  ["the newest at its creation", 300, null, 3],
  ["as it was created before the newest", 299, null, "as_created"],
  ["the pinned one", 0, [pin(-1, { "order.paid": 2 })], 2],
  ["the event's, where it is pinned to a newer one", 0, [pin(-1, { "order.paid": 9 })], 3],
  ["as it was created, pinned for other types", 0, [pin(-1, { constructor: 1 })], "as_created"],
  ["the one pinned before the event", 0, [pin(-1, { "order.paid": 1 }), pin(10, { "order.paid": 2 })], 1],
  ["the last one pinned before the event", 0, [pin(-1, { "order.paid": 1 }), pin(9, { "order.paid": 2 })], 2],
  ["its first pin is later", 300, [pin(10, { "order.paid": 1 })], 3],
  ["unpinned again", 300, [pin(-1, { "order.paid": 1 }), pin(9, {})], 3],
  ["pinned by a version that writes more", 0, [{ ...pin(-1, { "order.paid": 2 }), by: "key_a" }], 2],
  ["edited into something else", 300, [{ after: "x" }], "unreadable"],
  ["pinned after half a bundle", 300, [pin(0.5, { "order.paid": 2 })], "unreadable"],
  ["pinned to half a version", 300, [pin(-1, { "order.paid": 1.5 })], "unreadable"],
  ["edited into something else than a list", 300, {}, "unreadable"],
] as const)("an endpoint gets: %s", (_, createdAt, eventVersions, expected) => {
  expect(versionFor(event, { createdAt, eventVersions })).toBe(expected);
});

test("a type called like a property of every object is pinned like any other", () => {
  const one = { ...event, type: "constructor" };
  expect(versionFor(one, { createdAt: 0, eventVersions: [pin(-1, { "order.paid": 1 })] })).toBe("as_created");
  expect(versionFor(one, { createdAt: 0, eventVersions: [pin(-1, { constructor: 2 })] })).toBe(2);
});

test.each([
  [99, 1],
  [100, 2],
  [299, 2],
  [300, 3],
])("the newest version at %i is %i", (at, expected) => {
  const published = [0, 100, 300].map((publishedAt, i) => ({ version: i + 1, publishedAt, conversions: [] }));
  expect(newestAt(published, at)).toBe(expected);
});

describe("a conversion", () => {
  const apply = (template: string, data: unknown): Converted => {
    if (template === "drop") return { kind: "cancelled" };
    if (template === "fail") return { kind: "fault", fault: { field: "body", fault: "fails", line: 2 } };
    return { kind: "data", data: `${String(data)}>${template}` };
  };
  const saved = (...templates: [after: number, template: string][]) =>
    templates.map(([after, template]) => ({ after, at: after, template }));
  const to = (target: number, second: unknown, third: unknown) => {
    const published = [[], second, third].map((conversions, i) => ({
      version: i + 1,
      publishedAt: i,
      conversions,
    }));
    return convertedTo(target, { ...event, data: "x" }, published, apply);
  };

  test("goes down version by version, and does nothing for the same version", () => {
    expect(to(3, saved([-1, "b"]), saved([-1, "c"]))).toEqual({ kind: "data", data: "x" });
    expect(to(2, saved([-1, "b"]), saved([-1, "c"]))).toEqual({ kind: "data", data: "x>c" });
    expect(to(1, saved([-1, "b"]), saved([-1, "c"]))).toEqual({ kind: "data", data: "x>c>b" });
  });

  test("is the one that was saved last before the event", () => {
    expect(to(2, [], saved([-1, "a"], [9, "b"], [10, "c"]))).toEqual({ kind: "data", data: "x>b" });
  });

  test("that fails is replaced by the next one that does not", () => {
    expect(to(2, [], saved([-1, "a"], [9, "fail"], [10, "fail"], [11, "d"]))).toEqual({
      kind: "data",
      data: "x>d",
    });
  });

  test("that fails reports the type, both versions and the place", () => {
    expect(to(1, saved([-1, "fail"]), saved([-1, "c"]))).toEqual({
      kind: "fault",
      fault: { field: "conversion of order.paid from version 2 to 1, body", fault: "fails", line: 2 },
    });
  });

  test.each([[undefined], ["x"], [[{}]]])("that is stored as %j fails", (stored) => {
    const field = "conversion of order.paid from version 3 to 2, conversion";
    expect(to(2, [], stored)).toEqual({ kind: "fault", fault: { field, fault: "is not stored" } });
  });

  test("that a newer version of Breakwater has stored with more fields is read", () => {
    const stored = saved([-1, "c"]).map((one) => ({ ...one, by: "key_a" }));
    expect(to(2, [], stored)).toEqual({ kind: "data", data: "x>c" });
  });

  test("may leave the event out", () => {
    expect(to(1, saved([-1, "b"]), saved([-1, "drop"]))).toEqual({ kind: "cancelled" });
  });
});

test("a header has the versions of events that have one, and a mark that keeps older code from delivering it", () => {
  const plain = { tenant: "acme", type: "a", bytes: 1 };
  const header = storedHeader([plain, { ...plain, version }, plain, { ...plain, version }], {
    encoding: "plain",
  });
  expect(header).toMatchObject({ version: 4, versions: [[3, 300, 1, 1, 3, 3]] });
  expect([0, 1, 2, 3].map((i) => headerAt(header, i)?.version)).toEqual([
    undefined,
    version,
    undefined,
    version,
  ]);
  expect(storedHeader([plain], { encoding: "plain" })).toMatchObject({ version: 1 });
  expect(storedHeader([plain], { encoding: "plain" })).not.toHaveProperty("versions");
});
