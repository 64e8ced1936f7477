/** The stored and sent forms of an event's content. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bodyFormOf, bodyForms, Content, dataIn, envelopeOf } from "../../src/core/content.ts";

const utf8 = new TextEncoder();

describe("the data in an envelope", () => {
  test("is found by its bytes, whatever the data contains", () => {
    // The API takes no other types.
    const type = fc.stringMatching(/^[A-Za-z0-9_.-]{1,20}$/);
    fc.assert(
      fc.property(type, fc.jsonValue(), (type, data) => {
        const envelope = utf8.encode(envelopeOf(type, "2026-11-21T09:00:00.000Z", data));
        expect(new TextDecoder().decode(dataIn(envelope, type))).toBe(JSON.stringify(data));
      }),
    );
  });

  test("does not begin before the end of its timestamp", () => {
    const envelope = utf8.encode(envelopeOf("a", "2026-11-21T09:00:00Z", [1]));
    expect(new TextDecoder().decode(dataIn(envelope, "a"))).toBe("[1]");
  });
});

test("an unknown stored form counts as the envelope", () => {
  for (const form of bodyForms) expect(bodyFormOf(form)).toBe(form);
  expect(bodyForms).toContain("data");
  expect(["", null, undefined, "Data", 1].map(bodyFormOf)).toEqual(Array(5).fill("envelope"));
});

test("content of its own type keeps its type and its bytes", () => {
  const content = new Content("text/csv; charset=utf-8", Uint8Array.of(0, 255, 97));
  expect(content.type).toBe("text/csv; charset=utf-8");
  expect(content.bytes).toEqual(Uint8Array.of(0, 255, 97));
});
