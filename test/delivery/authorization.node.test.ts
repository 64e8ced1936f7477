/** What is shown of the headers that a destination's owner has set. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { maskedHeaders, withoutValues } from "../../src/delivery/authorization.ts";

test("own headers are masked whatever the spelling of their names, and ours are shown", () => {
  const headers = { "webhook-id": "evt_1", "x-api-key": "k1" };
  expect(maskedHeaders(headers, { "X-Api-Key": "k1" })).toEqual({
    "webhook-id": "evt_1",
    "x-api-key": "***",
  });
});

describe("what a receiver repeats of the headers", () => {
  const secret = "s3cr3t-v4lu3";

  test.each([
    [`no: ${secret}`, "no: ***"],
    [`${secret} ${secret}!`, "*** ***!"],
    ["no: s3cr3t-v4", "no: ***"],
    ["no: s3cr", "no: ***"],
    ["no: s3c", "no: s3c"],
    ["s3cr3t is not it", "s3cr3t is not it"],
    ["", ""],
  ])("is masked: %j", (text, shown) => {
    expect(withoutValues(text, [secret, "another"])).toBe(shown);
  });

  test("is left where a value is too short to be told from ordinary text", () => {
    expect(withoutValues("a team of a b", ["a b", "team"])).toBe("a team of a b");
  });

  test("is never there whole", () => {
    const values = fc.array(fc.string({ minLength: 8, maxLength: 12 }), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(values, fc.array(fc.string({ maxLength: 9 })), fc.nat(60), (secrets, between, length) => {
        const text = between.map((part, i) => part + (secrets[i % secrets.length] ?? "")).join("");
        const shown = withoutValues(text.slice(0, length), secrets);
        for (const each of secrets.filter((one) => !"***".includes(one)))
          expect(shown.includes(each)).toBe(false);
      }),
    );
  });
});
