/** During a temporary failure of D1, requests are answered with a time to retry, and nothing is half done. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { scopes } from "../../src/core/scopes.ts";
import type { Services } from "../../src/services.ts";
import { emptyDatabase, KEY, testApi } from "../support/api.ts";
import { testDashboard } from "../support/dashboard.ts";
import { meteredD1 } from "../support/meter.ts";
import { bodyFor, operations, pathWithQuery, type Things, thingsOf } from "../support/operations.ts";

const MESSAGES = [
  "D1_ERROR: D1 DB is overloaded. Requests queued for too long.",
  "D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset.",
  "D1_ERROR: Network connection lost.",
  "D1_ERROR: Cannot resolve D1 DB due to transient issue on remote node.",
  "D1_ERROR: Internal error in D1 DB storage caused object to be reset.",
  "D1_ERROR: D1 DB reset because its code was updated.",
];

beforeEach(emptyDatabase);

/** D1 whose n-th round trip from now fails with that message, before or after it has done its work. */
function fragileD1() {
  const { db, failing } = meteredD1(env.DB);
  let trips = 0;
  return {
    db,
    trips: () => trips,
    failAt: (n: number, fault: "before" | "after", message: string) => {
      trips = 0;
      failing(() => {
        trips += 1;
        if (trips !== n) return undefined;
        if (fault === "before") throw new Error(message);
        return fault;
      });
    },
    failAlways: (message: string) =>
      failing(() => {
        throw new Error(message);
      }),
    heal: () => failing(() => undefined),
  };
}

/** Pauses are over at once, and no timeout ever comes. */
const sleep: Services["sleep"] = (_ms, signal) => (signal ? new Promise(() => {}) : Promise.resolve());

const fetch = async () => new Response(null, { status: 204 });

describe("every operation", () => {
  // A stream does not end before its time: delivery-tail.test.ts.
  const answering = operations.filter(({ path }) => path !== "/v1/deliveries/tail");
  const named = answering.map((one) => [`${one.method} ${one.path}`, one] as const);

  test.each(
    named,
  )("%s answers 503 with Retry-After whichever of its queries is interrupted", async (_, described) => {
    const d1 = fragileD1();
    const behind: Promise<unknown>[] = [];
    // A failure after an answer is left to the cron.
    const background = (work: Promise<unknown>) => void behind.push(work.catch(() => {}));
    const services = { gates: env.GATES, fetch, db: d1.db, sleep, background };
    const { call } = testApi({ authenticate: async () => ({ scopes }), services });
    const things: Things = await thingsOf(call, "acme");
    const answers: number[] = [];
    for (const fault of ["before", "after"] as const) {
      for (let n = 1; n <= 12; n++) {
        const message = MESSAGES[n % MESSAGES.length] as string;
        d1.failAt(n, fault, message);
        const { method, path } = described;
        const { status, headers, text } = await call(
          method,
          pathWithQuery(path, things),
          bodyFor(described, things),
        );
        await Promise.all(behind.splice(0));
        answers.push(status);
        expect(status, text).not.toBe(500);
        if (status === 503) {
          expect(headers.get("retry-after")).toBe("5");
          expect(text).not.toContain("D1");
        }
        if (d1.trips() < n) break;
      }
    }
    expect(answers).toContain(503);
  });
});

describe("an event that is posted", () => {
  test.each(
    MESSAGES,
  )("while every query fails is 503 with Retry-After, and nothing is stored: %s", async (message) => {
    const d1 = fragileD1();
    const { call } = testApi({ services: { db: d1.db, sleep } });
    d1.failAlways(message);
    for (const path of ["/v1/events", "/v1/events/batch"]) {
      const event = { type: "a", data: 1 };
      const { status, headers } = await call(
        "POST",
        path,
        path.endsWith("batch") ? { events: [event] } : event,
      );
      expect([status, headers.get("retry-after")]).toEqual([503, "5"]);
    }
    d1.heal();
    expect(await env.DB.prepare("SELECT count(*) AS n FROM events").first("n")).toBe(0);
  });

  test.each(
    MESSAGES,
  )("is stored once with its key, whichever query fails, before or after its work: %s", async (message) => {
    for (const fault of ["before", "after"] as const) {
      for (let n = 1; n <= 6; n++) {
        const d1 = fragileD1();
        const { call } = testApi({ services: { db: d1.db, sleep } });
        d1.failAt(n, fault, message);
        const key = { "idempotency-key": `${fault} ${n}` };
        const first = await call("POST", "/v1/events", { type: `${fault}_${n}`, data: 1 }, key);
        expect([202, 503]).toContain(first.status);
        d1.heal();
        const again = await call("POST", "/v1/events", { type: `${fault}_${n}`, data: 1 }, key);
        expect(again.status).toBe(202);
        const stored = "SELECT count(*) AS n FROM events WHERE type = ?1";
        expect(await env.DB.prepare(stored).bind(`${fault}_${n}`).first("n")).toBe(1);
      }
    }
  });
});

test("a bug stays 500, without Retry-After", async () => {
  const d1 = fragileD1();
  const { call } = testApi({ services: { db: d1.db } });
  d1.failAlways("D1_ERROR: no such table: destinations: SQLITE_ERROR");
  const { status, headers } = await call("GET", "/v1/destinations");
  expect([status, headers.get("retry-after")]).toEqual([500, null]);
});

describe("a page of the dashboard", () => {
  test.each([
    "/dashboard",
    "/dashboard/destinations",
    "/dashboard/event-types",
    "/dashboard/simulator",
  ])("%s says that the trouble is temporary, with the same status", async (path) => {
    const d1 = fragileD1();
    const dashboard = testDashboard({ services: { db: d1.db } });
    await dashboard.signIn(KEY);
    d1.failAlways(MESSAGES[2] as string);
    const page = await dashboard.get(path);
    expect(page.status).toBe(503);
    expect(page.headers.get("retry-after")).toBe("5");
    expect(page.html).toContain("It should be over in a few seconds");
  });
});
