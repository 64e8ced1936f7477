/** The services of every invocation, as the Worker's handlers get them. */
import { env } from "cloudflare:workers";
import { afterEach, expect, test, vi } from "vitest";
import { servicesOf } from "../src/services.ts";
import { interceptedD1 } from "./support/intercept.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

/** The services of an invocation, and the work behind it. */
function invocation(bindings: object = {}) {
  const behind: Promise<unknown>[] = [];
  const services = servicesOf({ ...env, ...bindings } as Env, {
    waitUntil: (work: Promise<unknown>) => void behind.push(work),
  });
  return { services, behind };
}

test("an invocation repeats reads from a database whose connection is lost, and logs that once", async () => {
  const lines = vi.spyOn(console, "log").mockImplementation(() => {});
  const wait = vi.spyOn(globalThis, "setTimeout").mockImplementation(((wake: () => void) => {
    wake();
    return 0;
  }) as unknown as typeof setTimeout);
  let calls = 0;
  const DB = interceptedD1(env.DB, (_, work) => {
    calls += 1;
    if (calls === 1) throw new Error("D1_ERROR: Network connection lost.");
    return work();
  });
  const { services } = invocation({ DB });
  expect(await services.db.prepare("SELECT 1 AS one").first("one")).toBe(1);
  expect(calls).toBe(2);
  expect(wait).toHaveBeenCalledTimes(1);
  expect(lines.mock.calls.map(([line]) => JSON.parse(String(line)))).toEqual([
    {
      what: "query_repeated",
      statement: "SELECT 1 AS one",
      error: "Error: D1_ERROR: Network connection lost.",
    },
  ]);
});

test("an invocation that logs more than the platform takes ends with the number of omitted lines", async () => {
  const lines = vi.spyOn(console, "log").mockImplementation(() => {});
  const { services, behind } = invocation();
  for (let i = 0; i < 1_000; i++) services.log({ what: "attempt", fault: "x".repeat(400) });
  const written = lines.mock.calls.length;
  expect(written).toBeLessThan(1_000);
  services.background(Promise.resolve());
  await Promise.all(behind);
  expect(lines.mock.calls.slice(written).map(([line]) => JSON.parse(String(line)))).toEqual([
    { what: "lines_omitted", lines: 1_000 - written },
  ]);
});
