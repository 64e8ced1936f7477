/**
 * The soak's books: what was posted, what each receiver has got, and whether the promises hold. It gets everything with its
 * time (epoch ms), and queries nothing.
 */

import { databaseNumberOf } from "../../../src/core/placement.ts";
import { eventNumber } from "../../../src/ids.ts";
import type { Hit } from "../../../tools/receiver.ts";
import { type Check, Findings } from "./checks.ts";
import { Concurrency, type Later, LEASED_MS } from "./concurrency.ts";
import { type Customer, type Customers, GROUP, type SoakData } from "./customers.ts";
import { EndpointBook, UNDER_WAY_MS } from "./endpoint-book.ts";
import { Kills, timeOf } from "./kills.ts";
import { Order, type Place } from "./order.ts";

/** How far two isolates' clocks are apart at most. One that is ahead sends what is scheduled that much too early. */
export const CLOCKS_DIFFER_MS = 1_000;
/** An answer so shortly before the sender's timeout may have come too late for it. */
const NEARLY_LATE_MS = 500;
/**
 * The age at which ended deliveries are forgotten. Long, because a delivery that a kill has undone comes again after
 * everything that waits for its destination.
 */
const REMEMBERED_MS = 2 * 3_600_000;

/** How a delivery has ended, as far as is known here. */
type End = "delivered" | "dead" | "cancelled" | "erased" | "expired";

type Delivery = {
  readonly customer: Customer;
  id?: string;
  requests: number;
  bytes?: string;
  /** `arrivedAt` is that of the request whose answer has ended it. */
  end?: Readonly<{ how: End; at: number; arrivedAt?: number }>;
  /** The last request that was answered 200. */
  delivered?: Hit;
  /** How often it may still come although it has ended: it was retried or replayed. */
  extra: number;
  /** It must come again. */
  requeued?: boolean;
  /** It may have ended without a report: the answer to a request that would end it was lost. */
  mayEnd?: boolean;
  /** No earlier than this: it was answered 429. */
  notBefore?: Readonly<{ at: number; arrivedAt: number; answeredAt: number }>;
};

export type Posted = Readonly<{
  data: SoakData;
  type: string;
  /** When it is due, where it is scheduled. */
  deliverAt?: number;
  ttlMs?: number;
  orderingKey?: string;
}>;

type Event = Posted & {
  readonly batch: number;
  readonly deliveries: Map<string, Delivery>;
  id?: string;
  acceptedAt?: number;
  /** No answer came, and it is not repeated: it may be stored or not. */
  unanswered?: boolean;
  /** It may have been erased: nothing sends it again. */
  erasing?: boolean;
};

/** A delivery that has not ended, as far as is known here. */
export type Open = Readonly<{
  event: string;
  path: string;
  acceptedAt: number;
  /** It may have ended in a way that only the API shows. */
  mayHaveEnded: boolean;
}>;

/** The result of a request, as far as its answer shows it. */
export type Outcome = "done" | "refused" | "unknown";

type Period = Readonly<{ since: number; until: number; diedBy: number }>;

/** An event as a consumer gets it. */
export type Fetched = Readonly<{ body: string; data: SoakData }>;

/** A request for a delivery that its receiver has answered with success before. */
export type Repeat = Readonly<{ event: string; path: string; attempt: number }>;

export class Ledger {
  readonly findings = new Findings();
  readonly #events = new Map<number, Event>();
  readonly #kills = new Kills();
  readonly #customers: Customers;
  readonly #endpoints: ReadonlyMap<string, EndpointBook>;
  readonly #group: Concurrency;
  /** The ordered endpoints, by path. */
  readonly #orders = new Map<string, Order>();
  /** The newest event that each consumer has got, by database. */
  readonly #newest = new Map<string, number>();
  /** When the former version handled something for the last time. */
  #formerUntil = 0;
  #gates: "former" | "current" = "current";
  readonly #looking: Promise<void>[] = [];
  readonly #timedOut: (repeat: Repeat) => Promise<boolean>;
  readonly counts = {
    posted: 0,
    accepted: 0,
    unanswered: 0,
    deliveries: 0,
    requests: 0,
    failedRequests: 0,
    delivered: 0,
    dead: 0,
    cancelled: 0,
    erased: 0,
    expired: 0,
    afterKill: 0,
    timedOut: 0,
    onRequest: 0,
    /** Came shortly after a cancellation or an erasure. */
    underWay: 0,
  };
  /** From the post to the first arrival, ms, of what was not scheduled, by path. */
  readonly delays = new Map<string, number[]>();

