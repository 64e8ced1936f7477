/** What is counted of one attempt: a few small values, which travel to the gate with its sign. */
import type { Exchange } from "./outcome.ts";

/** The classes that results are counted in: few and fixed, so that a receiver cannot invent more. */
export const results = ["2xx", "3xx", "4xx", "429", "5xx", "other", "timeout", "network"] as const;

export type Result = (typeof results)[number];

export type AttemptMetric = Readonly<{
  /** Which attempt of its delivery it was, from 1. */
  attempt: number;
  result: Result;
  /** What became of the delivery by it. */
  end: "delivered" | "again" | "dead";
  tookMs: number;
  /** How long after its time it started: after acceptance at first, later after the time it was given. */
  lateMs: number;
}>;

/** `network` is whatever kept an answer from coming, the timeout apart; `other` a status of no known class. */
export function resultOf(exchange: Exchange): Result {
  if (exchange.kind === "timeout") return "timeout";
  if (exchange.kind !== "response") return "network";
  if (exchange.status === 429) return "429";
  const ofClass = `${Math.floor(exchange.status / 100)}xx`;
  return results.find((result) => result === ofClass) ?? "other";
}
