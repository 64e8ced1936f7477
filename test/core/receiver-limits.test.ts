import { describe, expect, it } from "vitest";
import { statedLimits } from "../../src/core/retry/retry-after.ts";

const NOW = Date.parse("2026-11-21T09:00:00.000Z");

function stated(headers: Readonly<Record<string, string>>, ok = true) {
  return statedLimits((name) => headers[name] ?? null, ok, NOW);
}

describe("a receiver's headers about its limits", () => {
  it.each([
    ["the RateLimit field", { ratelimit: '"default";r=50;t=30' }, 50, 30_000],
    ["the tightest of several policies", { ratelimit: '"burst";r=9;t=1, "day";r=4;t=3600' }, 4, 3_600_000],
    ["the older RateLimit- fields", { "ratelimit-remaining": "3", "ratelimit-reset": "20" }, 3, 20_000],
    [
      "the customary X-RateLimit- fields",
      { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "5" },
      0,
      5_000,
    ],
    [
      "a reset that is a point in time",
      { "x-ratelimit-remaining": "1", "x-ratelimit-reset": String(NOW / 1000 + 60) },
      1,
      60_000,
    ],
    [
      "the customary fields where the newer ones have no reset",
      { "ratelimit-remaining": "9", "x-ratelimit-remaining": "2", "x-ratelimit-reset": "5" },
      2,
      5_000,
    ],
    [
      "the older fields where the newer one says only a half",
      { ratelimit: '"a";r=9, "b";t=9', "ratelimit-remaining": "2", "ratelimit-reset": "5" },
      2,
      5_000,
    ],
    ["a Retry-After on a success", { "retry-after": "7" }, 0, 7_000],
  ])("reads %s", (_, headers, remaining, inMs) => {
    expect(stated(headers)).toEqual({ remaining, resetAt: NOW + inMs });
  });

  it("believes a reset for an hour at most", () => {
    expect(stated({ ratelimit: '"x";r=0;t=9999999999' })?.resetAt).toBe(NOW + 3_600_000);
  });

  it("leave the Retry-After of a refusal to the retry policy", () => {
    expect(stated({ "retry-after": "7" }, false)).toBeUndefined();
  });

  it.each([
    ["nothing", {}],
    ["a remaining number without a reset", { "x-ratelimit-remaining": "3" }],
    ["negative numbers", { "x-ratelimit-remaining": "-3", "x-ratelimit-reset": "-1" }],
    ["garbage", { ratelimit: "r=;t=x, 💥", "ratelimit-remaining": "many", "ratelimit-reset": "soon" }],
    ["numbers longer than any", { "x-ratelimit-remaining": "9".repeat(40), "x-ratelimit-reset": "10" }],
    ["a reset of long ago", { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1000000000" }],
    ["a reset that has come", { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "0" }],
  ])("takes %s for no advice", (_, headers) => {
    expect(stated(headers)).toBeUndefined();
  });
});
