/** A delivery's attempts on a line of time, with what is next and where it ends. Pure. */
import type { DeliveryJson } from "../api/delivery-schema.ts";
import { type Tick, timeScale } from "./time-scale.ts";

export type Mark = Readonly<{
  kind: "accepted" | "succeeded" | "failed" | "next" | "now" | "given_up";
  /** Along the line, 0 to 100. */
  x: number;
}>;

export type Track = Readonly<{ marks: readonly Mark[]; ticks: readonly Tick[] }>;

/** @param acceptedAt epoch ms, of the event */
export function trackOf(delivery: DeliveryJson, acceptedAt: number, now: number): Track {
  const moments = momentsOf(delivery, now);
  const { place, ticks } = timeScale(Math.max(...moments.map(({ at }) => at - acceptedAt)));
  const marks = moments.map(({ kind, at }) => ({ kind, x: place(at - acceptedAt) }));
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