  /**
   * @param later calls back after so many ms
   * @param timedOut looks up whether the attempt before this one has timed out for its sender
   */
  constructor(
    customers: Customers,
    later: Later = (ms, then) => void setTimeout(then, ms),
    timedOut: (repeat: Repeat) => Promise<boolean> = () => Promise.resolve(false),
  ) {
    const bookOf = (customer: Customer) => new EndpointBook(customer, this.findings, this.#kills, later);
    this.#customers = customers;
    this.#endpoints = new Map(customers.all.map((customer) => [customer.path, bookOf(customer)]));
    const { name, maxConcurrency: max } = GROUP;
    const [findings, kills] = [this.findings, this.#kills];
    this.#group = new Concurrency({ check: "group", name, max, findings, kills, later });
    for (const { path, ordering } of customers.all) if (ordering) this.#orders.set(path, new Order());
    this.#timedOut = timedOut;
  }

  /**
   * Features of only the current version (groups, templates) are not expected until this long after that time.
   * @param until Infinity while the former version handles something too
   */
  handledByFormer(until: number): void {
    this.#formerUntil = until;
  }

  #isCurrent(at: number): boolean {
    return at > this.#formerUntil + LEASED_MS;
  }

  /** From now on the gates run the code of that version. */
  gatesRun(version: "former" | "current"): void {
    this.#gates = version;
  }

  /** The hold that a destination must get. A former gate takes its end from the clock of the Worker that reports it. */
  #heldFor(quietMs: number): number {
    return this.#gates === "current" ? quietMs : Math.max(0, quietMs - CLOCKS_DIFFER_MS);
  }

  // Posts and requests.

  posted(events: readonly Posted[]): void {
    const batch = events[0]?.data.ref ?? 0;
    for (const event of events) {
      const takers = this.#customers.takersOf(event.data.tenant, event.type);
      const deliveries = new Map(
        takers.map((customer) => [customer.path, { customer, requests: 0, extra: 0 }]),
      );
      this.#events.set(event.data.ref, { ...event, batch, deliveries });
      for (const customer of takers) this.#inOrder(customer, event, (order, place) => order.posted(place));
      this.counts.posted += 1;
    }
  }

  /** @param ids of the deliveries, by path */
  accepted(ref: number, id: string, ids: ReadonlyMap<string, string>, at: number): void {
    const event = this.#events.get(ref);
    if (event === undefined || event.acceptedAt !== undefined) return;
    this.#isOneEvent(event, id);
    event.acceptedAt = at;
    for (const [path, delivery] of event.deliveries) {
      const given = ids.get(path);
      if (given !== undefined) delivery.id = given;
    }
    this.counts.accepted += 1;
    this.counts.deliveries += event.deliveries.size;
  }

  /** The events of a request without an answer, which is not repeated. */
  unanswered(refs: readonly number[]): void {
    for (const ref of refs) {
      const event = this.#events.get(ref);
      if (event) event.unanswered = true;
      this.counts.unanswered += 1;
    }
  }

  eventId(ref: number): string | undefined {
    return this.#events.get(ref)?.id;
  }

  /** The delivery's id, where it was in the answer. */
  deliveryId(ref: number, path: string): string | undefined {
    return this.#events.get(ref)?.deliveries.get(path)?.id;
  }

  hasEnded(ref: number, path: string): End | undefined {
    return this.#events.get(ref)?.deliveries.get(path)?.end?.how;
  }

  /** @param isSure false: the answer was lost */
  cancelled(ref: number, path: string, at: number, isSure: boolean): void {
    const delivery = this.#events.get(ref)?.deliveries.get(path);
    if (delivery === undefined) return;
    if (!isSure) delivery.mayEnd = true;
    else if (delivery.end === undefined) this.#end(ref, delivery, "cancelled", at);
  }

