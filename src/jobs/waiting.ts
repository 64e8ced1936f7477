/**
 * The backlog's part of the sweep: gates of destinations with waiting deliveries schedule drains, and deliveries past their
 * age limit expire.
 *
 * Both walks go round, over the destinations with waiting deliveries, and over all waiting deliveries, as packs and
 * rows, and those that stand behind others of their lines. An index by age limit would find expired ones at once, but cost two more written rows for each delivery that
 * ever waits; the walk costs rows read, of which a thousand are billed like one written.
 */

import type { DeliveryKey } from "../core/bundle.ts";
import { CONNECTIONS } from "../core/lease.ts";
import { portionsOf } from "../core/portions.ts";
import { MINUTE_MS } from "../core/rollups.ts";
import { countDead } from "../delivery/news.ts";
import { atGate } from "../gate/client.ts";
import { faultOf } from "../log.ts";
import type { WaitingMessage } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import { allOf, inTurn } from "../store/databases.ts";
import { destinationsFor } from "../store/destinations.ts";
import {
  expireBehind,
  expireWaiting,
  expireWaitingPacks,
  standingDestinations,
  type WaitingDestination,
  waitingDestinations,
} from "../store/waiting.ts";
import { drainToCancel } from "./deleted-destinations.ts";
import type { PartResult, PartTurn } from "./sweep-step.ts";

/**
 * Destinations for which a sweep schedules drains by itself, and the number that one message names: so each of `n` is
 * reached within `n / 500` minutes even if the queues lose every message.
 */
const DESTINATIONS = 500;
/**
 * Destinations that a step of the sweep passes to the queue of drains, and the number of such steps in one sweep:
 * 40,000 a minute, a million within 25.
 */
const HANDED_ON = 5_000;
const HANDING_STEPS = 8;
/**
 * The time between the beginnings of two rounds over the queue: this long for each destination found, and at most this
 * long in all. So destinations that always wait, behind receivers that are down, cost a thousand calls of gates a
 * minute up to 30,000 of them, and a call in half an hour each beyond; and each is reached within half an hour.
 */
const ROUND_MS = MINUTE_MS / 1_000;
const LONGEST_ROUND_MS = 30 * MINUTE_MS;
/** Databases that a step reads. With more, the walks go over one group of them after the other. */
const GROUP = 50;
/** Gates called at once: as many as there are connections, in case calls count as connections. */
const GATES = CONNECTIONS;
/** Waiting deliveries, or packs of them, that one statement checks for their age limits. */
const CHECKED = 2_000;
/**
 * And one sweep, in all databases together: each of `n`, spread evenly over `d` databases, is checked within `n /
 * 24,000 + d` minutes, each of a million in three quarters of an hour. If a million always wait, that is a billion rows
 * read a month, which cost a dollar. A drain ends the expired deliveries that it meets by itself.
 */
const CHECKED_IN_ALL = 24_000;

/** Walks that check age limits, what they look through, and the share that each may take of what is left to check. */
const EXPIRIES = [
  { expire: expireBehind, work: "lined", share: 0.3 },
  { expire: expireWaitingPacks, work: "expired", share: 0.5 },
  { expire: expireWaiting, work: "expired", share: 1 },
] as const;

/** The position of a walk over the destinations with waiting deliveries: its group of databases, and the last id. */
type Place = Readonly<{ group: number; after: string }>;

const START: Place = { group: 0, after: "" };

/**
 * Schedules drains for destinations with waiting deliveries. Two walks go round: one schedules by itself, a few each
 * minute; if that does not reach all of them, the other passes all to the queue.
 */
export async function scheduleDrains(services: Services, turn: PartTurn): Promise<PartResult> {
  const groups = portionsOf(allOf(services), GROUP);
  const [after = "", group = 0, ...handed] = turn.cursor;
  const isByItself = turn.page < groups.length;
  const own = { after: String(after), group: (Number(group) || 0) % groups.length };
  const scheduled = isByItself ? await scheduleNext(services, groups, own, turn.hasTime) : undefined;
  const handing = await handOnNext(services, groups, handed, turn, scheduled?.isAll ?? true);
  const { place = own } = scheduled ?? {};
  const isLeft = turn.page + 1 < groups.length;
  return {
    counts: {
      drains_scheduled: scheduled?.scheduled ?? 0,
      ...(handing.count > 0 && { drains_handed_on: handing.count }),
    },
    cursor: [place.after, place.group, ...handing.cursor],
    more: isLeft || (handing.more && turn.page + 1 < HANDING_STEPS),
  };
}

