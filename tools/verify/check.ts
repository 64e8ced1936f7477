/** What a check is, and what it has to work with. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Deployment } from "./deployment.ts";
import type { Verdict } from "./judge.ts";
import type { Options } from "./options.ts";
import type { Hit, Script } from "./protocol.ts";
import { type Endpoint, endpointOf, type Receiver } from "./receiver.ts";

export type Skipped = Readonly<{ skipped: string }>;

export type Check = Readonly<{
  name: string;
  /** What is expected, in words. */
  expected: string;
  /** Whether others may run at the same time: those that measure time must have the deployment to themselves. */
  runs: "alone" | "together";
  usesReceiver: boolean;
  /** Shows that the receiver is reached: when it fails, no check that uses the receiver can tell anything. */
  reachesReceiver?: boolean;
  run: (run: Run) => Promise<Verdict | Skipped>;
}>;

/** Ends a check of a run that has been interrupted. */
export class Interrupted extends Error {}

const POLL_MS = 500;

/** One run: the deployment, the receiver, and the waiting of the checks. */
export class Run {
  readonly deployment: Deployment;
  readonly options: Options;
  /** Whether the deployment is a local stack. */
  readonly isLocal: boolean;
  readonly #receiver: Receiver | undefined;
  readonly #suffix: string;
  readonly #signal: AbortSignal;
  readonly #note: (line: string) => void;

  constructor({
    deployment,
    options,
    isLocal,
    receiver,
    suffix,
    signal,
    note,
  }: Readonly<{
    deployment: Deployment;
    options: Options;
    isLocal: boolean;
    receiver: Receiver | undefined;
    /** Random: it makes names the run's own. */
    suffix: string;
    signal: AbortSignal;
    /** Prints a line of progress. */
    note: (line: string) => void;
  }>) {
    this.deployment = deployment;
    this.options = options;
    this.isLocal = isLocal;
    this.#receiver = receiver;
    this.#suffix = suffix;
    this.#signal = signal;
    this.#note = note;
  }

  /** A name or an idempotency key that no other run has. */
  own(name: string): string {
    return `${name}-${this.#suffix}`;
  }

  note(line: string): void {
    this.#note(line);
  }

  /** An endpoint of the receiver that answers by the script. */
  async endpoint(name: string, script: Script): Promise<Endpoint> {
    if (this.#receiver === undefined) throw new Error(`The check of ${name} has no receiver`);
    const endpoint = endpointOf(this.#receiver, this.own(name));
    await endpoint.setScript(script);
    return endpoint;
  }

  /** Polls until it is so or the time is over; returns whether it is. */
  async until(isSo: () => boolean | Promise<boolean>, withinMs: number, everyMs = POLL_MS): Promise<boolean> {
    const end = Date.now() + withinMs;
    for (;;) {
      if (await isSo()) return true;
      if (Date.now() > end) return false;
      await this.wait(everyMs);
    }
  }

  /** The hits of the endpoint once they are as wanted, or when the time is over. */
  async hitsOnce(
    endpoint: Endpoint,
    areSo: (hits: readonly Hit[]) => boolean,
    withinMs: number,
  ): Promise<readonly Hit[]> {
    let hits: readonly Hit[] = [];
    await this.until(async () => {
      hits = await endpoint.hits();
      return areSo(hits);
    }, withinMs);
    return hits;
  }

  /** @throws Interrupted when the run is */
  async wait(ms: number): Promise<void> {
    this.throwIfInterrupted();
    await sleep(ms, undefined, { signal: this.#signal }).catch(() => this.throwIfInterrupted());
  }

  throwIfInterrupted(): void {
    if (this.#signal.aborted) throw new Interrupted("interrupted");
  }
}

/** Whether so many distinct events have been answered with a success. */
export function arrived(count: number): (hits: readonly Hit[]) => boolean {
  return (hits) => {
    const successes = hits.filter(({ status }) => status !== null && status >= 200 && status < 300);
    return new Set(successes.map(({ event }) => event)).size >= count;
  };
}
