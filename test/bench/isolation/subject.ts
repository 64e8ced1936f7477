/**
 * What is measured, and how it is brought to the beginning of a phase: warm, with every customer known and
 * well, and with what is to wait waiting.
 */
import type { Contender, Running } from "../throughput/contender.ts";
import type { Customers } from "./customers.ts";
import { arrived } from "./phase.ts";
import type { Post } from "./post.ts";
import { type Trouble, theOneWith } from "./troubles.ts";

export type Stage = Readonly<{ customers: Customers; post: Post }>;

export type Subject = Readonly<{
  contender: Contender;
  /** Readies it for a phase with the trouble. */
  ready: (trouble: Trouble, round: number) => Promise<Ready>;
  stop: () => Promise<void>;
}>;

/** `end` leaves no trouble behind. */
export type Ready = Readonly<{ running: Running; end: () => Promise<void> }>;

/** Posts to every customer that open every window of trust. */
const WARM_UP = 12;
const WARM_MS = 60_000;
const PER_POST = 100;

export async function warmUp(running: Running, stage: Stage): Promise<void> {
  for (let i = 0; i < WARM_UP; i++) await reachAll(running, stage);
}

/** One event for each customer, or for the first so many; resolves when all have arrived. */
export async function reachAll(running: Running, { customers, post }: Stage, first?: number): Promise<void> {
  const posted = await post(running, [...customers.urls.keys()].slice(0, first));
  if (!(await arrived(posted, customers.arrivals, WARM_MS)))
    throw new Error("Not all events arrived in time");
}

/** Posts what is to wait; whoever takes it may have begun with it when this resolves. */
export async function pileUp(running: Running, { post }: Stage, trouble: Trouble): Promise<void> {
  const customers = Array<number>(PER_POST).fill(theOneWith(trouble, 0));
  for (let i = 0; i < trouble.waiting / PER_POST; i++) await post(running, customers);
}
