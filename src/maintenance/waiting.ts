/**
 * The backlog's part of the sweep: gates of destinations with waiting deliveries schedule drains, deliveries past their
 * age limit expire, and those of deleted destinations are cancelled, whatever their gates would admit.
 *
 * Both walks go round, over the destinations with waiting deliveries, and over all waiting deliveries, as packs and
 * rows. An index by age limit would find expired ones at once, but cost two more written rows for each delivery that
 * ever waits; the walk costs rows read, of which a thousand are billed like one written.
 */
import type { DeliveryName } from "../core/bundle.ts";
import { CONNECTIONS } from "../core/lease.ts";
import { inTurn } from "../db/shards.ts";
import {
  expireWaiting,
  expireWaitingPacks,
  standingDestinations,
  type WaitingDestination,
  waitingDestinations,
} from "../db/waiting.ts";
import { scheduleDrainAtGate } from "../gate/client.ts";
import { faultOf } from "../log.ts";
import { countDead } from "../notifications/publish.ts";
import { batchesOf, type DrainMessage } from "../queue-messages.ts";
import { endReplaysOfDeleted } from "../replay/run.ts";
import type { Services } from "../services.ts";
import type { PartResult, PartTurn } from "./sweep-step.ts";

/**
 * Destinations for which a step schedules drains. A sweep has two such steps, so that it comes to each of `n` within
 * `n / 1,000` minutes, and within `n / 500` even if the queue loses every page.
 */
const DESTINATIONS = 500;
/** Gates called at once: as many as there are connections, in case the calls count as such. */
const GATES = CONNECTIONS;
/** Waiting deliveries, or packs of them, that one statement checks for their age limits. */
const CHECKED = 2_000;
/**
 * And one sweep, in all databases together: each of `n`, spread evenly over `d` databases, is checked within
 * `n / 24,000 + d` minutes, each of a million in three quarters of an hour. Where so many always wait, these are a
 * billion rows read a month, which cost a dollar. A drain ends expired deliveries that it comes to by itself.
 */
const CHECKED_IN_ALL = 24_000;

/** What is checked for age limits, and the share that it may take of what is left to check. */
const EXPIRIES = [
  { expire: expireWaitingPacks, share: 0.5 },
  { expire: expireWaiting, share: 1 },
] as const;

/** Schedules drains for the next destinations with waiting deliveries, in a round that the next step continues. */
export async function scheduleDrains(
  services: Services,
  { cursor, page, hasTime }: PartTurn,
): Promise<PartResult> {
  const after = String(cursor[0] ?? "");
  const { destinations, isLast } = await waitingDestinations(services, after, DESTINATIONS);
  const rest = DESTINATIONS - destinations.length;
  const startsAgain = isLast && after !== "" && rest > 0;
  const again = startsAgain ? await waitingDestinations(services, "", rest) : undefined;
  const due = [...destinations, ...(again?.destinations ?? []).filter(({ id }) => id <= after)];
  const { looked, scheduled } = await scheduleEach(services, due, hasTime);
  const isRound = looked === due.length && isLast && (again?.isLast ?? after === "");
  return {
    counts: { drains_scheduled: scheduled },
    cursor: [isRound ? "" : (due[looked - 1]?.id ?? "")],
    more: page === 0 && !isRound,
  };
}

/** Schedules drains for destinations whose deliveries have been made to wait, as many as one step may. Safe to repeat. */
export async function scheduleDrainsOf(
  services: Services,
  ids: readonly string[],
  hasTime: () => boolean,
): Promise<void> {
  await scheduleEach(services, await standingDestinations(services, ids.slice(0, DESTINATIONS)), hasTime);
}

/** A paused destination's deliveries are held; a deleted one's are cancelled. */
async function scheduleEach(
  services: Services,
  destinations: readonly WaitingDestination[],
  hasTime: () => boolean,
): Promise<{ looked: number; scheduled: number }> {
  let scheduled = 0;
  const looked = await atGates(destinations, hasTime, async ({ id, paused, deleted }) => {
    if (paused || deleted) return;
    scheduled += 1;
    await scheduleDrainAtGate(services, id);
  });
  const deleted = destinations.slice(0, looked).filter((one) => one.deleted);
  await drainToCancel(
    services,
    deleted.map(({ id }) => id),
  );
  return { looked, scheduled };
}

/**
 * Enqueues drains that cancel the waiting deliveries of deleted destinations. Not by their gates, which schedule drains
 * only for what they would admit. A failure is logged: the next sweep repeats it.
 */
async function drainToCancel(services: Services, destinations: readonly string[]): Promise<void> {
  const messages = destinations.map((destination) => ({
    body: { destination, drains: 1 } satisfies DrainMessage,
  }));
  for (const batch of batchesOf(messages)) {
    try {
      await services.drains.sendBatch(batch);
    } catch (error) {
      services.log({ what: "cancellations_not_sent", destinations: batch.length, error: faultOf(error) });
    }
  }
}

