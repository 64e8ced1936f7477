/**
 * The traffic of one endpoint as a whole: how many requests at once, whether its holds are respected, and whether its
 * traffic restarts with one.
 */
import type { Hit } from "../../../tools/receiver.ts";
import type { Findings } from "./checks.ts";
import { Concurrency, type Later } from "./concurrency.ts";
import type { Customer } from "./customers.ts";
import { type Kills, timeOf } from "./kills.ts";

/**
 * How long a request may still come after its receiver requested a hold, or its delivery was cancelled: a lease checks
 * once a second for another's hold, and calls take up to a second.
 */
export const UNDER_WAY_MS = 5_000;
/** The time until the gate has stored a receiver's hold: it is reported at once, and a call takes up to a second. */
const UNTOLD_MS = 3_000;
export class EndpointBook {
  readonly #customer: Customer;
  readonly #findings: Findings;
  readonly #kills: Kills;
  readonly #concurrency: Concurrency;
  #quiet: { from: number; until: number } | undefined;
  /** Requests that came so shortly after a hold was requested that they were under way. */
  underWay = 0;

  constructor(customer: Customer, findings: Findings, kills: Kills, later: Later) {
    this.#customer = customer;
    this.#findings = findings;
    this.#kills = kills;
    const { path: name, maxConcurrency: max } = customer;
    this.#concurrency = new Concurrency({ check: "concurrency", name, max, findings, kills, later });
  }

  get inFlight(): number {
    return this.#concurrency.inFlight.length;
  }

  /** `max_concurrency` at the moment. */
  get limit(): number {
    return this.#concurrency.limit;
  }

  limited(max: number, at: number): void {
    this.#concurrency.limited(max, at);
  }

  arrived(hit: Hit): void {
    this.#concurrency.arrived(hit, this.#customer.timeoutMs);
    this.#checkQuiet(hit);
  }

  /**
   * A request was answered, or its sender has hung up.
   * @param quietMs the hold that its answer requested
   */
  ended(hit: Hit, quietMs: number): void {
    this.#concurrency.ended(hit);
    const { status, hungUp, answeredAt = 0 } = hit;
    if (hungUp) return;
    const quiet = this.#quiet;
    if (status === 200 && quiet && hit.at >= quiet.until) this.#quiet = undefined;
    if (status !== 429) return;
    const until = answeredAt + quietMs;
    if (quiet && answeredAt < quiet.until) quiet.until = Math.max(quiet.until, until);
    else this.#quiet = { from: answeredAt, until };
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
    const since = this.#concurrency.inFlight.filter((one) => one.at >= until && !one.hungUp);
    const text = () =>
      `${path}: ${since.length} at once before a success, ${hit.at - until} ms after a quiet`;
    this.#findings.observe("herd", since.length <= 1 || isForgotten, text);
  }
}
