/**
 * Where new events go: to which database, and to which of the objects of intake. One for each isolate.
 */

import type { Config } from "../config.ts";
import { countAt, countsBetween, type DatabaseCount, shardsOf } from "../core/placement.ts";
import { faultOf, type Log } from "../log.ts";
import { BoundedMap } from "../memory.ts";
import { allOf, type Databases, databaseHistory } from "../store/databases.ts";
import { type Timing, within } from "../time.ts";

/** How old the history may be before it is read again beside other work, and before it is waited for, ms. */
const REFRESH_MS = 60_000;
const MOST_AGE_MS = 10 * 60_000;
const TIMEOUT_MS = 5_000;

/** Posts of a tenant in a second of this isolate, from which on they go to all shards. Isolates may be hundreds. */
const MANY = 3;
const SECOND_MS = 1_000;

/** How long a tenant is remembered as pinned, ms, and how many are. */
const PINNED_MS = 10 * 60_000;
const MOST_PINNED = 10_000;

type Isolate = Databases &
  Timing &
  Readonly<{
    config: Pick<Config, "eventDatabases">;
    log: Log;
    background: (work: Promise<unknown>) => void;
  }>;

export type Places = Readonly<{
  /** How many databases take new events now, counted from the first. */
  count: number;
  /** Each number of databases that was in effect at some time since then, epoch ms, including this one. */
  countsSince: (from: number) => readonly number[];
}>;

export class PlacementCache {
  /**
   * The history of the number of databases.
   *
   * - It saves a post a query of the first database.
   * - Cold, or unused for ten minutes, it costs each invocation that query, of a row for each change. Nothing else is
   *   cached. With a single database it is never read.
   * - It may be ten minutes old. Changes come into effect later than that after they were stored, so none is missed.
   * - Nothing invalidates it; it is read again once a minute, while there are posts.
   */
  #history: Readonly<{ counts: readonly DatabaseCount[]; readAt: number }> | undefined;
  /** Readings under way, by the invocation's own database object: one that was killed never settles, so no other waits for it. */
  readonly #readings = new WeakMap<D1Database, Promise<readonly DatabaseCount[]>>();

  /**
   * Calls under way to each shard, and posts of each tenant in this second.
   *
   * - They keep the tenants of an object few, so that its routing cache holds them, and its load even.
   * - Cold, they say that nothing is under way: a tenant goes to either of its two shards. Full there are as many as there
   *   are shards, and tenants in a second.
   * - They are never stale, but they know only this isolate: any choice is right.
   * - The posts of a second are forgotten with it.
   */
  readonly #calls = new Map<number, number>();
  #second = 0;
  #posts = new Map<string, number>();

  /**
   * Until when tenants are taken to be pinned to the first database, epoch ms; and since when a further database has refused
   * one (store/commit.ts), by `database tenant`.
   *
   * - The first saves a post a commit to a further database that refuses it; the second saves one with a key a look there.
   * - Cold it costs that refusal, once for each tenant in ten minutes, and those looks. Full the same for the tenants remembered
   *   first.
   * - Old it sends events to the first database for up to ten minutes after a tenant's last ordered destination is gone, which
   *   is right too. A tenant that it does not know as pinned is noticed by the commit.
   * - Nothing invalidates it.
   */
  readonly #pinnedUntil = new BoundedMap<number>(MOST_PINNED);
  readonly #refusedSince = new BoundedMap<number>(MOST_PINNED);

  isPinned(tenant: string, now: number): boolean {
    return (this.#pinnedUntil.get(tenant) ?? 0) > now;
  }

  pin(tenants: Iterable<string>, now: number): void {
    for (const tenant of tenants) this.#pinnedUntil.set(tenant, now + PINNED_MS);
  }

  /** Since when the further database refuses the tenant, epoch ms; infinity where that is not known. */
  refusedSince(database: number, tenant: string): number {
    return this.#refusedSince.get(`${database} ${tenant}`) ?? Number.POSITIVE_INFINITY;
  }

  keepRefused(database: number, pinned: ReadonlyMap<string, number>): void {
    for (const [tenant, since] of pinned) this.#refusedSince.set(`${database} ${tenant}`, since);
  }

  /** Throws where the history is needed and cannot be read. */
  async places(services: Isolate): Promise<Places> {
    const bound = allOf(services).length;
    if (bound === 1) return { count: 1, countsSince: () => [1] };
    const configured = services.config.eventDatabases ?? bound;
    const history = await this.#read(services);
    const now = services.now();
    const count = countAt(history, now, { bound, configured });
    return {
      count,
      countsSince: (from) => [...new Set([count, ...countsBetween(history, from, now, bound)])],
    };
  }

  async #read(services: Isolate): Promise<readonly DatabaseCount[]> {
    const { now, db, background, log } = services;
    const known = this.#history;
    const age = known ? now() - known.readAt : Number.POSITIVE_INFINITY;
    if (known && age < REFRESH_MS) return known.counts;
    const reading = this.#readings.get(db) ?? this.#begin(services);
    if (!known || age >= MOST_AGE_MS) return reading;
    background(reading.catch((error) => log({ what: "history_unread", error: faultOf(error) })));
    return known.counts;
  }

  #begin(services: Isolate): Promise<readonly DatabaseCount[]> {
    const { db } = services;
    const readAt = services.now();
    const reading = within(services, TIMEOUT_MS, databaseHistory(db))
      .then((counts) => {
        this.#history = { counts, readAt };
        return counts;
      })
      .finally(() => this.#readings.delete(db));
    this.#readings.set(db, reading);
    return reading;
  }

  /**
   * Calls a shard for a post of the tenant: the one of its two that has less to do as far as this isolate knows. A tenant
   * that posts much goes to all shards.
   */
  async withShard<T>(
    { now, random }: Pick<Timing, "now" | "random">,
    tenant: string,
    shards: number,
    call: (shard: number) => Promise<T>,
  ): Promise<T> {
    const isBusy = this.#count(tenant, now()) > MANY;
    const any = () => Math.floor(random() * shards);
    const candidates = isBusy ? [any(), any()] : shardsOf(tenant, shards);
    const [first = 0, second = first] = random() < 0.5 ? candidates : candidates.toReversed();
    const shard = this.#load(second) < this.#load(first) ? second : first;
    this.#calls.set(shard, this.#load(shard) + 1);
    try {
      return await call(shard);
    } finally {
      this.#calls.set(shard, this.#load(shard) - 1);
    }
  }

  #load(shard: number): number {
    return this.#calls.get(shard) ?? 0;
  }

  /** Counts a post of the tenant; returns how many there have been in this second. */
  #count(tenant: string, now: number): number {
    const second = Math.floor(now / SECOND_MS);
    if (second !== this.#second) {
      this.#second = second;
      this.#posts = new Map();
    }
    const posts = (this.#posts.get(tenant) ?? 0) + 1;
    this.#posts.set(tenant, posts);
    return posts;
  }
}
