/**
 * What one endpoint gets as a whole: how many requests at once, whether it has the quiet that it has asked for, and whether
 * its traffic begins again with one.
 */
import type { Hit } from "../../../tools/receiver.ts";
import type { Findings } from "./checks.ts";
import type { Customer } from "./customers.ts";
import { type Kills, timeOf } from "./kills.ts";

/**
 * How long a request may still come after its destination was asked for quiet, or its delivery cancelled: a lease looks once
 * a second whether another has been told, and calls take up to a second.
 */
export const UNDER_WAY_MS = 5_000;
/** Until the gate has stored that a receiver wants quiet: it is told at once, and a call takes up to a second. */
const UNTOLD_MS = 3_000;
/** A limit that is lowered holds from the next lease on: one that is out ends within this time. */
const LEASED_MS = 45_000;
/** A connection that the sender has closed is seen as closed within this time. */
const CLOSING_MS = 200;

/** Calls back after so many ms. */
export type Later = (ms: number, then: () => void) => void;

export class EndpointBook {
  readonly #customer: Customer;
  readonly #findings: Findings;
  readonly #kills: Kills;
  readonly #later: Later;
  readonly #inFlight = new Set<Hit>();
  readonly #limits: { max: number; since: number }[];
  #quiet: { from: number; until: number } | undefined;
  /** Requests that came so shortly after a request for quiet that they were under way. */
  underWay = 0;

  constructor(customer: Customer, findings: Findings, kills: Kills, later: Later) {
    this.#customer = customer;
    this.#findings = findings;
    this.#kills = kills;
    this.#later = later;
    this.#limits = [{ max: customer.maxConcurrency, since: 0 }];
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** `max_concurrency` at the moment. */
  get limit(): number {
    return this.#limits.at(-1)?.max ?? 0;
  }

  limited(max: number, at: number): void {
    this.#limits.push({ max, since: at });
  }

  arrived(hit: Hit): void {
    this.#inFlight.add(hit);
    this.#checkConcurrency(hit);
    this.#checkQuiet(hit);
  }

  /**
   * A request was answered, or its sender has hung up.
   * @param quietMs what its answer has asked for
   */
  ended(hit: Hit, quietMs: number): void {
    this.#inFlight.delete(hit);
    const { status, hungUp, answeredAt = 0 } = hit;
    if (hungUp) return;
    const quiet = this.#quiet;
    if (status === 200 && quiet && hit.at >= quiet.until) this.#quiet = undefined;
    if (status !== 429) return;
    const until = answeredAt + quietMs;
    if (quiet && answeredAt < quiet.until) quiet.until = Math.max(quiet.until, until);
    else this.#quiet = { from: answeredAt, until };
  }

  #checkConcurrency(hit: Hit): void {
    const { path, timeoutMs } = this.#customer;
    // One that has timed out is over for its sender, whenever its connection is seen as closed.
    const atOnce = [...this.#inFlight].filter((one) => one.at + timeoutMs > hit.at);
    const allowed = this.#allowedAt(hit.at);
    if (atOnce.length <= allowed) {
      this.#findings.observe("concurrency", true, () => "");
      return;
    }
    this.#later(CLOSING_MS, () => {
      const left = atOnce.filter(({ hungUp }) => !hungUp).length;
      const text = () =>
        `${path}: ${left} at once, ${allowed} allowed, at ${timeOf(hit.at)}${this.#kills.shortlyBefore(hit.at)}`;
      this.#findings.observe("concurrency", left <= allowed, text);
    });
  }

  /** The highest of the limits that a lease may have been granted by which is out then. */
  #allowedAt(at: number): number {
    const endOf = (i: number) => this.#limits[i + 1]?.since ?? Number.POSITIVE_INFINITY;
    return Math.max(...this.#limits.filter((_, i) => endOf(i) > at - LEASED_MS).map(({ max }) => max));
  }

  #checkQuiet(hit: Hit): void {
    if (this.#quiet === undefined) return;
    const { path } = this.#customer;
    const { from, until } = this.#quiet;
    const isForgotten = this.#kills.hasUndone({ answeredAt: from }, hit.at, UNTOLD_MS);
    if (hit.at < until) {
      const isUnderWay = hit.at <= from + UNDER_WAY_MS;
      if (isUnderWay) this.underWay += 1;
      const text = () =>
        `${path}: ${hit.at - from} ms into a quiet of ${until - from} ms, at ${timeOf(hit.at)}`;
      this.#findings.observe("quiet", isUnderWay || isForgotten, text);
      return;
    }
    if (until - from < UNDER_WAY_MS) return;
    const since = [...this.#inFlight].filter((one) => one.at >= until && !one.hungUp);
    const text = () =>
      `${path}: ${since.length} at once before a success, ${hit.at - until} ms after a quiet`;
    this.#findings.observe("herd", since.length <= 1 || isForgotten, text);
  }
}
