/**
 * Intake: a Durable Object that commits the single events of concurrent requests together, as databases do with group
 * commit. While one commit is under way, the next bundles gather. With one caller it commits at once; the linger
 * (`INTAKE_LINGER_MS`) is for traffic so dense that a few milliseconds fill bundles. Pending events are bounded: beyond
 * that a request is refused as a whole.
 */

import { DurableObject } from "cloudflare:workers";
import { MAX_EVENTS } from "../core/bundle.ts";
import { type Services, servicesOf } from "../services.ts";
import { databaseAt } from "../store/databases.ts";
import { type Entry, entryBytes, keyTenantOf, UNAVAILABLE } from "./bundle.ts";
import { type CommittedBundle, commitEntries } from "./commit.ts";
import { enqueueCommitted } from "./enqueue.ts";
import { INTAKE_VERSION, type IntakeResult, type IntakeRpc, SECOND_CALL_MS } from "./intake-protocol.ts";

/** Events pending at once: some seconds of traffic at a thousand a second. */
const MOST_PENDING = 5_000;
const MOST_BYTES = 16 * 1024 * 1024;
/** The events of one commit, and the bytes of their bodies, which are twice as many on the wire. */
const COMMIT_EVENTS = 10 * MAX_EVENTS;
const COMMIT_BYTES = 2 * 1024 * 1024;
/** How long a tenant's events are committed by themselves after D1 has refused one of them. */
const APART_MS = 60_000;
/** Concurrent sends to the queue; bundles committed meanwhile gather for the next. */
const MOST_SENDS = 2;
/** Bundles that wait for a send. Those beyond are left to the sweep. */
const MOST_UNSENT = 10_000;

export class Intake extends DurableObject<Env> {
  readonly #commits = new GroupCommit(servicesOf(this.env, this.ctx));

  /** Commits one event together with those of other requests; resolves when it is in D1. */
  accept(...request: Parameters<IntakeRpc["accept"]>): Promise<IntakeResult> {
    return this.#commits.accept(...request);
  }
}

type Pending = Readonly<{ entry: Entry; resolve: (result: IntakeResult) => void }>;

/** Pending events and the commit under way, of one database. */
export class GroupCommit {
  readonly #services: Services;
  readonly #outbox: Outbox;
  #pending: Pending[] = [];
  #bytes = 0;
  #isCommitting = false;
  /** Until when the events of a tenant are committed by themselves, so that one fault is not searched for every time. */
  readonly #apartUntil = new Map<string, number>();

  constructor(services: Services) {
    this.#services = services;
    this.#outbox = new Outbox(services);
  }

  /** @param posted as its Worker has it: the object adds when it arrived, and where earlier tries of it may be */
  accept(version: number, database: number, posted: Entry): Promise<IntakeResult> {
    if (version !== INTAKE_VERSION) return Promise.resolve({ kind: "unknown" });
    const bytes = entryBytes(posted);
    const isFull = this.#pending.length >= MOST_PENDING || this.#bytes + bytes > MOST_BYTES;
    if (isFull) return Promise.resolve({ kind: "full" });
    const entry = { ...posted, floor: this.#floorOf(database), arrivedAt: this.#services.now() };
    return new Promise((resolve) => {
      this.#pending.push({ entry, resolve });
      this.#bytes += bytes;
      if (!this.#isCommitting) this.#services.background(this.#commitPending(database));
    });
  }

  /**
   * Undefined while it is being read: entries that have arrived by then get it, as long as no other object may have
   * tried them.
   */
  #floorOf(database: number): number | undefined {
    const { routing } = this.#services;
    if (routing.hasFloor(database)) return routing.floor(database);
    const read = routing.readFloor(databaseAt(this.#services, database), database).then(
      () => this.#giveFloor(routing.floor(database)),
      // The commit reads it again.
      () => undefined,
    );
    this.#services.background(read);
    return undefined;
  }

  #giveFloor(floor: number): void {
    const now = this.#services.now();
    this.#pending = this.#pending.map((pending) => {
      const { entry } = pending;
      const isEarly = entry.arrivedAt !== undefined && now - entry.arrivedAt < SECOND_CALL_MS;
      return entry.floor === undefined && isEarly ? { ...pending, entry: { ...entry, floor } } : pending;
    });
  }

  async #commitPending(database: number): Promise<void> {
    this.#isCommitting = true;
    try {
      while (this.#pending.length > 0) {
        await this.#linger();
        const taken = this.#take();
        const entries = taken.map(({ entry }) => entry);
        const now = this.#services.now();
        const { outcomes, bundles, faultyTenants } = await commitEntries(
          this.#services,
          database,
          entries,
          now,
        );
        this.#keepApart(faultyTenants);
        for (const [i, { resolve }] of taken.entries()) {
          resolve({ kind: "done", outcome: outcomes[i] ?? UNAVAILABLE });
        }
        this.#outbox.add(bundles);
      }
    } finally {
      this.#isCommitting = false;
    }
  }

  /** Without a linger it waits for one microtask: calls of the same moment arrive one after the other. */
  async #linger(): Promise<void> {
    const { intakeLingerMs } = this.#services.config;
    await (this.#pending.length > 1 && intakeLingerMs > 0
      ? this.#services.sleep(intakeLingerMs)
      : Promise.resolve());
  }

  #keepApart(tenants: readonly string[]): void {
    const now = this.#services.now();
    for (const [tenant, until] of this.#apartUntil) if (until <= now) this.#apartUntil.delete(tenant);
    for (const tenant of tenants) this.#apartUntil.set(tenant, now + APART_MS);
  }

  #isApart({ entry }: Pending): boolean {
    const until = this.#apartUntil.get(keyTenantOf(entry));
    return until !== undefined && until > this.#services.now();
  }

  /** The oldest entries that fit into one commit; one that is isolated is committed alone. */
  #take(): Pending[] {
    let bytes = 0;
    let count = 0;
    for (const one of this.#pending) {
      const isApart = this.#isApart(one);
      const own = entryBytes(one.entry);
      if (count > 0 && (isApart || count >= COMMIT_EVENTS || bytes + own > COMMIT_BYTES)) break;
      bytes += own;
      count += 1;
      if (isApart) break;
    }
    this.#bytes -= bytes;
    return this.#pending.splice(0, count);
  }
}

/** Committed bundles that are not on the queue yet: a few sends at once, each of all that has gathered by then. */
class Outbox {
  readonly #services: Services;
  #unsent: CommittedBundle[] = [];
  #sends = 0;

  constructor(services: Services) {
    this.#services = services;
  }

  add(bundles: readonly CommittedBundle[]): void {
    const free = Math.max(0, MOST_UNSENT - this.#unsent.length);
    if (bundles.length > free)
      this.#services.log({ what: "bundles_not_enqueued", bundles: bundles.length - free });
    this.#unsent.push(...bundles.slice(0, free));
    if (this.#unsent.length > 0 && this.#sends < MOST_SENDS) this.#services.background(this.#send());
  }

  async #send(): Promise<void> {
    this.#sends += 1;
    try {
      while (this.#unsent.length > 0) await enqueueCommitted(this.#services, this.#unsent.splice(0));
    } finally {
      this.#sends -= 1;
    }
  }
}
