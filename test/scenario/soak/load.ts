/**
 * The soak's load: events at a steady rate, singles and batches, with and without keys, scheduled, with a time to live, and
 * in order; some of them are cancelled, erased, retried and replayed.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../../../src/core/seeded-random.ts";
import { type Answer, type Ask, SoakClient, unexpected } from "./client.ts";
import { type Customers, oneType, type SoakData } from "./customers.ts";
import type { Ledger, Outcome, Posted } from "./ledger.ts";

const TICK_MS = 100;
/** How many posts may be under way at once; beyond that the load waits and counts it. */
const MOST_POSTS = 150;

/** The share of the requests that post several events, and how many. */
const BATCHES = { share: 0.5, least: 3, more: 10 };

/** How often, and for how long, the load checks whether an erasure has completed. */
const LOOKS = 10;
const LOOK_MS = 3_000;

/** Keys of an ordered tenant. */
const KEYS = 5;
/** Until a scheduled event is due, at most. */
const SCHEDULED_MS = 45_000;
/** How much later it may be sent. */
const LATE_MS = 30_000;

export type Access = Readonly<{
  customers: Customers;
  /** Resolves with the address when the stack is up. */
  url: () => Promise<string>;
  /** Whether the current version handles everything: what only that one knows is used then. */
  isCurrent: () => boolean;
  /** Whether it does so for so many ms from now on. */
  staysCurrent: (ms: number) => boolean;
  /** Whether so much has not ended that nothing is posted for a while. */
  isFull: () => boolean;
  adminKey: string;
  /** The rate of a tenant's own key. */
  keyOf: (tenant: string) => string;
  destinations: ReadonlyMap<string, string>;
}>;

type Share = Readonly<{ of: number; do: (post: Posted) => void }>;

export class Load {
  readonly #ledger: Ledger;
  readonly #access: Access;
  readonly #random: Random;
  readonly #mend: (path: string, at: number) => void;
  #refs = 0;
  #posts = 0;
  #stopped = false;
  /** Events that were not posted because too many posts were under way, or too much had not ended. */
  skipped = 0;
  readonly made = {
    cancelled: 0,
    tooLate: 0,
    erased: 0,
    retried: 0,
    replays: 0,
    replayed: 0,
    keyedTwice: 0,
  };
  readonly client: SoakClient;
  /** The posts for each ordered tenant, one request after the other. */
  readonly #inTurn = new Map<string, Promise<void>>();
  readonly #running = new Set<Promise<void>>();

  /** @param mend makes a receiver accept what it has refused */
  constructor(ledger: Ledger, access: Access, random: Random, mend: (path: string, at: number) => void) {
    this.#ledger = ledger;
    this.#access = access;
    this.client = new SoakClient(access.url, ledger.findings);
    this.#random = random;
    this.#mend = mend;
  }

  /** Posts so many events a second until it is stopped. */
  async run(perSecond: number): Promise<void> {
    const startedAt = Date.now();
    let due = 0;
    while (!this.#stopped) {
      await sleep(TICK_MS);
      const owed = ((Date.now() - startedAt) / 1000) * perSecond;
      while (due < owed) due += this.#postSome();
    }
  }

