/**
 * What the operator is told, as events: who, what, when, and the figures. No secret and no body is in any of
 * them; of a destination's URL only the host. What they look like to a receiver is documented in
 * api/operational-events.ts.
 */

import type { Alert, Crossing, DeadLetterDigest } from "../core/alerts.ts";
import { HOUR_MS, type TrafficSum } from "../core/rollups.ts";
import type { SettleResult } from "../core/settle.ts";
import type { Destination } from "../db/destinations.ts";
import type { StatusChange } from "../db/notifications.ts";
import { isoTime } from "../time.ts";

export type OperationalEvent = Readonly<{
  type: OperationalType;
  /** Which one it is: a repeat with the same key is not told again. */
  key: string;
  /** What it is about, where that is one destination. */
  destination?: string;
  data: Readonly<Record<string, unknown>>;
}>;

export type OperationalType =
  | `destination.${Alert | "paused" | "resumed"}`
  | "delivery.dead"
  | "sweep.stalled"
  | "threshold.crossed";

/** As much of a destination as is told. */
export type Named = Pick<Destination, "id" | "tenant" | "url">;

/** Its door has turned, or a storm at it has begun or ended. */
export function noticeEvent(
  destination: Named,
  notice: Alert,
  { at, figures }: SettleResult,
): OperationalEvent {
  const { circuitUntil, traffic } = figures;
  const until = notice === "circuit_opened" && circuitUntil !== null && { until: isoTime(circuitUntil) };
  return about(destination, `destination.${notice}`, at, { ...until, last_15_minutes: trafficView(traffic) });
}

/** Traffic as people and receivers are shown it. */
export function trafficView({ first, retries, failures, retryRatio }: TrafficSum) {
  return { first_attempts: first, retries, failures, retry_ratio: Math.round(retryRatio * 100) / 100 };
}

/** It has been paused, by hand or for its answers, or resumed. */
export function statusEvent(change: StatusChange): OperationalEvent {
  const { status, reason, changedAt } = change;
  const type = status === "paused" ? "destination.paused" : "destination.resumed";
  return about(change, type, changedAt, { reason: reason ?? "manual" });
}

/** So many of its deliveries have ended dead since then. */
export function deadEvent(
  destination: Named,
  { dead, since }: Pick<DeadLetterDigest, "dead" | "since">,
  at: number,
): OperationalEvent {
  const event = about(destination, "delivery.dead", at, { deliveries: dead, since: isoTime(since) });
  return { ...event, key: `delivery.dead ${destination.id} ${since}` };
}

/** The sweep has not got through for too long. Said once for each time it fell silent. */
export function stallEvent(heartbeatAt: number, at: number): OperationalEvent {
  const age = Math.floor((at - heartbeatAt) / 1000);
  const data = { at: isoTime(at), heartbeat_at: isoTime(heartbeatAt), age_s: age };
  return { type: "sweep.stalled", key: `sweep.stalled ${heartbeatAt}`, data };
}

/** A figure has crossed the bound beyond which somebody should look. Said once an hour while it lasts. */
export function thresholdEvent(crossing: Crossing, at: number): OperationalEvent {
  const { threshold, value, limit, window, destinations } = crossing;
  const key = `threshold.crossed ${threshold} ${Math.floor(at / HOUR_MS)}`;
  return {
    type: "threshold.crossed",
    key,
    data: { at: isoTime(at), threshold, value, limit, window, destinations },
  };
}

function about(
  { id, tenant, url }: Named,
  type: OperationalType,
  at: number,
  figures: Readonly<Record<string, unknown>>,
): OperationalEvent {
  const host = URL.parse(url)?.host ?? null;
  const data = { at: isoTime(at), destination_id: id, tenant, host, ...figures };
  return { type, key: `${type} ${id} ${at}`, destination: id, data };
}
