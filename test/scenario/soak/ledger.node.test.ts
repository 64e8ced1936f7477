/** The soak's books notice broken promises, and nothing else. */
import { describe, expect, test } from "vitest";
import type { Hit } from "../../../tools/receiver.ts";
import type { Check } from "./checks.ts";
import { customersOf, type SoakData } from "./customers.ts";
import { Ledger, type Posted } from "./ledger.ts";

const T = 1_800_000_000_000;
const ID = "evt_1";

/** A ledger with one accepted event of a tenant with one endpoint, and receivers with configured answers. */
function books({
  tenant = "cano",
  path = "/cano/quiet",
  ...event
}: Partial<Posted> & { tenant?: string; path?: string } = {}) {
  const later: (() => void)[] = [];
  const timeouts: number[] = [];
  const ledger = new Ledger(
    customersOf(40),
    (_, then) => later.push(then),
    ({ attempt }) => Promise.resolve(timeouts.includes(attempt - 1)),
  );
  const data: SoakData = { ref: 1, tenant, postedAt: T, ...event.data };
  ledger.posted([{ type: "order.created", ...event, data }]);
  ledger.accepted(1, ID, new Map([[path, "dlv_1"]]), T);
  const requests = new Map<string, number>();
  return {
    ledger,
    data,
    /** The attempts of which the API says that they have timed out. */
    timeouts,
    /** A request that arrives, and its answer, 20 ms later unless `endsAt` says otherwise; null: never. */
    request(
      at: number,
      {
        status = 200,
        endsAt = at + 20,
        quietMs = 0,
        ...given
      }: Partial<Hit> & { endsAt?: number | null; quietMs?: number } = {},
    ): Hit {
      const number = (requests.get(path) ?? 0) + 1;
      requests.set(path, number);
      const hit: Hit = { path, id: ID, body: "{}", verified: true, attempt: number, at, ...given };
      ledger.arrived(hit, data);
      if (endsAt !== null) {
        Object.assign(hit, { status, answeredAt: endsAt });
        ledger.answered(hit, data, quietMs);
      }
      return hit;
    },
    async closed() {
      for (const then of later) then();
      await ledger.close();
      return ledger.findings
        .all()
        .filter(({ count }) => count > 0)
        .map(({ check }): Check => check);
    },
  };
}

test("an event that is delivered once fulfils the promises", async () => {
  const { request, closed } = books();
  request(T + 5);
  expect(await closed()).toEqual([]);
});

test("a delivery that never arrives is lost", async () => {
  expect(await books().closed()).toEqual(["arrives", "ends"]);
});

test("a delivery that the API does not know, or that has ended without arriving, is lost", async () => {
  for (const state of [undefined, "delivered", "dead", "cancelled"]) {
    const { ledger, closed } = books();
    const [open] = ledger.open();
    if (open) ledger.shown(open, state, undefined, T + 60_000);
    expect(await closed()).toEqual(["arrives"]);
  }
});