  /** Resolves when all posts and their follow-up requests have been answered. */
  async stop(): Promise<void> {
    this.#stopped = true;
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  #background(work: () => Promise<void>): void {
    const running = work().catch((error: unknown) => {
      this.#ledger.findings.observe("answers", false, () => String(error));
    });
    const tracked = running.finally(() => this.#running.delete(tracked));
    this.#running.add(tracked);
  }

  /** Returns how many events. */
  #postSome(): number {
    const isBatch = this.#random() < BATCHES.share;
    const count = isBatch ? BATCHES.least + Math.floor(this.#random() * BATCHES.more) : 1;
    if (this.#posts >= MOST_POSTS || this.#access.isFull()) {
      this.skipped += count;
      return count;
    }
    const mayBeNew = this.#access.isCurrent();
    const tenant = this.#access.customers.oneTenant(this.#random);
    const { isOrdered, isNew } = this.#traitsOf(tenant);
    const isKeyed = this.#random() < 0.6 || isOrdered;
    // Features that the former version does not know are not used with it.
    if (isNew && !mayBeNew) return count;
    const events = Array.from({ length: count }, () => this.#event(tenant, mayBeNew));
    this.#posts += 1;
    const post = () => {
      this.#ledger.posted(events);
      return this.#post(events, { isBatch, isNew, key: isKeyed ? randomUUID() : undefined });
    };
    this.#background(() =>
      (isOrdered ? this.#next(tenant, post) : post()).finally(() => {
        this.#posts -= 1;
      }),
    );
    return count;
  }