type Groups = readonly (readonly D1Database[])[];

/** The walk that schedules by itself. `isAll`: it has reached all destinations. */
async function scheduleNext(
  services: Services,
  groups: Groups,
  { group, after }: Place,
  hasTime: () => boolean,
): Promise<{ place: Place; scheduled: number; isAll: boolean }> {
  const databases = groups[group] ?? [];
  const { ids, isLast } = await waitingDestinations(databases, after, DESTINATIONS);
  const rest = DESTINATIONS - ids.length;
  const startsAgain = groups.length === 1 && isLast && after !== "" && rest > 0;
  const again = startsAgain ? await waitingDestinations(databases, "", rest) : undefined;
  const due = [...ids, ...(again?.ids ?? []).filter((id) => id <= after)];
  const { looked, scheduled } = await scheduleEach(
    services,
    await standingDestinations(services, due),
    hasTime,
  );
  const isWhole = looked === due.length && isLast;
  const isRound = isWhole && (groups.length > 1 || (again?.isLast ?? after === ""));
  const next = { group: (group + 1) % groups.length, after: "" };
  const place = isRound ? next : { group, after: due[looked - 1] ?? "" };
  return { place, scheduled, isAll: isRound && (groups.length === 1 || after === "") };
}

/**
 * The walk over the queue. A round begins if the sweep does not reach all by itself, and no sooner than `ROUND_MS`
 * says. The next round reaches the destinations of a message that is lost.
 * @param cursor the place, when the round began, and how many destinations it has found
 */
async function handOnNext(
  services: Services,
  groups: Groups,
  cursor: PartTurn["cursor"],
  { now }: PartTurn,
  isAllReached: boolean,
): Promise<{ cursor: PartTurn["cursor"]; count: number; more: boolean }> {
  const [, group = 0, began = 0, found = 0] = cursor.map((one) => Number(one) || 0);
  const place = { after: String(cursor[0] ?? ""), group: group % groups.length };
  const isUnderWay = place.after !== "" || place.group > 0;
  const isDue = Math.abs(now - began) >= Math.min(found * ROUND_MS, LONGEST_ROUND_MS);
  if (!isUnderWay && (isAllReached || !isDue)) return { cursor, count: 0, more: false };
  const { ids, isLast } = await waitingDestinations(groups[place.group] ?? [], place.after, HANDED_ON);
  const count = await handOn(services, ids);
  const isWhole = count === ids.length;
  const isEnd = isWhole && isLast && place.group + 1 >= groups.length;
  const inGroup = { ...place, after: ids[count - 1] ?? place.after };
  const next = isWhole && isLast ? { group: place.group + 1, after: "" } : inGroup;
  const to = isEnd ? START : next;
  const round = isUnderWay ? [began, found + count] : [now, count];
  return { cursor: [to.after, to.group, ...round], count, more: isWhole && !isEnd };
}

/** Names the destinations in messages for the queue of drains; returns how many it took. Safe to repeat. */
async function handOn(services: Services, ids: readonly string[]): Promise<number> {
  const messages = portionsOf(ids, DESTINATIONS).map((waiting) => ({
    body: { waiting } satisfies WaitingMessage,
  }));
  if (messages.length === 0) return 0;
  try {
    await services.drains.sendBatch(messages);
    return ids.length;
  } catch (error) {
    services.log({ what: "drains_not_handed_on", destinations: ids.length, error: faultOf(error) });
    return 0;
  }
}

/** Schedules drains for the destinations. Safe to repeat. */
export async function scheduleDrainsOf(services: Services, ids: readonly string[]): Promise<void> {
  await scheduleEach(services, await standingDestinations(services, ids), () => true);
}

/**
 * Schedules drains for destinations whose deliveries have been made to wait: for as many as one step may by itself, and
 * for some more over the queue. Safe to repeat.
 */
