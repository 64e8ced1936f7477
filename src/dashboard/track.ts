/**
 * A delivery's attempts on a line, placed by the logarithm of their age: a schedule that grows by a factor
 * comes out evenly spaced, and the first second is as easy to read as the last day. Pure.
 */
import type { DeliveryJson } from "../api/delivery-schema.ts";

export type Mark = Readonly<{
  kind: "accepted" | "succeeded" | "failed" | "next" | "now" | "given_up";
  /** Along the line, 0 to 100. */
  x: number;
}>;

export type Tick = Readonly<{ x: number; label: string }>;

export type Track = Readonly<{ marks: readonly Mark[]; ticks: readonly Tick[] }>;

const SECOND = 1000;

const ages: readonly (readonly [number, string])[] = [
  [1, "1 s"],
  [10, "10 s"],
  [60, "1 min"],
  [600, "10 min"],
  [3600, "1 h"],
  [6 * 3600, "6 h"],
  [24 * 3600, "1 d"],
  [72 * 3600, "3 d"],
];

/** Room at the right for the last mark. */
const WIDTH = 98;

/** @param acceptedAt epoch ms, of the event */
export function trackOf(delivery: DeliveryJson, acceptedAt: number, now: number): Track {
  const moments = momentsOf(delivery, now);
  const longest = Math.max(10 * SECOND, ...moments.map(({ at }) => at - acceptedAt));
  const place = (ageMs: number) =>
    (WIDTH * Math.log1p(Math.max(0, ageMs) / SECOND)) / Math.log1p(longest / SECOND);
  const marks = moments.map(({ kind, at }) => ({ kind, x: place(at - acceptedAt) }));
  const ticks = ages
    .filter(([age]) => age * SECOND <= longest)
    .map(([age, label]) => ({ x: place(age * SECOND), label }));
  return { marks: [{ kind: "accepted", x: 0 }, ...marks], ticks };
}

type Moment = Readonly<{ kind: Mark["kind"]; at: number }>;

function momentsOf(delivery: DeliveryJson, now: number): Moment[] {
  const attempts = delivery.log.map(
    (entry): Moment => ({ kind: isSuccess(entry) ? "succeeded" : "failed", at: Date.parse(entry.at) }),
  );
  const next = delivery.next_attempt_at ?? delivery.waiting_until;
  const isOver = ["delivered", "dead", "cancelled"].includes(delivery.state);
  if (isOver) return attempts;
  return [
    ...attempts,
    { kind: "now", at: now },
    ...(next === undefined ? [] : [{ kind: "next" as const, at: Math.max(now, Date.parse(next)) }]),
    { kind: "given_up", at: Date.parse(delivery.give_up_at) },
  ];
}

/** Every 2xx. */
export function isSuccess({ status }: DeliveryJson["log"][number]): boolean {
  return status !== undefined && status >= 200 && status < 300;
}
