/**
 * A delivery's life as one would draw it on a napkin: the model that the real thing is held to. Where a
 * crash, or the hour, leaves open what has become of it, there are several lives, and what D1 says decides.
 */
import type { DeliveryRow } from "../../src/db/schema.ts";
import type { Sent } from "./witness.ts";

export type Life = Readonly<{ attempts: number; end?: "delivered" | "dead" | "cancelled" }>;

export const unborn: Life = { attempts: 0 };

export const MOST_ATTEMPTS = 3;
/** Answers after which it is not tried again. */
const FINAL: readonly unknown[] = [400, 410];

/** @param late whether the next attempt would come after its age limit */
export function attempted(life: Life, { status }: Sent, late: boolean): Life {
  if (life.end) throw new Error("A delivery that has ended is not attempted");
  const attempts = life.attempts + 1;
  if (status === 204) return { attempts, end: "delivered" };
  return FINAL.includes(status) || attempts === MOST_ATTEMPTS || late
    ? { attempts, end: "dead" }
    : { attempts };
}

export function ended(life: Life, end: "dead" | "cancelled"): Life {
  return life.end ? life : { ...life, end };
}

/** Whether this is what D1 says. */
export function isLived({ attempts, end }: Life, row: DeliveryRow | undefined): boolean {
  const alertState = row?.endedAt == null ? undefined : row.state;
  return attempts === (row?.attempts ?? 0) && end === alertState;
}