export async function scheduleDrainsOfNew(
  services: Services,
  ids: readonly string[],
  hasTime: () => boolean,
): Promise<void> {
  const few = await standingDestinations(services, ids.slice(0, DESTINATIONS));
  await scheduleEach(services, few, hasTime);
  await handOn(services, ids.slice(DESTINATIONS, DESTINATIONS + HANDED_ON));
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
    await atGate(services, id, "scheduleDrain");
  });
  const deleted = destinations.slice(0, looked).filter((one) => one.deleted);
  await drainToCancel(
    services,
    deleted.map(({ id }) => id),
  );
  return { looked, scheduled };
}

/** Ends deliveries past their age limit, among the next that the walks over lines, packs and rows come to. */
export async function expireOverdue(services: Services, turn: PartTurn): Promise<PartResult> {
  const [first, ...given] = turn.cursor;
  /** The positions of the walks: the last destination and event checked. Walks take turns over all databases. */
  const positions = [...given];
  const expired = new Map<string, number>();
  const held: DeliveryKey[] = [];
  let checked = 0;
  const mayContinue = () => checked < CHECKED_IN_ALL && turn.mayContinue();
  const walked = await inTurn(services, Number(first) || 0, mayContinue, async (db, number) => {
    for (const [place, { expire, work, share }] of EXPIRIES.entries()) {
      if (!(await turn.hasWork(db, work))) continue;
      const until = checked + Math.ceil((CHECKED_IN_ALL - checked) * share);
      if (checked >= until) continue;
      const next = async (after: DeliveryKey) => {
        const found = await expire(db, after, turn.now, Math.min(CHECKED, until - checked));
        checked += found.looked;
        for (const [id, count] of found.ended) expired.set(id, (expired.get(id) ?? 0) + count);
        held.push(...found.held);
        return found.upto;
      };
      const at = 2 * (EXPIRIES.length * number + place);
      while (positions.length < at + 2) positions.push("");
      const [destination, event] = positions.slice(at);
      const start = { destinationId: String(destination), eventId: Number(event) };
      const upto = await walkRound(start, next, () => checked < until && turn.mayContinue());
      positions.splice(at, 2, upto.destinationId, upto.eventId);
    }
    return false;
  });
  await publishExpired(services, expired, turn.hasTime);
  await publishHeld(services, held);
  const count = [...expired.values()].reduce((sum, one) => sum + one, 0);
  // The walk has no end, so there is never more for a further page: the next sweep continues.
  return { ...walked, counts: { expired: count }, cursor: [walked.next, ...positions], more: false };
}

/** Checks what comes after `after`; returns how far it has got, or undefined at the end. */
type Next = (after: DeliveryKey) => Promise<DeliveryKey | undefined>;

/** Continues after `start`, then from the beginning, until it has come round or may not continue; returns its position. */
async function walkRound(start: DeliveryKey, next: Next, mayContinue: () => boolean): Promise<DeliveryKey> {
  let at = start;
  let isPastEnd = start.destinationId === "";
  do {
    const upto = await next(at);
    const isRound = isPastEnd && (upto === undefined || isAfter(upto, start));
    if (isRound) return BEGINNING;
    isPastEnd ||= upto === undefined;
    at = upto ?? BEGINNING;
  } while (mayContinue());
  return at;
}

const BEGINNING: DeliveryKey = { destinationId: "", eventId: 0 };

function isAfter(one: DeliveryKey, other: DeliveryKey): boolean {
  if (other.destinationId === "") return false;
  if (one.destinationId !== other.destinationId) return one.destinationId > other.destinationId;
  return one.eventId > other.eventId;
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

async function publishHeld(services: Services, held: readonly DeliveryKey[]): Promise<void> {
  if (held.length === 0) return;
  const byId = await destinationsFor(services.db, held);
  const news = held.flatMap(({ eventId, destinationId }) => {
    const destination = byId.get(destinationId);
    return destination ? [{ event: eventId, destination }] : [];
  });
  await services.notify(services, { held: news });
}

/** Calls for one item after the other, a few at once, while there is time; returns how many of the first were called for. */
async function atGates<T>(items: readonly T[], hasTime: () => boolean, call: (item: T) => Promise<void>) {
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