  /** The work, when what was posted for this tenant before has been answered. */
  #next(tenant: string, work: () => Promise<void>): Promise<void> {
    const next = (this.#inTurn.get(tenant) ?? Promise.resolve()).then(work);
    this.#inTurn.set(
      tenant,
      next.catch(() => {}),
    );
    return next;
  }

  #traitsOf(tenant: string) {
    const own = this.#access.customers.takersOf(tenant, "order.paid");
    const isOrdered = own.some(({ ordering }) => ordering);
    const isPolled = own.some(({ consumer }) => consumer);
    return { isOrdered, isPolled, isNew: isOrdered || isPolled || own.some(({ isShaped }) => isShaped) };
  }

  #event(tenant: string, mayBeNew: boolean): Posted {
    this.#refs += 1;
    const random = this.#random;
    const postedAt = Date.now();
    const { isOrdered, isPolled } = this.#traitsOf(tenant);
    const isBad = (tenant === "echo" || tenant === "gale") && random() < 0.1;
    const data: SoakData = { ref: this.#refs, tenant, postedAt, ...(isBad && { bad: true }) };
    const event = {
      data,
      type: oneType(random),
      ...(isOrdered && { orderingKey: `key ${Math.floor(random() * KEYS)}` }),
    };
    const draw = random();
    // Only the current version puts due events into an inbox.
    const mayBeLater = !isOrdered && (!isPolled || this.#access.staysCurrent(SCHEDULED_MS + LATE_MS));
    if (mayBeLater && draw < 0.04)
      return {
        ...event,
        deliverAt: postedAt + SCHEDULED_MS / 3 + Math.floor(random() * (SCHEDULED_MS - SCHEDULED_MS / 3)),
      };
    // The API shows no end of events that were not fetched.
    if (mayBeNew && !isPolled && draw < 0.08)
      return { ...event, ttlMs: 1_000 * (5 + Math.floor(random() * 30)) };
    return event;
  }

  async #post(
    events: readonly Posted[],
    { isBatch, isNew, key }: { isBatch: boolean; isNew: boolean; key: string | undefined },
  ): Promise<void> {
    const [first] = events;
    if (first === undefined) return;
    const { tenant } = first.data;
    const path = isBatch ? "/v1/events/batch" : "/v1/events";
    const shown = events.map(({ data, type, deliverAt, ttlMs, orderingKey }) => ({
      type,
      tenant,
      data,
      ...(deliverAt !== undefined && { deliver_at: new Date(deliverAt).toISOString() }),
      ...(ttlMs !== undefined && { ttl: ttlMs / 1000 }),
      ...(orderingKey !== undefined && { ordering_key: orderingKey }),
    }));
    const toNew = isNew || events.some(({ ttlMs }) => ttlMs !== undefined) ? "/new" : "";
    const body = isBatch ? { events: shown } : shown[0];
    const ask = () => this.#ask("POST", `${toNew}${path}`, { body, key, apiKey: this.#keyFor(tenant) });
    const answer = await ask();
    const refs = events.map(({ data }) => data.ref);
    if (answer === undefined) {
      this.#ledger.unanswered(refs);
      return;
    }
    if (answer.status !== 202)
      throw new Error(`${path} answered ${answer.status}: ${JSON.stringify(answer.body).slice(0, 300)}`);
    const accepted = acceptedIn(answer.body);
    const at = Date.now();
    const paths = new Map([...this.#access.destinations].map(([of, id]) => [id, of]));
    events.forEach(({ data }, i) => {
      const { id = "", deliveries = [] } = accepted[i] ?? {};
      const ids = new Map(deliveries.map((one) => [paths.get(one.destination_id) ?? "", one.id]));
      this.#ledger.accepted(data.ref, id, ids, at);
    });
    if (key !== undefined && this.#random() < 0.1) {
      const again = await ask();
      this.made.keyedTwice += 1;
      const same = again === undefined || acceptedIn(again.body).every(({ id }, i) => id === accepted[i]?.id);
      this.#ledger.findings.observe(
        "key",
        same,
        () => `${refs[0]} posted twice under a key: ${JSON.stringify(again?.body)}`,
      );
    }
    if (this.#random() < 0.05) this.#background(() => this.#lookAsAnother(tenant, accepted[0]?.id ?? ""));
    if (!isBatch) this.#follow(first);
  }

  /** Another tenant's key sees neither this event nor any other of the tenant's. */
  async #lookAsAnother(tenant: string, event: string): Promise<void> {
    const other = this.#access.customers.oneTenant(this.#random);
    if (other === tenant) return;
    const apiKey = this.#access.keyOf(other);
    const isList = this.#random() < 0.2;
    const path = isList ? "/v1/events?limit=20" : `/v1/events/${event}`;
    const answer = await this.#ask("GET", path, { apiKey });
    if (answer === undefined) return;
    const { data = [] } = answer.body as { data?: readonly { tenant?: string }[] };
    const isHidden = isList ? data.every((one) => one.tenant === other) : answer.status === 404;
    const text = () => `${other} asked for ${path}: ${JSON.stringify(answer).slice(0, 300)}`;
    this.#ledger.findings.observe("foreign", isHidden, text);
  }

  /** Some of the single events are cancelled, erased or retried; each of them in one way. */
  #follow(post: Posted): void {
    if (!this.#access.isCurrent()) return;
    const { isPolled } = this.#traitsOf(post.data.tenant);
    const draw = this.#random();
    const shares: readonly Share[] = [
      {
        of: isPolled ? 0 : post.deliverAt === undefined ? 0.02 : 0.4,
        do: (one) => this.#background(() => this.#cancel(one)),
      },
      { of: 0.015, do: (one) => this.#background(() => this.#erase(one)) },
      { of: isPolled ? 0 : 0.04, do: (one) => this.#background(() => this.#retry(one)) },
    ];
    let sum = 0;
    for (const share of shares) {
      sum += share.of;
      if (draw >= sum) continue;
      share.do(post);
      return;
    }
  }

  async #cancel({ data, type, deliverAt }: Posted): Promise<void> {
    if (deliverAt !== undefined) await sleep(2_000 + this.#random() * 6_000);
    const [taker] = this.#access.customers.takersOf(data.tenant, type);
    const id = taker && this.#ledger.deliveryId(data.ref, taker.path);
    if (!taker || !id || !this.#access.isCurrent()) return;
    const answer = await this.#ask("POST", `/new/v1/deliveries/${id}/cancel`);
    if (answer?.status === 409) this.made.tooLate += 1;
    else if (answer === undefined || answer.status === 200) {
      if (answer) this.made.cancelled += 1;
      this.#ledger.cancelled(data.ref, taker.path, Date.now(), answer !== undefined);
    } else unexpected(answer);
  }

  async #erase({ data }: Posted): Promise<void> {
    await sleep(this.#random() * 3_000);
    const event = this.#ledger.eventId(data.ref);
    if (!event || !this.#access.isCurrent()) return;
    const body = { tenant: data.tenant, event_id: event };
    const answer = await this.#ask("POST", "/new/v1/erasures", { body });
    if (answer && answer.status !== 202) unexpected(answer);
    this.#ledger.erased(data.ref, Date.now(), false);
    if (answer === undefined) return;
    this.made.erased += 1;
    const { id } = answer.body as { id: string };
    for (let look = 0; look < LOOKS; look++) {
      await sleep(LOOK_MS);
      const shown = await this.#ask("GET", `/new/v1/erasures/${id}`);
      if (((shown?.body ?? {}) as { events?: number }).events !== 1) continue;
      this.#ledger.erased(data.ref, Date.now(), true);
      await this.#lookAtErased(event);
      return;
    }
  }

  async #lookAtErased(event: string): Promise<void> {
    const shown = await this.#ask("GET", `/v1/events/${event}`);
    if (shown === undefined) return;
    const text = JSON.stringify(shown.body);
    this.#ledger.findings.observe(
      "erased",
      !text.includes("postedAt"),
      () => `${event}: ${text.slice(0, 300)}`,
    );
  }

  /** Delivered deliveries are sent again. */
  async #retry({ data, type }: Posted): Promise<void> {
    const [taker] = this.#access.customers.takersOf(data.tenant, type);
    await sleep(4_000 + this.#random() * 10_000);
    const id = taker && this.#ledger.deliveryId(data.ref, taker.path);
    if (!taker || !id || !this.#access.isCurrent()) return;
    if (this.#ledger.hasEnded(data.ref, taker.path) !== "delivered") return;
    this.#ledger.requeueing(data.ref, taker.path);
    const answer = await this.#ask("POST", `/new/v1/deliveries/${id}/retry`);
    // Its record may not have been written yet.
    if (answer?.status === 409) this.made.tooLate += 1;
    else if (answer?.status === 200) this.made.retried += 1;
    else if (answer) unexpected(answer);
    this.#ledger.requeued(data.ref, taker.path, outcomeOf(answer));
  }

  /** The rejecting endpoint is fixed, and its dead deliveries of the last minutes are replayed. */
  async replay(sinceMs: number): Promise<void> {
    const customer = this.#access.customers.at("/echo/rejects");
    const destination = customer && this.#access.destinations.get(customer.path);
    if (!customer || !destination || !this.#access.isCurrent()) return;
    const now = Date.now();
    this.#mend(customer.path, now);
    const [since, until] = [now - sinceMs, now - 5_000];
    const body = {
      destination_id: destination,
      since: new Date(since).toISOString(),
      until: new Date(until).toISOString(),
      rate_per_minute: 600,
    };
    this.#ledger.replaying(customer.path);
    const answer = await this.#ask("POST", "/new/v1/replays", { body });
    if (answer && answer.status !== 409 && answer.status !== 201) unexpected(answer);
    if (answer?.status === 201) this.made.replays += 1;
    // Only deliveries that were recorded when the replay began.
    const period = { since, until, diedBy: now - 10_000 };
    this.made.replayed += this.#ledger.replayed(customer.path, period, outcomeOf(answer));
  }

  #keyFor(tenant: string): string {
    return this.#random() < 0.5 ? this.#access.adminKey : this.#access.keyOf(tenant);
  }

  #ask(method: string, path: string, options: Partial<Ask> = {}): Promise<Answer | undefined> {
    return this.client.ask(method, path, { apiKey: this.#access.adminKey, ...options });
  }
}

function outcomeOf(answer: Answer | undefined): Outcome {
  if (answer === undefined) return "unknown";
  return answer.status < 300 ? "done" : "refused";
}

type Accepted = Readonly<{
  id: string;
  deliveries?: readonly Readonly<{ id: string; destination_id: string }>[];
}>;

function acceptedIn(body: unknown): readonly Accepted[] {
  const { events } = body as { events?: readonly Accepted[] };
  return events ?? [body as Accepted];
}
