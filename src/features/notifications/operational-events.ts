/**
 * Operational events: their subject, what happened, when, and the figures. None contains a secret, a body, or more of a
 * destination's URL than the host. Their schemas are documented for receivers in features/notifications/webhooks.ts.
 */

import type { Alert, Crossing, DeadLetterDigest } from "../../core/alerts.ts";
import type { OperationalType } from "../../core/operational-message.ts";
import { HOUR_MS, type TrafficSum } from "../../core/rollups.ts";
import type { SettleResult } from "../../core/settle.ts";
import { deliveryId, eventId } from "../../ids.ts";
import type { Destination } from "../../store/destination.ts";
import type { StatusChange } from "../../store/status-changes.ts";
import { isoTime } from "../../time.ts";

export type OperationalEvent = Readonly<{
  type: OperationalType;
  /** Its idempotency key: a repeat is not stored again. */
  key: string;
  /** The destination that it is about, if it is about one. */
  destination?: string;
  data: Readonly<Record<string, unknown>>;
}>;

/** The part of a destination that an event shows. */
type NamedDestination = Pick<Destination, "id" | "tenant" | "url">;

/** A destination's circuit has opened or closed, or a retry storm has begun or ended. */
export function alertEvent(
  destination: NamedDestination,
  alert: Alert,
  { at, figures }: SettleResult,
): OperationalEvent {
  const { circuitUntil, traffic } = figures;
  const until = alert === "circuit_opened" && circuitUntil !== null && { until: isoTime(circuitUntil) };
  return about(destination, `destination.${alert}`, at, { ...until, last_15_minutes: trafficView(traffic) });
}

/** Traffic as the API and events show it. */
export function trafficView({ first, retries, failures, retryRatio }: TrafficSum) {
  return { first_attempts: first, retries, failures, retry_ratio: Math.round(retryRatio * 100) / 100 };
}

/** A destination has been paused, by hand or automatically, or resumed. */
export function statusEvent(change: StatusChange): OperationalEvent {
  const { status, reason, changedAt } = change;
  const type = status === "paused" ? "destination.paused" : "destination.resumed";
  return about(change, type, changedAt, { reason: reason ?? "manual" });
}

/** Deliveries of a destination have ended dead: its dead-letter digest. */
export function deadEvent(
  destination: NamedDestination,
  { dead, since }: Pick<DeadLetterDigest, "dead" | "since">,
  at: number,
): OperationalEvent {
  const event = about(destination, "delivery.dead", at, { deliveries: dead, since: isoTime(since) });
  return { ...event, key: `delivery.dead ${destination.id} ${since}` };
}

/** A delivery has ended dead, and those of the same key wait for a decision. */
export function heldEvent(destination: NamedDestination, event: number, at: number): OperationalEvent {
  const ids = { delivery_id: deliveryId(event, destination.id), event_id: eventId(event) };
  return { ...about(destination, "delivery.held", at, ids), key: `delivery.held ${ids.delivery_id} ${at}` };
}

type Lag = Readonly<{
  consumer: string;
  lagMs: number;
  fetchedAt: number | null;
  isEnd: boolean;
  /** When the lag was found, epoch ms. */
  since: number;
}>;

/** A consumer of a polled destination lags behind, or no longer does. Once for each lag. */
export function lagEvent(
  destination: NamedDestination,
  { consumer, lagMs, fetchedAt, isEnd, since }: Lag,
  at: number,
): OperationalEvent {
  const type = isEnd ? "consumer.caught_up" : "consumer.lagging";
  const figures = { consumer, lag_s: Math.floor(lagMs / 1000), fetched_at: isoTime(fetchedAt) };
  return { ...about(destination, type, at, figures), key: `${type} ${destination.id} ${consumer} ${since}` };
}

/** The sweep has stalled. Once for each heartbeat that stays the last. */
export function stallEvent(heartbeatAt: number, at: number): OperationalEvent {
  const age = Math.floor((at - heartbeatAt) / 1000);
  const data = { at: isoTime(at), heartbeat_at: isoTime(heartbeatAt), age_s: age };
  return { type: "sweep.stalled", key: `sweep.stalled ${heartbeatAt}`, data };
}

/** A figure has crossed its threshold. Once an hour while it lasts. */
export function thresholdEvent(crossing: Crossing, at: number): OperationalEvent {
  const { threshold, value, limit, window, destinations, coverage } = crossing;
  const key = `threshold.crossed ${threshold} ${Math.floor(at / HOUR_MS)}`;
  return {
    type: "threshold.crossed",
    key,
    data: { at: isoTime(at), threshold, value, limit, window, destinations, ...(coverage && { coverage }) },
  };
}

function about(
  { id, tenant, url }: NamedDestination,
  type: OperationalType,
  at: number,
  figures: Readonly<Record<string, unknown>>,
): OperationalEvent {
  // Targets of other kinds than https have none.
  const host = URL.parse(url)?.host || null;
  const data = { at: isoTime(at), destination_id: id, tenant, host, ...figures };
  return { type, key: `${type} ${id} ${at}`, destination: id, data };
}
