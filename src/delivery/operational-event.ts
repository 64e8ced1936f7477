/**
 * What the operator is told, as events: who, what, when, and the figures. No secret and no body is in any of
 * them; of a destination's URL only the host. What they look like to a receiver is documented in
 * api/operational-schema.ts.
 */
import type { News } from "../policy/news.ts";
import type { Notice } from "../policy/said.ts";
import type { Crossing } from "../policy/thresholds.ts";
import type { Toll } from "../policy/toll.ts";
import type { Destination } from "../store/destination-settings.ts";

export type OperationalEvent = Readonly<{
  type: OperationalType;
  /** Which one it is: a repeat with the same key is not told again. */
  key: string;
  /** What it is about, where that is one destination. */
  destination?: string;
  data: Readonly<Record<string, unknown>>;
}>;

export type OperationalType =
  | `destination.${Notice | "paused" | "resumed"}`
  | "delivery.dead"
  | "sweep.stalled"
  | "threshold.crossed";

/** As much of a destination as is told. */
export type Named = Pick<Destination, "id" | "tenant" | "url">;

/** Its door has turned, or a storm at it has begun or ended. */
export function noticeEvent(destination: Named, notice: Notice, { at, figures }: News): OperationalEvent {
  const { circuitUntil, traffic } = figures;
  const lately = {
    first_attempts: traffic.first,
    retries: traffic.retries,
    failures: traffic.failures,
    retry_ratio: Math.round(traffic.retryRatio * 100) / 100,
  };
  const until = notice === "circuit_opened" && circuitUntil !== null && { until: iso(circuitUntil) };
  return about(destination, `destination.${notice}`, at, { ...until, last_15_minutes: lately });
}

/** It has been paused, by hand or for its answers, or resumed. */
export function statusEvent(
  destination: Named,
  status: "paused" | "resumed",
  reason: string,
  at: number,
): OperationalEvent {
  return about(destination, `destination.${status}`, at, { reason });
}

/** So many of its deliveries have ended dead since then. */
export function deadEvent(
  destination: Named,
  { dead, since }: Pick<Toll, "dead" | "since">,
  at: number,
): OperationalEvent {
  const event = about(destination, "delivery.dead", at, { deliveries: dead, since: iso(since) });
  return { ...event, key: `delivery.dead ${destination.id} ${since}` };
}

/** The sweep has not got through for too long. Said once for each time it fell silent. */
export function stallEvent(heartbeatAt: number, at: number): OperationalEvent {
  const age = Math.floor((at - heartbeatAt) / 1000);
  const data = { at: iso(at), heartbeat_at: iso(heartbeatAt), age_s: age };
  return { type: "sweep.stalled", key: `sweep.stalled ${heartbeatAt}`, data };
}

const HOUR_MS = 3_600_000;

/** A figure has crossed the bound beyond which somebody should look. Said once an hour while it lasts. */
export function thresholdEvent(crossing: Crossing, at: number): OperationalEvent {
  const { threshold, value, limit, window } = crossing;
  const key = `threshold.crossed ${threshold} ${Math.floor(at / HOUR_MS)}`;
  return { type: "threshold.crossed", key, data: { at: iso(at), threshold, value, limit, window } };
}

function about(
  { id, tenant, url }: Named,
  type: OperationalType,
  at: number,
  figures: Readonly<Record<string, unknown>>,
): OperationalEvent {
  const host = URL.parse(url)?.host ?? null;
  const data = { at: iso(at), destination_id: id, tenant, host, ...figures };
  return { type, key: `${type} ${id} ${at}`, destination: id, data };
}

function iso(at: number): string {
  return new Date(at).toISOString();
}