describe("a repeat", () => {
  test("without a cause is a violation", async () => {
    const { request, closed } = books();
    request(T + 5);
    request(T + 900);
    expect(await closed()).toEqual(["once"]);
  });

  test("is explained by a kill shortly after the answer, and by no other", async () => {
    const { ledger, request, closed } = books();
    request(T);
    ledger.killed(T + 5_000, T + 5_100);
    request(T + 9_000);
    expect(await closed()).toEqual([]);

    const late = books();
    late.request(T);
    late.ledger.killed(T + 60_000, T + 60_100);
    late.request(T + 61_000);
    expect(await late.closed()).toEqual(["once"]);
  });

  test("is explained by a kill before the answer, which was lost, and not by one before the request", async () => {
    const repeated = async (killedAt: number) => {
      const { ledger, request, closed } = books();
      request(T, { endsAt: T + 300 });
      ledger.killed(killedAt, killedAt + 100);
      request(T + 25_000);
      return closed();
    };
    expect(await repeated(T + 150)).toEqual([]);
    expect(await repeated(T - 150)).toEqual(["once"]);
  });

  test("is explained by an answer at the sender's timeout", async () => {
    const { request, closed } = books();
    request(T, { endsAt: T + 4_900 });
    request(T + 7_000);
    expect(await closed()).toEqual([]);
  });

  test("is explained if the API shows a timeout", async () => {
    const { timeouts, request, closed } = books();
    request(T);
    timeouts.push(1);
    request(T + 4_000);
    expect(await closed()).toEqual([]);
  });

  test("on request is expected, once, and is missed when it does not come", async () => {
    const { ledger, request, closed } = books();
    request(T);
    ledger.requeueing(1, "/cano/quiet");
    ledger.requeued(1, "/cano/quiet", "done");
    request(T + 1_000);
    expect(await closed()).toEqual([]);

    const twice = books();
    twice.request(T);
    twice.ledger.requeueing(1, "/cano/quiet");
    twice.ledger.requeued(1, "/cano/quiet", "done");
    twice.request(T + 1_000);
    twice.request(T + 2_000);
    expect(await twice.closed()).toEqual(["once"]);

    const missed = books();
    missed.request(T);
    missed.ledger.requeueing(1, "/cano/quiet");
    missed.ledger.requeued(1, "/cano/quiet", "done");
    expect(await missed.closed()).toEqual(["arrives", "ends", "requeued"]);
  });

  test("on request may come before the answer to the request", async () => {
    const { ledger, request, closed } = books();
    request(T);
    ledger.requeueing(1, "/cano/quiet");
    request(T + 1_000);
    ledger.requeued(1, "/cano/quiet", "done");
    expect(await closed()).toEqual([]);
  });

  test("after a refused request is a violation", async () => {
    const { ledger, request, closed } = books();
    request(T);
    ledger.requeueing(1, "/cano/quiet");
    ledger.requeued(1, "/cano/quiet", "refused");
    request(T + 1_000);
    expect(await closed()).toEqual(["once"]);
  });

  test("with other bytes is a violation", async () => {
    const { request, closed } = books();
    request(T, { status: 500 });
    request(T + 900, { body: "{ }" });
    expect(await closed()).toEqual(["bytes"]);
  });
});

test("a dead, cancelled or erased delivery must not come again", async () => {
  const dead = books({ data: { ref: 1, tenant: "cano", postedAt: T, bad: true } });
  dead.request(T, { status: 400 });
  dead.request(T + 1_000);
  expect(await dead.closed()).toEqual(["ended"]);

  const expired = books({ ttlMs: 5_000 });
  const [open] = expired.ledger.open();
  if (open) expired.ledger.shown(open, "dead", "expired", T + 6_000);
  expired.request(T + 30_000);
  expect(await expired.closed()).toEqual(["ended"]);

  for (const end of ["cancelled", "erased"] as const) {
    const { ledger, request, closed } = books();
    if (end === "cancelled") ledger.cancelled(1, "/cano/quiet", T + 100, true);
    else ledger.erased(1, T + 100, true);
    request(T + 200);
    expect(ledger.findings.count("ended")).toBe(0);
    request(T + 20_000);
    expect(await closed()).toEqual(["ended"]);
  }
});

test("an expired delivery is sent again by a replay", async () => {
  const { ledger, request, closed } = books({ ttlMs: 5_000 });
  const [open] = ledger.open();
  if (open) ledger.shown(open, "dead", "expired", T + 6_000);
  ledger.replaying("/cano/quiet");
  ledger.replayed("/cano/quiet", { since: T, until: T + 7_000, diedBy: T + 7_000 }, "done");
  request(T + 30_000);
  expect(await closed()).toEqual([]);
});

test.each([
  [29_000, []],
  [28_999, ["scheduled"]],
])("a scheduled event may come early only by the difference of clocks: %d ms after its post", async (afterMs, found) => {
  const { request, closed } = books({ deliverAt: T + 30_000 });
  request(T + afterMs);
  expect(await closed()).toEqual(found);
});