  /** @param isDone false: it has begun, or it is unknown whether it has */
  erased(ref: number, at: number, isDone: boolean): void {
    const event = this.#events.get(ref);
    if (event) event.erasing = true;
    for (const delivery of event?.deliveries.values() ?? []) {
      if (!isDone) delivery.mayEnd = true;
      else if (delivery.end === undefined) this.#end(ref, delivery, "erased", at);
    }
  }

  /** A request is made that sends the delivery again, which may come before the answer. */
  requeueing(ref: number, path: string): void {
    const delivery = this.#events.get(ref)?.deliveries.get(path);
    if (delivery) delivery.extra += 1;
  }

  /** The answer to that request; `unknown` where it was lost. */
  requeued(ref: number, path: string, outcome: Outcome): void {
    const delivery = this.#events.get(ref)?.deliveries.get(path);
    if (delivery === undefined || outcome === "unknown") return;
    // It has come again already.
    if (delivery.extra === 0) return;
    delivery.extra -= 1;
    if (outcome === "refused") return;
    this.counts.onRequest += 1;
    this.findings.observe("requeued", true, () => "");
    delivery.requeued = true;
    beginAgain(delivery);
  }

  /** A replay of dead deliveries is started: of rejected and of expired ones. */
  replaying(path: string): void {
    for (const [ref, { data, ttlMs }] of this.#events)
      if (data.bad || ttlMs !== undefined) this.requeueing(ref, path);
  }

  /**
   * The answer to that request. What had died by `diedBy`, of the events that were accepted in its period, comes again; what
   * has died since may. Returns how many must.
   */
  replayed(path: string, { since, until, diedBy }: Period, outcome: Outcome): number {
    let count = 0;
    for (const [ref, { data, ttlMs, deliveries, acceptedAt, erasing }] of this.#events) {
      const delivery = deliveries.get(path);
      if (delivery === undefined || !(data.bad || ttlMs !== undefined)) continue;
      const isDead = delivery.end && isDeadEnd(delivery.end.how) && delivery.end.at <= diedBy;
      const isIn = data.postedAt >= since && acceptedAt !== undefined && acceptedAt < until;
      const must = outcome === "done" && isDead === true && isIn && !erasing;
      if (must) count += 1;
      this.requeued(ref, path, must || outcome === "refused" ? outcome : "unknown");
    }
    return count;
  }

  killed(from: number, to: number): void {
    this.#kills.add(from, to);
  }

  // The receivers' requests.

  /** The book of the endpoint with this path. */
  endpoint(path: string): EndpointBook | undefined {
    return this.#endpoints.get(path);
  }

  inFlight(): number {
    return [...this.#endpoints.values()].reduce((sum, { inFlight }) => sum + inFlight, 0);
  }

  /** Requests that came so shortly after a hold, a cancellation or an erasure that they were under way. */
  underWay(): number {
    return [...this.#endpoints.values()].reduce((sum, { underWay }) => sum + underWay, this.counts.underWay);
  }

  arrived(hit: Hit, data: SoakData): void {
    const { findings } = this;
    this.counts.requests += 1;
    findings.observe("signature", hit.verified, () => `${hit.path} ${hit.id}: ${hit.rejection}`);
    const customer = this.#customers.at(hit.path);
    this.endpoint(hit.path)?.arrived(hit);
    if (customer?.isGrouped) this.#group.arrived(hit, customer.timeoutMs, this.#isCurrent(hit.at));
    const found = this.#find(hit.path, hit.id, data);
    if (found) this.#checkDelivery(hit, found.event, found.delivery);
  }

  /** The books' entry for what has come to this path; undefined where there is none, which is noted. */
  #find(path: string, id: string, { ref, tenant }: SoakData) {
    const { findings } = this;
    const event = this.#events.get(ref);
    if (event === undefined) {
      findings.observe("once", false, () => `${path} ${id}: came again after its end was forgotten`);
      return;
    }
    this.#isOneEvent(event, id);
    const delivery = event.deliveries.get(path);
    findings.observe("tenants", delivery !== undefined, () => `${path} got ${id} of ${tenant}`);
    return delivery && { event, delivery };
  }

  // The consumers' fetches.

  /**
   * A consumer has got an event in a page.
   * @param isInOrder false: a page may have been lost, whose events come later
   */
  fetched(path: string, id: string, { body, data }: Fetched, at: number, isInOrder: boolean): void {
    const { findings } = this;
    this.counts.requests += 1;
    const found = this.#find(path, id, data);
    if (found === undefined) return;
    const { event, delivery } = found;
    const name = () => `${path} ${id} at ${timeOf(at)}`;
    delivery.requests += 1;
    if (delivery.requests === 1) this.#note({ path, at }, event);
    this.#checkContent(body, at, event, delivery, name);
    const { end } = delivery;
    if (end?.how === "delivered")
      findings.observe("committed", false, () => `${name()}: ${at - end.at} ms after its commit`);
    else if (end) {
      const isUnderWay = at <= end.at + UNDER_WAY_MS;
      findings.observe("ended", isUnderWay, () => `${name()}: ${at - end.at} ms after it was ${end.how}`);
    }
    // Events that were due later have a separate log.
    if (delivery.requests === 1 && event.deliverAt === undefined) this.#checkLog(path, id, isInOrder);
  }

  /** Events that are handed out for the first time come in the order of acceptance, in each database. */
  #checkLog(path: string, id: string, isInOrder: boolean): void {
    const number = eventNumber(id) ?? 0;
    const log = `${path} ${databaseNumberOf(number)}`;
    const newest = this.#newest.get(log) ?? 0;
    this.findings.observe("log", number > newest || !isInOrder, () => `${path} got ${id} after a later one`);
    this.#newest.set(log, Math.max(newest, number));
  }

  /** The commit of a page with these events was answered. */
  committed(path: string, refs: readonly number[], at: number): void {
    for (const ref of refs) {
      const delivery = this.#events.get(ref)?.deliveries.get(path);
      this.findings.observe("committed", true, () => "");
      if (delivery && delivery.end === undefined) this.#end(ref, delivery, "delivered", at);
    }
  }

  // The receivers' answers.

  /**
   * A request was answered, or its sender has hung up.
   * @param askedMs the hold that its answer requested
   */
  answered(hit: Hit, data: SoakData, askedMs: number): void {
    const quietMs = this.#heldFor(askedMs);
    this.endpoint(hit.path)?.ended(hit, quietMs);
    this.#group.ended(hit);
    const at = hit.answeredAt ?? 0;
    if (hit.status !== 200) this.counts.failedRequests += 1;
    const event = this.#events.get(data.ref);
    const delivery = event?.deliveries.get(hit.path);
    if (hit.hungUp || event === undefined || delivery === undefined) return;
    if (hit.status === 200) {
      if (delivery.delivered === undefined) this.#checkOrder(hit, event, delivery);
      delivery.delivered = hit;
      delete delivery.requeued;
      if (delivery.end === undefined) this.#end(data.ref, delivery, "delivered", at, hit.at);
    } else if (hit.status === 400 && delivery.end === undefined)
      this.#end(data.ref, delivery, "dead", at, hit.at);
    else if (hit.status === 429) delivery.notBefore = { at: at + quietMs, arrivedAt: hit.at, answeredAt: at };
  }

  #end(ref: number, delivery: Delivery, how: End, at: number, arrivedAt?: number): void {
    delivery.end = { how, at, ...(arrivedAt !== undefined && { arrivedAt }) };
    this.counts[how] += 1;
    const event = this.#events.get(ref);
    if (event) this.#inOrder(delivery.customer, event, (order, place) => order.ended(place));
  }

