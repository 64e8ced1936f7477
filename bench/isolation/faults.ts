/** The customers of the benchmark by number. The first hundred stay healthy; each round has new ones for the troubles. */
import type { Behaviour } from "./customers.ts";

export type Fault = Readonly<{
  name: string;
  /** How the endpoint of the customer in trouble behaves. */
  behaviour: Behaviour;
  /** Deliveries that wait for this customer before the measurement begins. */
  waiting: number;
  /** New events a second for this customer. */
  perSecond: number;
}>;

export const HEALTHY = 100;
const WAITING = 50_000;

export const none: Fault = { name: "is well", behaviour: "well", waiting: 0, perSecond: 25 };

export const troubles: readonly Fault[] = [
  { name: "hangs", behaviour: "hangs", waiting: 0, perSecond: 25 },
  { name: "fails", behaviour: "fails", waiting: 0, perSecond: 25 },
  { name: `has ${WAITING.toLocaleString("en")} waiting`, behaviour: "busy", waiting: WAITING, perSecond: 5 },
];

/**
 * The customer that is in this trouble in this round. It was healthy before, so that every round has its first contact
 * with the trouble; a backlog, however, stays with the same customer.
 */
export function customerWith(trouble: Fault, round: number): number {
  const kind = [none, ...troubles].indexOf(trouble);
  return HEALTHY + kind + (trouble.waiting > 0 ? 0 : kinds * round);
}

/** How many customers this many rounds need. */
export function customersFor(rounds: number): number {
  return HEALTHY + kinds * rounds;
}

const kinds = 1 + troubles.length;
