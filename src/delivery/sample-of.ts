/** What is counted of an attempt, from all that is known of it. */
import { resultOf, type AttemptMetric } from "../policy/sample.ts";
import { dueAtOf, type LoadedDelivery } from "../store/work.ts";
import type { Outcome } from "./outcome-rows.ts";
import type { Attempt } from "./send.ts";

const ends = { delivered: "delivered", retry: "again", dead: "dead" } as const;

export function attemptMetricOf(attempt: Attempt, { row, transition }: Outcome): AttemptMetric {
  const { work, exchange, startedAt, endedAt } = attempt;
  return {
    attempt: row.attempts,
    result: resultOf(exchange),
    end: ends[transition.kind],
    tookMs: endedAt - startedAt,
    lateMs: Math.max(0, startedAt - dueAt(work, startedAt)),
  };
}

/** When the attempt should have been made: when the event was due, and later at the time that the delivery was given. */
function dueAt({ event, row }: LoadedDelivery, startedAt: number): number {
  return row && row.attempts > 0 ? (row.nextAttemptAt ?? startedAt) : dueAtOf(event);
}