  /** Nothing where the event has no place in the customer's order. */
  #inOrder(
    { path, ordering }: Customer,
    { data: { ref }, orderingKey }: Posted,
    then: (order: Order, place: Place) => void,
  ): void {
    const order = this.#orders.get(path);
    const key = ordering === "destination" ? "" : orderingKey;
    if (order !== undefined && key !== undefined) then(order, { key, ref });
  }

  /** Its first success: everything of its key that was accepted before has ended. */
  #checkOrder({ path, at }: Hit, event: Event, { customer, extra, end }: Delivery): void {
    // Deliveries that were sent by hand are not in order.
    if (extra > 0 || end) return;
    this.#inOrder(customer, event, (order, place) => {
      const overtaken = order.overtakenBy(place).filter((ref) => {
        const other = this.#events.get(ref);
        // Deliveries that may have ended unseen.
        return other && other.ttlMs === undefined && !other.deliveries.get(path)?.mayEnd;
      });
      const text = () =>
        `${path} ${event.id} at ${timeOf(at)}: before ${overtaken.map((ref) => this.#events.get(ref)?.id ?? ref)} of the key ${place.key}`;
      this.findings.observe("order", overtaken.length === 0, text);
    });
  }

  #isOneEvent(event: Event, id: string): void {
    event.id ??= id;
    this.findings.observe("key", event.id === id, () => `${event.data.ref} is ${event.id} and ${id}`);
  }

  #checkDelivery(hit: Hit, event: Event, delivery: Delivery): void {
    const { findings } = this;
    const name = () => `${hit.path} ${hit.id} at ${timeOf(hit.at)}`;
    delivery.requests += 1;
    if (delivery.requests === 1) this.#note(hit, event);
    this.#checkContent(hit.body, hit.at, event, delivery, name);
    const isNumbered = hit.attempt >= 1 && hit.attempt <= delivery.requests;
    findings.observe(
      "attempts",
      isNumbered,
      () => `${name()}: attempt ${hit.attempt} of ${delivery.requests}`,
    );
    const { notBefore } = delivery;
    if (notBefore) {
      const isInTime = hit.at >= notBefore.at || this.#kills.hasUndone(notBefore, hit.at);
      findings.observe("retryAfter", isInTime, () => `${name()}: ${notBefore.at - hit.at} ms too early`);
      delete delivery.notBefore;
    }
    this.#checkEnded(hit, delivery, name);
  }

  /** The bytes of an event, and when they come. */
  #checkContent(body: string, at: number, event: Event, delivery: Delivery, name: () => string): void {
    const { findings } = this;
    const { type, data, deliverAt } = event;
    if (deliverAt !== undefined) {
      const text = () => `${name()}: ${deliverAt} is its time`;
      findings.observe("scheduled", at >= deliverAt - CLOCKS_DIFFER_MS, text);
    }
    // The former version has no templates.
    if (delivery.customer.isShaped && !this.#isCurrent(at)) return;
    delivery.bytes ??= body;
    findings.observe("bytes", delivery.bytes === body, name);
    if (delivery.customer.isShaped) {
      const { shape } = JSON.parse(body) as { shape?: string };
      findings.observe("shape", shape === `${type} of ${data.tenant}`, () => `${name()}: ${shape}`);
    }
  }

  #checkEnded(hit: Hit, delivery: Delivery, name: () => string): void {
    const { findings, counts } = this;
    const { delivered, end } = delivery;
    if (end && end.how !== "delivered" && !isDeadEnd(end.how)) {
      const isUnderWay = hit.at <= end.at + UNDER_WAY_MS;
      if (isUnderWay) counts.underWay += 1;
      findings.observe("ended", isUnderWay, () => `${name()}: ${hit.at - end.at} ms after it was ${end.how}`);
      return;
    }
    const before = delivered?.answeredAt ?? (end && isDeadEnd(end.how) ? end.at : undefined);
    if (before === undefined) return;
    const answer = { arrivedAt: delivered?.at ?? end?.arrivedAt ?? before, answeredAt: before };
    const check = delivered ? "once" : "ended";
    const isLate = delivered && before - delivered.at >= delivery.customer.timeoutMs - NEARLY_LATE_MS;
    if (delivery.extra > 0) {
      delivery.extra -= 1;
      counts.onRequest += 1;
      beginAgain(delivery);
    } else if (this.#kills.hasUndone(answer, hit.at)) counts.afterKill += 1;
    else if (isLate) counts.timedOut += 1;
    else {
      const text = `${name()}: ${hit.at - before} ms after its end, attempt ${hit.attempt}${this.#kills.shortlyBefore(hit.at)}`;
      this.#lookUp({ event: hit.id, path: hit.path, attempt: hit.attempt }, check, text);
      return;
    }
    findings.observe(check, true, name);
  }

  /** On a busy machine the sender may have given up although the receiver, which got the request late, was quick. */
  #lookUp(repeat: Repeat, check: Check, text: string): void {
    const looking = this.#timedOut(repeat).then((isTimeout) => {
      if (isTimeout) this.counts.timedOut += 1;
      this.findings.observe(check, isTimeout, () => text);
    });
    this.#looking.push(looking);
  }

  #note({ path: taker, at }: Pick<Hit, "path" | "at">, { data, deliverAt }: Event): void {
    if (deliverAt !== undefined) return;
    const path = this.#customers.at(taker)?.shownAs ?? taker;
    const delays = this.delays.get(path) ?? [];
    delays.push(at - data.postedAt);
    this.delays.set(path, delays);
  }

  // The rest.

  /** Deliveries that have not ended and were accepted before that time. */
  open(before = Number.POSITIVE_INFINITY): Open[] {
    const open: Open[] = [];
    for (const { id, data, acceptedAt = data.postedAt, deliveries, ttlMs } of this.#events.values()) {
      if (id === undefined || acceptedAt >= before) continue;
      for (const [path, { end, mayEnd = false }] of deliveries)
        if (end === undefined)
          open.push({ event: id, path, acceptedAt, mayHaveEnded: mayEnd || ttlMs !== undefined });
    }
    return open;
  }

  /**
   * The API's state of a delivery that is open here.
   * @param state undefined: it knows no such event
   */
  shown({ event: id, path }: Open, state: string | undefined, reason: string | undefined, at: number): void {
    const event = this.#byId(id);
    const delivery = event?.deliveries.get(path);
    if (event === undefined || delivery === undefined || delivery.end) return;
    const { ref } = event.data;
    if (state === "queued" || state === "waiting" || state === "retrying") return;
    // A replay will reach it.
    if (delivery.requeued && (state === "dead" || state === "delivered")) return;
    const text = () => `${path} ${id} has not arrived and is ${state ?? "unknown"} (${reason})`;
    if (state === "dead" && reason === "expired" && event.ttlMs !== undefined)
      this.#end(ref, delivery, "expired", at);
    else if (state === "cancelled" && delivery.mayEnd)
      this.#end(ref, delivery, reason === "erased" ? "erased" : "cancelled", at);
    else {
      this.findings.observe("arrives", false, text);
      this.#end(ref, delivery, "dead", at);
    }
  }

  #byId(id: string): Event | undefined {
    for (const event of this.#events.values()) if (event.id === id) return event;
    return undefined;
  }

  /** Forgets what has ended long ago. */
  forget(now: number): void {
    for (const [ref, { acceptedAt = now, deliveries, unanswered }] of this.#events) {
      if (unanswered || acceptedAt > now - REMEMBERED_MS) continue;
      if (![...deliveries.values()].every(({ end }) => end && end.at < now - REMEMBERED_MS)) continue;
      this.findings.observe("arrives", true, () => "", deliveries.size);
      this.#events.delete(ref);
    }
  }

  /** Judges what can be judged only when nothing is under way any more. */
  async close(): Promise<void> {
    await Promise.all(this.#looking);
    const batches = Map.groupBy(
      // A delivery with a short time to live may have ended without being sent.
      [...this.#events.values()].filter(({ unanswered, ttlMs }) => unanswered && ttlMs === undefined),
      ({ batch }) => batch,
    );
    for (const [batch, events] of batches) {
      const stored = events.filter(({ id }) => id !== undefined);
      const isWhole = stored.length === 0 || stored.length === events.length;
      this.findings.observe("batch", isWhole, () => `${stored.length} of ${events.length} from ${batch} on`);
    }
    for (const { id, deliveries, acceptedAt, data } of this.#events.values()) {
      if (id === undefined) continue;
      for (const [path, { end, requeued, mayEnd, customer }] of deliveries) {
        // It may have been erased before it was fetched.
        if (customer.consumer !== undefined && mayEnd) continue;
        const text = () =>
          `${path} ${id}, posted at ${timeOf(data.postedAt)}${acceptedAt ? "" : ", unanswered"}`;
        this.findings.observe("ends", end !== undefined, text);
        this.findings.observe("arrives", end !== undefined, text);
        if (requeued) this.findings.observe("requeued", false, text);
      }
    }
  }
}

/** The deliveries that a replay of dead ones sends again. */
function isDeadEnd(how: End): boolean {
  return how === "dead" || how === "expired";
}

function beginAgain(delivery: Delivery): void {
  delete delivery.end;
  delete delivery.delivered;
}
