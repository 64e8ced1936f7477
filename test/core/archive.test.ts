/** The names of archived exchanges, and whose an object is. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  ARCHIVE,
  archiveNameOf,
  encodings,
  eventIn,
  exchangeIn,
  MOST_BODY_BYTES,
  MOST_EVENT,
  MOST_OBJECT_BYTES,
  nameBehind,
} from "../../src/core/archive.ts";

const event = fc.oneof(fc.nat(), fc.constantFrom(0, 9, 10, MOST_EVENT - 1, MOST_EVENT));
const key = fc.record({ event, destination: fc.constantFrom("dst_a", "dst_zzz", "~"), at: fc.nat(2 ** 41) });

describe("the names of exchanges", () => {
  test("contain the ids of their events, and sort by them", () => {
    fc.assert(
      fc.property(key, key, (one, other) => {
        const [name, next] = [archiveNameOf(one), archiveNameOf(other)];
        expect(name.startsWith(ARCHIVE)).toBe(true);
        expect(eventIn(name)).toBe(one.event);
        if (one.event < other.event) expect(name < next).toBe(true);
      }),
    );
  });

  test("are different for each attempt of an event", () => {
    const names = [1, 12].flatMap((at) =>
      ["a", "b"].map((destination) => archiveNameOf({ event: 7, destination, at })),
    );
    expect(new Set(names).size).toBe(4);
  });

  test("of earlier events come before an event's, and those of later events after it", () => {
    fc.assert(
      fc.property(event, fc.constantFrom("dst_a", "dst_zzz"), fc.nat(), (one, destination, at) => {
        expect(archiveNameOf({ event: one, destination, at }) < nameBehind(one)).toBe(true);
        if (one < MOST_EVENT)
          expect(nameBehind(one) < archiveNameOf({ event: one + 1, destination: "a", at: 0 })).toBe(true);
      }),
    );
  });

  test("are different from those of other objects in the bucket", () => {
    const name = archiveNameOf({ event: 7, destination: "dst_a", at: 1 });
    for (const other of [
      "",
      "attempts/7/dst_a/1",
      `x${name}`,
      name.slice(0, -8),
      name.replace("attempts", "other"),
    ])
      expect(eventIn(other), other).toBeUndefined();
  });
});

describe("an archived exchange", () => {
  const archived = {
    version: 1,
    tenant: "acme",
    destination: "dst_a",
    at: 5,
    request: { url: "https://a.example", headers: { a: "b" }, form: { body: "data", template: null } },
    response: { status: 500, headers: {}, encoding: "utf-8", body: "no", cut: false },
  };
  const found = (given: unknown, tenant = "acme", destination = "dst_a", at = 5) =>
    exchangeIn(
      typeof given === "string" ? given : JSON.stringify(given),
      { event: 7, destination, at },
      tenant,
    );

  test("belongs to the attempt that it names", () => {
    expect(found(archived)).toEqual(archived);
    expect(found(archived, "globex")).toBeUndefined();
    expect(found(archived, "acme", "dst_b")).toBeUndefined();
    expect(found(archived, "acme", "dst_a", 6)).toBeUndefined();
  });

  test("may have no response, and bytes that are not text", () => {
    const { response, ...without } = archived;
    expect(found(without)).toEqual(without);
    for (const encoding of encodings)
      expect(found({ ...without, response: { ...response, encoding } })).toBeDefined();
    expect(encodings).toContain("base64");
    expect(encodings).toContain("utf-8");
  });

  test("is ignored when it cannot be read", () => {
    const broken = ["", "{", "null", { ...archived, version: 2 }, { ...archived, request: undefined }];
    expect(broken.map((one) => found(one))).toEqual(broken.map(() => undefined));
  });

  test("is never larger than the limit for reading one, however much its body is escaped", () => {
    const body = "\u0001".repeat(MOST_BODY_BYTES);
    const headers = { long: "x".repeat(100_000) };
    const largest = JSON.stringify({ ...archived, response: { ...archived.response, headers, body } });
    expect(largest.length).toBeLessThan(MOST_OBJECT_BYTES);
  });
});
