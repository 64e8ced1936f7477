/** The figures of one attempt. */
import type { Exchange } from "./retry/classify.ts";

/** The classes of results: few and fixed, so that a receiver cannot add more. */
export const results = ["2xx", "3xx", "4xx", "429", "5xx", "other", "timeout", "network"] as const;

export type MetricResult = (typeof results)[number];

/** The counted figures of one attempt: it is part of the signal that the gate gets. */
export type AttemptMetric = Readonly<{
  /** Which attempt of its delivery it was, from 1. */
  attempt: number;
  result: MetricResult;
  /** The delivery's state after it. */
  end: "delivered" | "again" | "dead";
  tookMs: number;
  /** How long after it was due it started: a first attempt is due at acceptance, a retry at its time. */
  lateMs: number;
}>;

/**
 * `network`: no response of the receiver, for any reason but the timeout. A challenge is a response of what stands before
 * it, and counts by its status. `other`: a status of no known class.
 */
export function resultOf({ kind, status }: Exchange): MetricResult {
  if (kind === "timeout") return "timeout";
  if (status === undefined || (kind !== "response" && kind !== "challenged")) return "network";
  if (status === 429) return "429";
  const ofClass = `${Math.floor(status / 100)}xx`;
  return results.find((result) => result === ofClass) ?? "other";
}
