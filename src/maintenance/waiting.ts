/**
 * Looking after what waits: its gates are rung, what is over its age limit ends, and what waits for a deleted
 * destination is cancelled, whatever its gate would say to that.
 *
 * The walks go round: over the destinations for which something waits, and over all that waits, packs and rows. An index by the age
 * limit would find what is over at once, and cost two more written rows for each delivery that ever waits; to walk
 * costs rows read, of which a thousand cost as much as one written.
 */
import type { DeliveryName } from "../core/bundle.ts";
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
import type { PartResult, PartTurn } from "./sweep-part.ts";

/**
 * Destinations woken in one step: a tick has two for it, so that each of `n` is looked after within `n / 1,000`
 * ticks, and within `n / 500` even if the queue loses all that the sweep sends.
 */
const DESTINATIONS = 500;
/** Gates called at once: as many connections as an invocation has. */
const GATES = 6;
/** Waiting deliveries, or packs of some, looked at in one statement for their age limits. */
const LOOKED_AT = 2_000;
/**
 * And in one tick, in all databases together: each of `n`, spread evenly over `d` databases, is looked at within
 * `n / 24,000 + d` ticks, each of a million in three quarters of an hour. Where so many always wait, these are a billion
 * rows read in a month, which cost a dollar. What a drain comes to is ended by the drain, without waiting for this.
 */
const LOOKED_AT_IN_ALL = 24_000;

/** What is walked through for its age limits, and the share that it may take of what is left to be looked at. */
const EXPIRIES = [
  { expire: expireWaitingPacks, share: 0.5 },
  { expire: expireWaiting, share: 1 },
] as const;

/** Wakes the next destinations for which something waits, in a round that goes on in the next step. */
export async function wakeWaiting(
  services: Services,
  { cursor, page, hasTime }: PartTurn,
): Promise<PartResult> {
  const after = String(cursor[0] ?? "");
  const { destinations, isLast } = await waitingDestinations(services, after, DESTINATIONS);
  const rest = DESTINATIONS - destinations.length;
  const begun = isLast && after !== "" && rest > 0;
  const again = begun ? await waitingDestinations(services, "", rest) : undefined;
  const due = [...destinations, ...(again?.destinations ?? []).filter(({ id }) => id <= after)];
  const { looked, rung } = await wakeSome(services, due, hasTime);
  const isRound = looked === due.length && isLast && (again?.isLast ?? after === "");
  return {
    counts: { rung },
    cursor: [isRound ? "" : (due[looked - 1]?.id ?? "")],
    more: page === 0 && !isRound,
  };
}

/** Wakes destinations for which deliveries have been made to wait; as many as one step may. Safe to repeat. */
export async function wakeNamed(
  services: Services,
  ids: readonly string[],
  hasTime: () => boolean,
): Promise<void> {
  await wakeSome(services, await standingDestinations(services, ids.slice(0, DESTINATIONS)), hasTime);
}

/** What is paused is held; what is deleted is cancelled. */
async function wakeSome(
  services: Services,
  destinations: readonly WaitingDestination[],
  hasTime: () => boolean,
): Promise<{ looked: number; rung: number }> {
  let rung = 0;
  const looked = await atGates(destinations, hasTime, async ({ id, paused, deleted }) => {
    if (paused || deleted) return;
    rung += 1;
    await scheduleDrainAtGate(services, id);
  });
  const deleted = destinations.slice(0, looked).filter((one) => one.deleted);
  await drainToCancel(
    services,
    deleted.map(({ id }) => id),
  );
  return { looked, rung };
}

/**
 * Has what waits for deleted destinations cancelled. Without a word to their gates, which ring only for what they
 * would let in: nothing of this is to be let in. A failure is logged, not thrown: the sweep comes back to it.
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

/** Ends what is on its way to a destination that has just been deleted: its replays, and all that waits for it. */
export async function endDeleted(services: Services, destination: string): Promise<void> {
  await drainToCancel(services, [destination]);
  await endReplaysOfDeleted(services, destination);
}

/**
 * Ends what has waited past its age limit, among the next of all that waits: so that nothing is hidden behind what
 * was accepted before it.
 */
export async function expireOverdue(
  services: Services,
  { cursor, now, mayGoOn, hasTime }: PartTurn,
): Promise<PartResult> {
  const [first, ...places] = cursor;
  const ended = new Map<string, number>();
  let looked = 0;
  const mayLook = () => looked < LOOKED_AT_IN_ALL && mayGoOn();
  const walked = await inTurn(services, Number(first) || 0, mayLook, async (db, number) => {
    for (const [place, { expire, share }] of EXPIRIES.entries()) {
      const until = looked + Math.ceil((LOOKED_AT_IN_ALL - looked) * share);
      if (looked >= until) continue;
      const at = 2 * (2 * number + place);
      while (places.length < at + 2) places.push("");
      const [destination, event] = places.slice(at);
      const start: DeliveryName = { destination: String(destination), event: Number(event) };
      const next = async (after: DeliveryName) => {
        const found = await expire(db, after, now, Math.min(LOOKED_AT, until - looked));
        looked += found.looked;
        for (const [id, count] of found.ended) ended.set(id, (ended.get(id) ?? 0) + count);
        return found.upto;
      };
      const upto = await walkRound(start, next, () => looked < until && mayGoOn());
      places.splice(at, 2, upto.destination, upto.event);
    }
    return false;
  });
  await tellExpired(services, ended, hasTime);
  const expired = [...ended.values()].reduce((sum, count) => sum + count, 0);
  // What is left is the next tick's: this walk has no end that it could be behind of.
  return { ...walked, counts: { expired }, cursor: [walked.next, ...places], more: false };
}

/**
 * Goes on after `start`, then from the beginning, until it has come round or may not go on; returns where it is.
 * @param next says how far it has come, and nothing at the end
 */
async function walkRound(
  start: DeliveryName,
  next: (after: DeliveryName) => Promise<DeliveryName | undefined>,
  mayGoOn: () => boolean,
): Promise<DeliveryName> {
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

/** One line for all of a destination's: there may be thousands. */
async function tellExpired(
  services: Services,
  ended: ReadonlyMap<string, number>,
  hasTime: () => boolean,
): Promise<void> {
  const destinations = await standingDestinations(services, [...ended.keys()]);
  for (const { id } of destinations)
    services.log({ what: "deliveries_dead", destination: id, reason: "expired", deliveries: ended.get(id) });
  await atGates(destinations, hasTime, (one) => countDead(services, one, ended.get(one.id) ?? 0));
}

/** Calls for one after the other, a few at a time, while there is time; returns for how many of the first. */
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
