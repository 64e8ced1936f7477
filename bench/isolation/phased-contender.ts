/** A contender that can be prepared for a phase: warm, every customer healthy, and the backlog waiting. */
import type { Contender, Running } from "../throughput/contender.ts";
import type { Customers } from "./customers.ts";
import { customerWith, type Fault } from "./faults.ts";
import { arrived } from "./phase.ts";
import type { Post } from "./post-events.ts";

export type Setup = Readonly<{ customers: Customers; post: Post }>;

export type PhasedContender = Readonly<{
  contender: Contender;
  /** Prepares it for a phase with the fault. */
  ready: (trouble: Fault, round: number) => Promise<Ready>;
  stop: () => Promise<void>;
}>;

/** `end` undoes the fault. */
export type Ready = Readonly<{ running: Running; end: () => Promise<void> }>;

/** With this many posts to every customer, every concurrency window is open. */
const WARM_UP = 12;
const WARM_MS = 60_000;
const PER_POST = 100;

export async function warmUp(running: Running, setup: Setup): Promise<void> {
  for (let i = 0; i < WARM_UP; i++) await reachAll(running, setup);
}

/** Posts one event to each customer, or to the first `first` only; resolves when all have arrived. */
export async function reachAll(running: Running, { customers, post }: Setup, first?: number): Promise<void> {
  const posted = await post(running, [...customers.urls.keys()].slice(0, first));
  if (!(await arrived(posted, customers.arrivals, WARM_MS)))
    throw new Error("Not all events arrived in time");
}

/** Posts the backlog; some of it may be in flight when this resolves. */
export async function postBacklog(running: Running, { post }: Setup, trouble: Fault): Promise<void> {
  const customers = Array<number>(PER_POST).fill(customerWith(trouble, 0));
  for (let i = 0; i < trouble.waiting / PER_POST; i++) await post(running, customers);
}
