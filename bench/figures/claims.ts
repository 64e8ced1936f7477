/**
 * Claims that pages make about figures in words, and when each is true. A claim that no longer holds, or that its page
 * no longer makes, is a fault, so the words change with the figures.
 */
import { meetsGoal } from "../cost/report.ts";
import { type LatencyRow, saved } from "../results.ts";
import { contender, costOf, inTheHour, rateRow } from "./find.ts";

type Claim = Readonly<{ page: string; says: string; holds: () => boolean }>;

const BENCHMARKS = "docs/benchmarks.md";

const claims: readonly Claim[] = [
  {
    page: "README.md",
    says: "BullMQ on Redis delivers single events several times as fast",
    holds: () => contender("One by one", "BullMQ + Redis").ratio < 0.5,
  },
  {
    page: "README.md",
    says: "and each of them sooner",
    holds: () => [10, 50, 200].every((rate) => soonest(rate) === "BullMQ + Redis"),
  },
  {
    page: BENCHMARKS,
    says: "Events every minute cost a little more than their goal",
    holds: () => meetsGoal(costOf("every-4")) && !meetsGoal(costOf("every-60")),
  },
  {
    page: BENCHMARKS,
    says: "BullMQ wins at every rate",
    holds: () => [10, 50, 200].every((rate) => soonest(rate) === "BullMQ + Redis"),
  },
  {
    page: BENCHMARKS,
    says: "**One by one the job queues on Redis win**",
    holds: () =>
      ["BullMQ + Redis", "BullMQ + Redis + Postgres"].every(
        (name) => contender("One by one", name).ratio < 1,
      ),
  },
  {
    page: BENCHMARKS,
    says: "**In batches** Breakwater is ahead of BullMQ with Postgres and of pg-boss",
    holds: () =>
      ["BullMQ + Redis + Postgres", "pg-boss + Postgres"].every(
        (name) => contender("In batches", name).ratio > 1.1,
      ),
  },
  {
    page: BENCHMARKS,
    says: "By CPU time for each event it is leaner than all of them but the bare Worker",
    holds: () => {
      const ours = cpu("Breakwater");
      const queues = ["BullMQ + Redis", "BullMQ + Redis + Postgres", "pg-boss + Postgres"];
      return queues.every((name) => cpu(name) > ours) && cpu("A bare Worker") < ours;
    },
  },
  {
    page: BENCHMARKS,
    says: "No scenario brings a receiver down a second time or loses a delivery",
    holds: () => saved("storm").ours.every(({ secondOutages, lost }) => secondOutages + lost === 0),
  },
  {
    page: BENCHMARKS,
    says: "Breakwater is not the first to notice a recovery",
    holds: () => (inTheHour("Breakwater").noticedS ?? 0) > (inTheHour("Svix (model)").noticedS ?? 0),
  },
];

/**
 * Returns each fault as a sentence.
 * @param textOf reads a page
 */
export function falseClaims(textOf: (page: string) => string): string[] {
  return claims.flatMap(({ page, says, holds }) => {
    if (!wordsOf(textOf(page)).includes(wordsOf(says))) return [`${page} no longer says “${says}”.`];
    return holds() ? [] : [`${page} says “${says}”, and the figures say otherwise.`];
  });
}

/** Joins lines, so that a claim may be broken anywhere. */
function wordsOf(text: string): string {
  return text.replaceAll(/\s+/g, " ");
}

function soonest(perSecond: number): string {
  const p99 = (name: string): LatencyRow["arrivalP99Ms"] => rateRow(perSecond, name).arrivalP99Ms;
  return p99("BullMQ + Redis") < p99("Breakwater") ? "BullMQ + Redis" : "Breakwater";
}

function cpu(name: string): number {
  return contender("In batches", name).cpuSecondsPer1000 ?? Number.NaN;
}