/** Ends the replays of a destination that has just been deleted, and cancels its waiting deliveries. */
export async function endDeleted(services: Services, destination: string): Promise<void> {
  await drainToCancel(services, [destination]);
  await endReplaysOfDeleted(services, destination);
}

/** Ends waiting deliveries past their age limit, among the next that the walk comes to. */
export async function expireOverdue(services: Services, turn: PartTurn): Promise<PartResult> {
  const [first, ...positions] = turn.cursor;
  const walk = new ExpiryWalk(turn, positions);
  const walked = await inTurn(services, Number(first) || 0, walk.mayGoOn, async (db, number) => {
    await walk.checkDatabase(db, number);
    return false;
  });
  await publishExpired(services, walk.expired, turn.hasTime);
  const expired = [...walk.expired.values()].reduce((sum, count) => sum + count, 0);
  // The walk has no end, so there is never more for a further page: the next sweep continues.
  return { ...walked, counts: { expired }, cursor: [walked.next, ...walk.positions], more: false };
}

/** The walks of one sweep over all waiting deliveries: in each database one over the packs and one over the rows. */
class ExpiryWalk {
  /** How many have expired, by destination. */
  readonly expired = new Map<string, number>();
  /** Where the walks are: the last destination and event checked, of the walks of all databases in turn. */
  readonly positions: (string | number)[];
  readonly #turn: PartTurn;
  #checked = 0;

  constructor(turn: PartTurn, positions: readonly (string | number)[]) {
    this.#turn = turn;
    this.positions = [...positions];
  }

  readonly mayGoOn = () => this.#checked < CHECKED_IN_ALL && this.#turn.mayGoOn();

  async checkDatabase(db: D1Database, number: number): Promise<void> {
    for (const [place, { expire, share }] of EXPIRIES.entries()) {
      const until = this.#checked + Math.ceil((CHECKED_IN_ALL - this.#checked) * share);
      if (this.#checked >= until) continue;
      const next = async (after: DeliveryName) => {
        const found = await expire(db, after, this.#turn.now, Math.min(CHECKED, until - this.#checked));
        this.#checked += found.looked;
        for (const [id, count] of found.ended) this.expired.set(id, (this.expired.get(id) ?? 0) + count);
        return found.upto;
      };
      await this.#goOn(
        EXPIRIES.length * number + place,
        next,
        () => this.#checked < until && this.#turn.mayGoOn(),
      );
    }
  }

  async #goOn(walk: number, next: Next, mayGoOn: () => boolean): Promise<void> {
    const at = 2 * walk;
    while (this.positions.length < at + 2) this.positions.push("");
    const [destination, event] = this.positions.slice(at);
    const start: DeliveryName = { destination: String(destination), event: Number(event) };
    const upto = await walkRound(start, next, mayGoOn);
    this.positions.splice(at, 2, upto.destination, upto.event);
  }
}

/** Checks what comes after `after`; returns how far it has got, or undefined at the end. */
type Next = (after: DeliveryName) => Promise<DeliveryName | undefined>;

/** Goes on after `start`, then from the beginning, until it has come round or may not go on; returns where it is. */
async function walkRound(start: DeliveryName, next: Next, mayGoOn: () => boolean): Promise<DeliveryName> {
  let at = start;
  let isPastEnd = start.destination === "";
  do {
    const upto = await next(at);
    const isRound = isPastEnd && (upto === undefined || isAfter(upto, start));
    if (isRound) return BEGINNING;
    isPastEnd ||= upto === undefined;
    at = upto ?? BEGINNING;
  } while (mayGoOn());
  return at;
}

const BEGINNING: DeliveryName = { destination: "", event: 0 };

function isAfter(one: DeliveryName, other: DeliveryName): boolean {
  if (other.destination === "") return false;
  if (one.destination !== other.destination) return one.destination > other.destination;
  return one.event > other.event;
}

/** Logs one line for each destination, because there may be thousands of deliveries, and counts them at its gate. */
async function publishExpired(
  services: Services,
  expired: ReadonlyMap<string, number>,
  hasTime: () => boolean,
): Promise<void> {
  const destinations = await standingDestinations(services, [...expired.keys()]);
  for (const { id } of destinations)
    services.log({
      what: "deliveries_dead",
      destination: id,
      reason: "expired",
      deliveries: expired.get(id),
    });
  await atGates(destinations, hasTime, (one) => countDead(services, one, expired.get(one.id) ?? 0));
}

/** Calls for one item after the other, a few at once, while there is time; returns how many of the first were called for. */
async function atGates<T>(
  items: readonly T[],
  hasTime: () => boolean,
  call: (item: T) => Promise<void>,
): Promise<number> {
  let begun = 0;
  async function lane(): Promise<void> {
    do {
      const item = items[begun];
      if (item === undefined) return;
      begun += 1;
      await call(item);
    } while (hasTime());
  }
  await Promise.all(Array.from({ length: GATES }, lane));
  return begun;
}
