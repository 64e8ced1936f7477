/** A filter is validated when it is set, and decides from then on which events its destination gets. */
import { beforeEach, describe, expect, it } from "vitest";
import { emptyDatabase, testApi } from "../../support/api.ts";

const url = "https://example.com/hook";

beforeEach(emptyDatabase);

describe("a destination's filter", () => {
  it("decides which events it gets, and is removed with null", async () => {
    const { call } = testApi();
    const filter = { "order.total": { gte: 100 }, "order.status": ["paid", "shipped"] };
    const { json } = await call("POST", "/v1/destinations", { url, filter });
    expect(json.filter).toEqual(filter);
    const orders = [
      { total: 100, status: "paid" },
      { total: 99.5, status: "paid" },
      { total: "100", status: "paid" },
      { total: 100, status: "open" },
      { status: "paid" },
    ];
    const events = orders.map((order) => ({ type: "order.changed", data: { order } }));
    const planned = async () => {
      const { json } = await call("POST", "/v1/events/batch", { events });
      return json.events.map(({ deliveries }: { deliveries: unknown[] }) => deliveries.length);
    };
    expect(await planned()).toEqual([1, 0, 0, 0, 0]);
    const patched = await call("PATCH", `/v1/destinations/${json.id}`, { filter: null });
    expect(patched.json.filter).toBeNull();
    expect(await planned()).toEqual([1, 1, 1, 1, 1]);
  });

  it.each<[unknown, string, string]>([
    [{}, "filter", "an object of 1 to 10 conditions by their paths"],
    [[], "filter", "an object of 1 to 10 conditions by their paths"],
    ["a = 1", "filter", "an object of 1 to 10 conditions by their paths"],
    [{ "a..b": 1 }, "filter.a..b", "keys joined by dots"],
    [{ 'a"b': 1 }, 'filter.a"b', "keys joined by dots"],
    [{ a: [] }, "filter.a", "a list of 1 to 20 values"],
    [{ a: [1, [2]] }, "filter.a[1]", "a string of at most 256 characters, a number"],
    [{ a: "x".repeat(257) }, "filter.a", "a string of at most 256 characters"],
    [{ a: 2 ** 53 }, "filter.a", "a number up to 2^53"],
    [{ a: {} }, "filter.a", "an object of exists, prefix, suffix, in, ignore_case, gt, gte, lt, lte, not"],
    [
      { a: { like: "x" } },
      "filter.a.like",
      "one of exists, prefix, suffix, in, ignore_case, gt, gte, lt, lte, not",
    ],
    [{ a: { gt: "5" } }, "filter.a.gt", "a number up to 2^53"],
    [{ a: { exists: 1 } }, "filter.a.exists", "true or false"],
    [
      { a: { not: { not: 1 } } },
      "filter.a.not.not",
      "one of exists, prefix, suffix, in, ignore_case, gt, gte, lt, lte",
    ],
    [{ a: { in: "x" } }, "filter.a.in", "a list of 1 to 20 values"],
    [{ a: { in: [1, {}] } }, "filter.a.in[1]", "a string of at most 256 characters, a number"],
    [{ a: { suffix: 1 } }, "filter.a.suffix", "a string of at most 256 characters"],
    [{ a: { gt: 1, ignore_case: true } }, "filter.a.ignore_case", "prefix, suffix or in beside it"],
    [{ or: [] }, "filter.or", "a list of 1 to 20 values"],
    [{ or: [{ a: 1 }, {}] }, "filter.or[1]", "an object of 1 to 10 conditions by their paths"],
    [{ or: [{ a: 1 }, "b"] }, "filter.or[1]", "an object of 1 to 10 conditions by their paths"],
    [{ or: [{ a: { gt: "5" } }] }, "filter.or[0].a.gt", "a number up to 2^53"],
    [{ or: [{ "a..b": 1 }] }, "filter.or[0].a..b", "keys joined by dots"],
    [{ or: Array(11).fill({ a: 1 }) }, "filter.or", "a list of 1 to 10 filters"],
    [{ or: [{ or: [{ or: [{ a: 1 }] }] }] }, "filter.or[0].or[0].or", "no `or` here"],
    [{ a: [{ b: 1 }] }, "filter.a[0]", "a string of at most 256 characters, a number"],
  ])("is refused when it is %j, with the field at fault", async (filter, field, expected) => {
    const { status, json } = await testApi().call("POST", "/v1/destinations", { url, filter });
    expect(status).toBe(422);
    expect(json.errors).toEqual([
      { field, fault: expect.any(String), expected: expect.stringContaining(expected) },
    ]);
  });

  it("is refused with all of its errors at once", async () => {
    const filter = { a: { gt: "5", like: 1 }, b: [[]], c: 1 };
    const { json } = await testApi().call("POST", "/v1/destinations", { url, filter });
    const fields = json.errors.map(({ field }: { field: string }) => field).sort();
    expect(fields).toEqual(["filter.a.gt", "filter.a.like", "filter.b[0]"]);
  });
});
