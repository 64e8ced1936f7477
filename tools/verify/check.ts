/** A check, and the tools that it has to work with. */
import { setTimeout as sleep } from "node:timers/promises";
import type { DeploymentUnderTest, VerifiedDestination } from "./deployment.ts";
import { type CheckResult, wasSuccessful } from "./judge.ts";
import type { VerifyOptions } from "./options.ts";
import type { EndpointHit, Script } from "./protocol.ts";
import { endpointNamed, type ReceiverEndpoint, type VerifyReceiver } from "./receiver.ts";

export type Skipped = Readonly<{ skipped: string }>;

export type Check = Readonly<{
  name: string;
  expected: string;
  /** No other runs at the same time: those that measure time must have the deployment to themselves. */
  runsAlone?: true;
  usesReceiver?: true;
  /** Shows that the receiver is reached: when it fails, no check that uses the receiver means anything. */
  reachesReceiver?: true;
  run: (run: Run) => Promise<CheckResult | Skipped>;
}>;

/** Ends a check of a run that has been interrupted. */
export class CheckInterrupted extends Error {}

const POLL_MS = 500;

type RunContext = Readonly<{
  deployment: DeploymentUnderTest;
  options: VerifyOptions;
  isLocal: boolean;
  receiver: VerifyReceiver | undefined;
  /** Random: it makes names the run's own. */
  suffix: string;
  signal: AbortSignal;
  note: (line: string) => void;
}>;

type DestinationSettings = Readonly<Partial<Script> & Record<string, unknown>>;

/** An endpoint of the receiver, and the destination that leads to it. */
export type CheckTarget = ReceiverEndpoint & VerifiedDestination;

/** One run: the deployment, the receiver, and the waiting of the checks. */
export class Run {
  readonly deployment: DeploymentUnderTest;
  readonly options: VerifyOptions;
  readonly isLocal: boolean;
  readonly #context: RunContext;

  constructor(context: RunContext) {
    this.deployment = context.deployment;
    this.options = context.options;
    this.isLocal = context.isLocal;
    this.#context = context;
  }

  /** A name or an idempotency key that no other run has. */
  own(name: string): string {
    return `${name}-${this.#context.suffix}`;
  }

  note(line: string): void {
    this.#context.note(line);
  }

  /** An endpoint of the receiver that answers by the script. */
  async endpoint(name: string, script: Script): Promise<ReceiverEndpoint> {
    const { receiver } = this.#context;
    if (receiver === undefined) throw new Error(`The check of ${name} has no receiver`);
    const endpoint = endpointNamed(receiver, this.own(name));
    await endpoint.setScript(script);
    return endpoint;
  }

  /**
   * An endpoint, and a destination for it that takes the events of this name.
   * @param settings the destination's, and the endpoint's script unless it answers 204 always
   */
  async target(
    name: string,
    { per = "request", replies = [{ status: 204 }], ...settings }: DestinationSettings = {},
  ): Promise<CheckTarget> {
    const endpoint = await this.endpoint(name, { per, replies });
    return { ...endpoint, ...(await this.deployment.createDestination(name, endpoint.url, settings)) };
  }

  /** Posts so many events in one batch, which the name makes unrepeatable; returns their ids. */
  async post({ type }: VerifiedDestination, count: number, name: string): Promise<readonly string[]> {
    const data = Array.from({ length: count }, (_, n) => ({ n }));
    return (await this.deployment.post(type, data, this.own(name))).map(({ id }) => id);
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
    await sleep(ms, undefined, { signal: this.#context.signal }).catch(() => this.throwIfInterrupted());
  }

  throwIfInterrupted(): void {
    if (this.#context.signal.aborted) throw new CheckInterrupted("interrupted");
  }
}

/** Whether so many distinct events have been answered with a success. */
export function arrived(count: number): (hits: readonly EndpointHit[]) => boolean {
  return (hits) => {
    const successes = hits.filter(({ status }) => wasSuccessful(status));
    return new Set(successes.map(({ event }) => event)).size >= count;
  };
}
