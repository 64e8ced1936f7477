import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseRetryAfter } from "../../src/core/retry/retry-after.ts";

const now = Date.UTC(2026, 10, 21, 9, 0, 0);

describe("parseRetryAfter", () => {
  it.each([
    ["0", 0],
    ["1", 1_000],
    ["120", 120_000],
    ["0120", 120_000],
    ["86400", 86_400_000],
  ])("reads delta-seconds %j", (value, delayMs) => {
    expect(parseRetryAfter(value, now)).toBe(now + delayMs);
  });

  it.each([
    ["IMF-fixdate", "Sat, 21 Nov 2026 09:02:00 GMT"],
    ["RFC 850", "Saturday, 21-Nov-26 09:02:00 GMT"],
    ["asctime", "Sat Nov 21 09:02:00 2026"],
  ])("reads the %s form of an HTTP-date", (_, value) => {
    expect(parseRetryAfter(value, now)).toBe(now + 120_000);
  });

  it("reads every month", () => {
    const read = Array.from({ length: 12 }, (_, month) => {
      const at = Date.UTC(2027, month, 1);
      return [parseRetryAfter(new Date(at).toUTCString(), now), at];
    });
    for (const [found, at] of read) expect(found).toBe(at);
  });

  it("reads an asctime day of one digit, padded with a space", () => {
    expect(parseRetryAfter("Tue Dec  1 00:00:00 2026", now)).toBe(Date.UTC(2026, 11, 1));
  });

  it("reads 29 February of a leap year and a leap second", () => {
    expect(parseRetryAfter("Tue, 29 Feb 2028 00:00:00 GMT", now)).toBe(Date.UTC(2028, 1, 29));
    expect(parseRetryAfter("Thu, 31 Dec 2026 23:59:60 GMT", now)).toBe(Date.UTC(2027, 0, 1));
  });

  it.each([
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994",
    "Sat, 21 Nov 2026 08:59:59 GMT",
    "Mon, 01 Jan 1900 00:00:00 GMT",
  ])("takes %j, which is past, as now", (value) => {
    expect(parseRetryAfter(value, now)).toBe(now);
  });

  it("takes a two-digit year as the future until more than 50 years ahead, then as the past", () => {
    expect(parseRetryAfter("Saturday, 21-Nov-76 09:00:00 GMT", now)).toBe(Date.UTC(2076, 10, 21, 9));
    expect(parseRetryAfter("Saturday, 21-Nov-76 09:00:01 GMT", now)).toBe(now);
  });

  it("takes a two-digit year into the next century when that is near", () => {
    const endOfCentury = Date.UTC(2099, 11, 31, 23, 59, 0);
    expect(parseRetryAfter("Friday, 01-Jan-00 00:01:00 GMT", endOfCentury)).toBe(Date.UTC(2100, 0, 1, 0, 1));
  });

  it("believes large values without overflowing", () => {
    expect(parseRetryAfter("1000000000000000000", now)).toBe(Number.MAX_SAFE_INTEGER);
    expect(parseRetryAfter("9".repeat(40), now)).toBe(Number.MAX_SAFE_INTEGER);
    expect(parseRetryAfter("Fri, 31 Dec 9999 23:59:59 GMT", now)).toBe(Date.UTC(9999, 11, 31, 23, 59, 59));
  });

  it.each([
    undefined,
    "",
    " ",
    " 120",
    "120 ",
    "-1",
    "+1",
    "1.5",
    "1e3",
    "0x10",
    "١٢",
    "Infinity",
    "NaN",
    "soon",
    "120s",
    "120, 240",
    "9".repeat(41),
    "2026-11-21T09:02:00Z",
    "1795251720000 GMT",
    "21 Nov 2026 09:02:00 GMT",
    "Sat, 21 Nov 2026 09:02:00",
    "Sat, 21 Nov 2026 09:02:00 UTC",
    "Sat, 21 Nov 2026 09:02:00 +0000",
    "Sat, 21 Nov 2026 09:02 GMT",
    "sat, 21 nov 2026 09:02:00 gmt",
    "Sat, 1 Dec 2026 09:02:00 GMT",
    "Sat, 21 November 2026 09:02:00 GMT",
    "Sat, 31 Feb 2027 00:00:00 GMT",
    "Sat, 29 Feb 2027 00:00:00 GMT",
    "Sat, 00 Dec 2026 00:00:00 GMT",
    "Sat, 32 Dec 2026 00:00:00 GMT",
    "Sat, 21 Nov 2026 24:00:00 GMT",
    "Sat, 21 Nov 2026 09:60:00 GMT",
    "Sat, 21 Nov 2026 09:00:61 GMT",
    "Sat, 21 Nov 0094 09:02:00 GMT",
    "Sun, 31 Dec 1899 23:59:59 GMT",
    "Sat, 21-Nov-26 09:02:00 GMT",
    "Saturday, 21-Nov-2026 09:02:00 GMT",
    "Sat Nov 21 09:02:00 2026 GMT",
    "Tue Dec 1 00:00:00 2026",
    "Sat, 21 Nov 2026 09:02:00 GMT\n",
  ])("takes %j as no value", (value) => {
    expect(parseRetryAfter(value, now)).toBeUndefined();
  });

  it("returns for any text nothing, or a safe whole number that is not before now", () => {
    const digits = fc.bigInt({ min: 0n, max: 10n ** 41n }).map(String);
    fc.assert(
      fc.property(fc.oneof(fc.string(), digits), (value) => {
        const at = parseRetryAfter(value, now);
        if (at !== undefined) expect(Number.isSafeInteger(at) && at >= now).toBe(true);
      }),
      { numRuns: 1000 },
    );
  });

  it("reads back every second of the calendar in the form that servers send", () => {
    const dates = fc.date({ min: new Date(now), max: new Date("9999-12-31T23:59:59Z"), noInvalidDate: true });
    fc.assert(
      fc.property(dates, (date) => {
        const wholeSecond = Math.floor(date.getTime() / 1000) * 1000;
        expect(parseRetryAfter(date.toUTCString(), now)).toBe(wholeSecond);
      }),
    );
  });
});
