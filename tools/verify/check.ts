/** A check, and the tools that it has to work with. */
import { setTimeout as sleep } from "node:timers/promises";
import type { DeploymentUnderTest } from "./deployment.ts";
import type { CheckResult } from "./judge.ts";
import type { VerifyOptions } from "./options.ts";
import type { EndpointHit, Script } from "./protocol.ts";
import { endpointNamed, type ReceiverEndpoint, type VerifyReceiver } from "./receiver.ts";

export type Skipped = Readonly<{ skipped: string }>;

export type Check = Readonly<{
  name: string;
  /** The expectation, in words. */
  expected: string;
  /** Whether others may run at the same time: those that measure time must have the deployment to themselves. */
  runs: "alone" | "together";
  usesReceiver: boolean;
  /** Shows that the receiver is reached: when it fails, no check that uses the receiver means anything. */
  reachesReceiver?: boolean;
  run: (run: Run) => Promise<CheckResult | Skipped>;
}>;

/** Ends a check of a run that has been interrupted. */
export class CheckInterrupted extends Error {}

const POLL_MS = 500;

/** One run: the deployment, the receiver, and the waiting of the checks. */
export class Run {
  readonly deployment: DeploymentUnderTest;
  readonly options: VerifyOptions;
  /** Whether the deployment is a local stack. */
  readonly isLocal: boolean;
  readonly #receiver: VerifyReceiver | undefined;
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
    deployment: DeploymentUnderTest;
    options: VerifyOptions;
    isLocal: boolean;
    receiver: VerifyReceiver | undefined;
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
  async endpoint(name: string, script: Script): Promise<ReceiverEndpoint> {
    if (this.#receiver === undefined) throw new Error(`The check of ${name} has no receiver`);
    const endpoint = endpointNamed(this.#receiver, this.own(name));
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
    endpoint: ReceiverEndpoint,
    areSo: (hits: readonly EndpointHit[]) => boolean,
    withinMs: number,
  ): Promise<readonly EndpointHit[]> {
    let hits: readonly EndpointHit[] = [];
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
    if (this.#signal.aborted) throw new CheckInterrupted("interrupted");
  }
}

/** Whether so many distinct events have been answered with a success. */
export function arrived(count: number): (hits: readonly EndpointHit[]) => boolean {
  return (hits) => {
    const successes = hits.filter(({ status }) => status !== null && status >= 200 && status < 300);
    return new Set(successes.map(({ event }) => event)).size >= count;
  };
}
