/**
 * An isolate's memory of names and tokens between invocations, beside its `RoutingCache`. It belongs to
 * `Services`, so that a test has as many isolates as it makes, each with a memory of its own.
 */

import type { GroupSettings } from "./core/group/group-state.ts";
import type { Compiled } from "./core/transform/liquid.ts";
import type { TransformFault } from "./core/transform/result.ts";
import type { TransformVersion } from "./core/transform/versions.ts";

/** Values by name, up to a maximum: the one that was written longest ago makes room. */
export class BoundedMap<Value> {
  readonly #values = new Map<string, Value>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#values.size;
  }

  get(name: string): Value | undefined {
    return this.#values.get(name);
  }

  set(name: string, value: Value): void {
    this.#values.delete(name);
    this.#values.set(name, value);
    const [oldest] = this.#values.size > this.#most ? this.#values.keys() : [];
    if (oldest !== undefined) this.#values.delete(oldest);
  }

  delete(name: string): void {
    this.#values.delete(name);
  }

  clear(): void {
    this.#values.clear();
  }
}

/** The rights that the addresses of a receiver's name give. */
export type Resolution =
  /** Every address is public, or there is none: then the attempt itself fails with that error. */
  | Readonly<{ kind: "public" }>
  | Readonly<{ kind: "private"; address: string }>
  /** The resolver failed. */
  | Readonly<{ kind: "unknown"; fault: string }>;

export type Memory = Readonly<{
  /**
   * Resolutions of receivers' names, by resolver and name. Each saves two queries to the resolver; missing, old or
   * evicted ones cost these two. A name that has moved to a private address passes until its time to live is over, five
   * minutes at most. Never a query under way: a promise must not outlive the request that it belongs to.
   */
  resolutions: BoundedMap<Readonly<{ resolution: Resolution; until: number }>>;
  /**
   * Access tokens as gates keep them, by destination. Each saves a call to the gate; a missing one costs that call. One
   * that has been replaced is used until it expires or a receiver refuses it; a request decides by the terms whether it
   * counts, so changed credentials apply at once.
   */
  accessTokens: BoundedMap<Readonly<{ terms: string; sealed: string; usableUntil: number }>>;
  /**
   * Limits of groups, by name. Each saves a query of one row for a block; a missing or old one costs that query. A change
   * applies within ten seconds.
   */
  groupSettings: BoundedMap<Readonly<{ settings: GroupSettings; until: number }>>;
  /**
   * The hosts that many destinations share, if the configuration has them counted: one entry. It saves a query of one
   * row a minute; a missing one costs that query.
   */
  sharedHosts: BoundedMap<Readonly<{ hosts: readonly string[]; until: number }>>;
  /**
   * Templates ready to be filled in, by their JSON. Each saves parsing it, less than a millisecond; a missing one costs that.
   * None can be out of date.
   */
  templates: BoundedMap<Compiled | TransformFault>;
  /**
   * Former versions of transformations, by destination, all before one version. Each saves a query for an event older than
   * the current version; a missing one costs that query. A version never changes, and with a newer one they are read again.
   */
  formerTransforms: BoundedMap<Readonly<{ before: number; versions: readonly TransformVersion[] }>>;
  /**
   * Sessions that have ended, by id, with until when (epoch ms) they are not looked up again. Each saves a query for every further
   * request with their token; a missing one costs that query. None comes back to life, so none can be wrong.
   */
  endedSessions: BoundedMap<number>;
}>;

const MOST_KEPT = 1_000;
/** The most templates, which may be long. */
const MOST_TEMPLATES = 100;

/** The memory of an isolate that has just started. */
export function newMemory(): Memory {
  return {
    resolutions: new BoundedMap(MOST_KEPT),
    accessTokens: new BoundedMap(MOST_KEPT),
    groupSettings: new BoundedMap(MOST_KEPT),
    sharedHosts: new BoundedMap(1),
    templates: new BoundedMap(MOST_TEMPLATES),
    formerTransforms: new BoundedMap(MOST_TEMPLATES),
    endedSessions: new BoundedMap(MOST_KEPT),
  };
}
