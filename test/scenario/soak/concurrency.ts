/** How many requests one endpoint, or the endpoints of a group, have at once, and how many they may have. */
import type { Hit } from "../../../tools/receiver.ts";
import type { Check, Findings } from "./checks.ts";
import { type Kills, timeOf } from "./kills.ts";

/** A limit that is lowered holds from the next lease on: one that is out ends within this time. */
export const LEASED_MS = 45_000;
/** A connection that the sender has closed is seen as closed within this time. */
const CLOSING_MS = 200;

/** Calls back after so many ms. */
export type Later = (ms: number, then: () => void) => void;

type Options = Readonly<{
  check: Extract<Check, "concurrency" | "group">;
  name: string;
  max: number;
  findings: Findings;
  kills: Kills;
  later: Later;
}>;

export class Concurrency {
  readonly #given: Options;
  /** When each has timed out for its sender. */
  readonly #inFlight = new Map<Hit, number>();
  readonly #limits: { max: number; since: number }[];

  constructor(options: Options) {
    this.#given = options;
    this.#limits = [{ max: options.max, since: 0 }];
  }

  get inFlight(): readonly Hit[] {
    return [...this.#inFlight.keys()];
  }

  /** The limit at the moment. */
  get limit(): number {
    return this.#limits.at(-1)?.max ?? 0;
  }

  limited(max: number, at: number): void {
    this.#limits.push({ max, since: at });
  }

  /** @param isJudged false: the version that limits them may not be in charge */
  arrived(hit: Hit, timeoutMs: number, isJudged = true): void {
    this.#inFlight.set(hit, hit.at + timeoutMs);
    if (isJudged) this.#judge(hit);
  }

  ended(hit: Hit): void {
    this.#inFlight.delete(hit);
  }

  #judge(hit: Hit): void {
    const { check, name, findings, kills, later } = this.#given;
    // One that has timed out is over for its sender, whenever its connection is seen as closed.
    const atOnce = [...this.#inFlight].filter(([, until]) => until > hit.at).map(([one]) => one);
    const allowed = this.#allowedAt(hit.at);
    if (atOnce.length <= allowed) {
      findings.observe(check, true, () => "");
      return;
    }
    later(CLOSING_MS, () => {
      const left = atOnce.filter(({ hungUp }) => !hungUp).length;
      const text = () =>
        `${name}: ${left} at once, ${allowed} allowed, at ${timeOf(hit.at)}${kills.shortlyBefore(hit.at)}`;
      findings.observe(check, left <= allowed, text);
    });
  }

  /** The highest of the limits that a lease may have been granted by which is out then. */
  #allowedAt(at: number): number {
    const endOf = (i: number) => this.#limits[i + 1]?.since ?? Number.POSITIVE_INFINITY;
    return Math.max(...this.#limits.filter((_, i) => endOf(i) > at - LEASED_MS).map(({ max }) => max));
  }
}