describe("after a 429", () => {
  test("a delivery that comes back a millisecond too early is a violation", async () => {
    const { request, closed } = books();
    request(T, { status: 429, quietMs: 10_000, endsAt: T + 20 });
    request(T + 10_019);
    expect(await closed()).toEqual(["retryAfter", "quiet"]);
  });

  test("a delivery that comes back in time is not a violation", async () => {
    const { request, closed } = books();
    request(T, { status: 429, quietMs: 10_000, endsAt: T + 20 });
    request(T + 10_020);
    expect(await closed()).toEqual([]);
  });

  test("a former gate may end the quiet early by the difference of clocks, and no more", async () => {
    const afterQuiet = async (ms: number) => {
      const { ledger, request, closed } = books();
      ledger.gatesRun("former");
      request(T, { status: 429, quietMs: 10_000, endsAt: T + 20 });
      ledger.gatesRun("current");
      request(T + 20 + ms);
      return closed();
    };
    expect(await afterQuiet(9_000)).toEqual([]);
    expect(await afterQuiet(8_999)).toEqual(["retryAfter", "quiet"]);
  });

  test("another delivery may come while leases do not know of the 429, or after a kill, and not later", async () => {
    const within = (at: number, killedAt?: number) => {
      const { ledger, data, request } = books();
      request(T, { status: 429, quietMs: 20_000 });
      if (killedAt !== undefined) ledger.killed(killedAt, killedAt + 100);
      ledger.posted([{ type: "order.created", data: { ...data, ref: 2 } }]);
      const other = { path: "/cano/quiet", id: "evt_2", body: "{}", verified: true, attempt: 1, at };
      ledger.arrived(other, { ...data, ref: 2 });
      return ledger.findings.count("quiet");
    };
    expect(within(T + 5_000)).toBe(0);
    expect(within(T + 6_000)).toBe(1);
    expect(within(T + 6_000, T + 2_000)).toBe(0);
    expect(within(T + 6_000, T + 4_000)).toBe(1);
  });

  test("concurrent requests before the first success are a herd", async () => {
    const { ledger, data, request, closed } = books();
    request(T, { status: 429, quietMs: 10_000 });
    const other = {
      path: "/cano/quiet",
      id: "evt_2",
      body: "{}",
      verified: true,
      attempt: 1,
      at: T + 11_000,
    };
    ledger.posted([{ type: "order.created", data: { ...data, ref: 2 } }]);
    ledger.arrived(other, { ...data, ref: 2 });
    request(T + 11_001, { endsAt: T + 11_050 });
    expect(await closed()).toContain("herd");
  });
});

describe("requests at once", () => {
  /** The given number of requests at T, none of them answered. */
  function atOnce(count: number, path = "/dune/steady") {
    const { ledger, data, closed } = books({ tenant: "dune", path });
    const hits = Array.from({ length: count }, (_, i) => {
      const ref = 10 + i;
      ledger.posted([{ type: "order.created", data: { ...data, ref } }]);
      const hit: Hit = { path, id: `evt_${ref}`, body: "{}", verified: true, attempt: 1, at: T };
      ledger.arrived(hit, { ...data, ref });
      return hit;
    });
    return { hits, closed };
  }

  test("are at most as many as allowed", async () => {
    expect(await atOnce(4).closed()).not.toContain("concurrency");
    expect(await atOnce(5).closed()).toContain("concurrency");
  });

  test("do not count if the sender had hung up", async () => {
    const { hits, closed } = atOnce(5);
    if (hits[0]) hits[0].hungUp = true;
    expect(await closed()).not.toContain("concurrency");
  });

  test("may exceed a limit that was lowered a moment ago, but not later", async () => {
    const { ledger, request } = books({ tenant: "dune", path: "/dune/steady" });
    ledger.endpoint("/dune/steady")?.limited(1, T);
    request(T + 1_000, { endsAt: null });
    request(T + 1_001, { endsAt: null });
    expect(ledger.findings.count("concurrency")).toBe(0);
  });
});

test("an event must not come to another tenant, nor under two ids", async () => {
  const { request, closed } = books();
  request(T, { path: "/acme/steady" });
  request(T + 10, { id: "evt_2" });
  expect(await closed()).toEqual(expect.arrayContaining(["tenants", "key"]));
});

test("the number of an attempt must not be higher than what the receiver has seen", async () => {
  const { request, closed } = books();
  request(T, { attempt: 2 });
  expect(await closed()).toEqual(["attempts"]);
});

test("all events of a batch without an answer are stored, or none", async () => {
  const ledger = new Ledger(customersOf(40), () => {});
  const data = (ref: number): SoakData => ({ ref, tenant: "cano", postedAt: T });
  ledger.posted([1, 2].map((ref) => ({ type: "order.created", data: data(ref) })));
  ledger.unanswered([1, 2]);
  const hit: Hit = { path: "/cano/quiet", id: ID, body: "{}", verified: true, attempt: 1, at: T + 5 };
  ledger.arrived(hit, data(1));
  Object.assign(hit, { status: 200, answeredAt: T + 25 });
  ledger.answered(hit, data(1), 0);
  await ledger.close();
  expect(ledger.findings.count("batch")).toBe(1);
});
