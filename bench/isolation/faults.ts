/** The customers of the benchmark by their numbers: the hundred, and the one, which is new in each round. */
import type { Behaviour } from "./customers.ts";

export type Fault = Readonly<{
  name: string;
  /** How the one's endpoint is meanwhile. */
  mood: Behaviour;
  /** Deliveries that wait for it before the measurement begins. */
  waiting: number;
  /** New events for it, a second. */
  perSecond: number;
}>;

export const HEALTHY = 100;
const WAITING = 50_000;

export const none: Fault = { name: "is well", mood: "well", waiting: 0, perSecond: 25 };

export const troubles: readonly Fault[] = [
  { name: "hangs", mood: "hangs", waiting: 0, perSecond: 25 },
  { name: "fails", mood: "fails", waiting: 0, perSecond: 25 },
  { name: `has ${WAITING.toLocaleString("en")} waiting`, mood: "busy", waiting: WAITING, perSecond: 5 },
];

/**
 * The one that is in this trouble in this round. It has been well until then, so that every round has its
 * first contact; but what waits goes on waiting for the same one.
 */
export function customerWith(trouble: Fault, round: number): number {
  const kind = [none, ...troubles].indexOf(trouble);
  return HEALTHY + kind + (trouble.waiting > 0 ? 0 : kinds * round);
}

/** How many customers so many rounds take. */
export function customersFor(rounds: number): number {
  return HEALTHY + kinds * rounds;
}

const kinds = 1 + troubles.length;
