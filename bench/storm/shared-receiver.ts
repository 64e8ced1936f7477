/**
 * Many tenants, one host: each tenant has its own destination there, and the limits of a destination know nothing of
 * the others. The host takes 50 requests a second and is down for an hour. The runs are with and without a group of all
 * these destinations, beside destinations at other hosts, whose deliveries are compared with those of a run in which
 * the host is never down.
 */
import type { Simulated } from "../../src/simulator/figures.ts";
import { BEGINNING, FINE, isWithin, recoveryOf, steady } from "../../src/simulator/scenario.ts";
import type { SharedReceiver, SharedResults } from "../results.ts";
import { quantile } from "../throughput/round.ts";
import { breakwater } from "./breakwater/sender.ts";
import type { Section } from "./runs.ts";
import type { Scenario } from "./scenarios.ts";
import { simulate } from "./simulate.ts";

const HOUR_MS = 3600_000;
const BEFORE_MS = 60_000;
const AFTER_MS = 300_000;
/** Ten at once for 200 ms each. */
const CAPACITY = 50;
const OTHERS = 10;
const OTHERS_PER_SECOND = 0.1;
const GROUP = "shared";
/**
 * The host's slots, and requests on their way to it. With more, attempts would queue at the host, and start when others
 * end instead of when the group wants.
 */
const AT_ONCE = 13;
/** Less than the capacity, so that late attempts fit in. */
const RATE = 47;

/** Many tenants and some, each with a group and without one. */
export function sharedReceivers(seed: number): Section<SharedResults["runs"]> {
  const runs = [
    { name: "1,000 tenants in a group", tenants: 1_000, each: 20, isGrouped: true },
    { name: "1,000 without", tenants: 1_000, each: 20, isGrouped: false },
    { name: "100 in a group", tenants: 100, each: 100, isGrouped: true },
    { name: "100 without", tenants: 100, each: 100, isGrouped: false },
  ].map(({ name, tenants, each, isGrouped }) => ({
    name: `a shared host: ${name}`,
    play: async () => ({ name, isGrouped, ...(await sharedReceiver(tenants, each, isGrouped, seed)) }),
  }));
  return { runs, read: (played) => runs.map((run) => played(run)) };
}

/** @param each events of each tenant in the hour */
async function sharedReceiver(
  tenants: number,
  each: number,
  grouped: boolean,
  seed: number,
): Promise<SharedReceiver> {
  const run = (isDown: boolean) => {
    const [scenario, contender] = playOf(tenants, each, grouped, isDown);
    return simulate(scenario, contender, seed);
  };
  return figuresOf(await run(true), await run(false), tenants);
}

function playOf(tenants: number, each: number, grouped: boolean, isDown: boolean) {
  const outage = isDown ? [{ from: BEFORE_MS, to: BEFORE_MS + HOUR_MS }] : [];
  const isMember = (receiver: number) => receiver < tenants;
  const until = { from: 0, to: BEFORE_MS + HOUR_MS + AFTER_MS };
  const scenario: Scenario = {
    name: "shared",
    title: "Many tenants, one host",
    server: { slots: 10, serviceMs: 200, strain: 100, bound: 300, restartMs: 60_000 },
    receivers: tenants + OTHERS,
    serverOf: (receiver) => (isMember(receiver) ? 0 : receiver),
    watched: isMember,
    troubles: outage,
    troubleAt: (receiver, now) => (receiver === 0 && isWithin(outage, now) ? { kind: "down" } : FINE),
    posts: (random) =>
      Array.from({ length: tenants + OTHERS }, (_, receiver) =>
        steady(isMember(receiver) ? (each * 1000) / HOUR_MS : OTHERS_PER_SECOND, until, receiver, random),
      )
        .flat()
        .sort((a, b) => a.at - b.at),
    settings: {},
  };
  const contender = {
    name: "Breakwater",
    model: false,
    start: (context: Parameters<typeof breakwater>[0]) =>
      breakwater(context, {
        settingsOf: (receiver) => (grouped && isMember(receiver) ? { group: GROUP } : {}),
        prepare: (db) =>
          db
            .prepare(
              "INSERT INTO groups (name, max_concurrency, rate_per_second, rate_burst, created_at, updated_at) VALUES (?, ?, ?, 1, 0, 0)",
            )
            .run(GROUP, AT_ONCE, RATE),
      }),
  };
  return [scenario, contender] as const;
}

function figuresOf(stormy: Simulated, quiet: Simulated, tenants: number): SharedReceiver {
  const { scenario, ledger, breakdowns } = stormy;
  const recovery = recoveryOf(scenario);
  const from = (recovery - BEGINNING) / 1000;
  const seconds: number[] = [];
  for (const bins of ledger.arrivals.slice(0, tenants))
    for (const [second, count] of bins.entries())
      if (second >= from) seconds[second] = (seconds[second] ?? 0) + (count ?? 0);
  const mine = ledger.deliveries.filter(({ receiver }) => receiver < tenants);
  const drainedAt = mine.reduce(
    (last, { acceptedAt, endedAt }) => (endedAt - acceptedAt > 3_000 ? Math.max(last, endedAt) : last),
    recovery,
  );
  const open = mine.filter(({ acceptedAt, endedAt }) => acceptedAt <= recovery && endedAt > recovery);
  const halfAt = recovery + (drainedAt - recovery) / 2;
  const got = Array.from({ length: tenants }, () => 0);
  for (const { receiver, endedAt } of open) if (endedAt <= halfAt) got[receiver] = (got[receiver] ?? 0) + 1;
  return {
    peak: Math.max(0, ...Array.from(seconds, (count) => count ?? 0)) / CAPACITY,
    secondOutages: breakdowns,
    wasted: ledger.failures.flat().reduce((sum, count) => sum + (count ?? 0), 0),
    drain:
      (drainedAt - recovery) /
      ((open.length * 1000) / (CAPACITY - tenants * ratePer(scenario, mine.length, tenants))),
    fairness: jain(got),
    others: othersOf(stormy, tenants, drainedAt),
    undisturbed: othersOf(quiet, tenants, drainedAt),
    lost: ledger.deliveries.filter(({ dead, endedAt }) => dead || endedAt === 0).length,
  };
}

/** Quantiles of other hosts' deliveries, of events accepted from the outage to `until`. */
function othersOf({ ledger }: Simulated, tenants: number, until: number): SharedReceiver["others"] {
  const waits = ledger.deliveries
    .filter(({ receiver, endedAt }) => receiver >= tenants && endedAt > 0)
    .filter(({ acceptedAt }) => acceptedAt >= BEGINNING + BEFORE_MS && acceptedAt <= until)
    .map(({ acceptedAt, endedAt }) => endedAt - acceptedAt);
  return { p50Ms: quantile(waits, 0.5), p99Ms: quantile(waits, 0.99) };
}

/** Events a second of one tenant. */
function ratePer({ troubles }: Scenario, events: number, tenants: number): number {
  const seconds = ((troubles.at(-1)?.to ?? 0) + AFTER_MS) / 1000;
  return events / tenants / seconds;
}

function jain(values: readonly number[]): number {
  const sum = values.reduce((a, b) => a + b, 0);
  const squares = values.reduce((a, b) => a + b * b, 0);
  return squares === 0 ? 1 : (sum * sum) / (values.length * squares);
}
