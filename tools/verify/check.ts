/** A check, and the tools that it works with. */
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
  /** No other check runs at the same time: checks that measure time need the deployment for themselves. */
  runsAlone?: true;
  usesReceiver?: true;
  /** Shows that the receiver is reached: if it fails, no check that uses the receiver means anything. */
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
  /** Random, so that names are unique to this run. */
  suffix: string;
  signal: AbortSignal;
  note: (line: string) => void;
}>;

type DestinationSettings = Readonly<Partial<Script> & Record<string, unknown>>;

/** An endpoint of the receiver, and the destination that leads to it. */
export type CheckTarget = ReceiverEndpoint & VerifiedDestination;

/** One run: the deployment, the receiver, and how checks wait. */
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

  /** A name or an idempotency key that is unique to this run. */
  unique(name: string): string {
    return `${name}-${this.#context.suffix}`;
  }

  note(line: string): void {
    this.#context.note(line);
  }

  /** An endpoint of the receiver that answers by the script. */
  async endpoint(name: string, script: Script): Promise<ReceiverEndpoint> {
    const { receiver } = this.#context;
    if (receiver === undefined) throw new Error(`The check of ${name} has no receiver`);
    const endpoint = endpointNamed(receiver, this.unique(name));
    await endpoint.setScript(script);
    return endpoint;
  }

  /**
   * Creates an endpoint, and a destination for it that takes the events of this name.
   * @param settings the destination's, and the endpoint's script; by default it always answers 204
   */
  async target(
    name: string,
    { per = "request", replies = [{ status: 204 }], ...settings }: DestinationSettings = {},
  ): Promise<CheckTarget> {
    const endpoint = await this.endpoint(name, { per, replies });
    return { ...endpoint, ...(await this.deployment.createDestination(name, endpoint.url, settings)) };
  }

  /** Posts `count` events in one batch, with the name as idempotency key; returns their ids. */
  async post({ type }: VerifiedDestination, count: number, name: string): Promise<readonly string[]> {
    const data = Array.from({ length: count }, (_, n) => ({ n }));
    return (await this.deployment.post(type, data, this.unique(name))).map(({ id }) => id);
  }

  /** Polls until the condition holds or the time is over; returns whether it holds. */
  async until(isSo: () => boolean | Promise<boolean>, withinMs: number, everyMs = POLL_MS): Promise<boolean> {
    const end = Date.now() + withinMs;
    for (;;) {
      if (await isSo()) return true;
      if (Date.now() > end) return false;
      await this.wait(everyMs);
    }
  }

  /** The hits of the endpoint, as soon as they fulfil the condition or when the time is over. */
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

  /** @throws CheckInterrupted when the run is interrupted */
  async wait(ms: number): Promise<void> {
    this.throwIfInterrupted();
    await sleep(ms, undefined, { signal: this.#context.signal }).catch(() => this.throwIfInterrupted());
  }

  throwIfInterrupted(): void {
    if (this.#context.signal.aborted) throw new CheckInterrupted("interrupted");
  }
}

/** Whether this many distinct events have been answered with a success. */
export function arrived(count: number): (hits: readonly EndpointHit[]) => boolean {
  return (hits) => {
    const successes = hits.filter(({ status }) => wasSuccessful(status));
    return new Set(successes.map(({ event }) => event)).size >= count;
  };
}
