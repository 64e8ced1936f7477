/**
 * Polling: consumers of a polled destination fetch pages of its events and commit them. The destination's gate knows
 * what is handed out (gate/inbox.ts), this reads the events from D1. A page counts when the gate has taken it; if
 * another request was faster, the page is read again.
 */

import { eventAt } from "../../core/bundle.ts";
import {
  INBOX_START,
  isSamePosition,
  iteratorIn,
  iteratorText,
  PAGE_EVENTS,
  positionIn,
  positionText,
} from "../../core/inbox.ts";
import type { Principal } from "../../core/principal.ts";
import {
  conflict,
  invalidField,
  invalidFields,
  missing,
  ok,
  type Refused,
  unavailable,
} from "../../core/result.ts";
import { faultText } from "../../core/transform/result.ts";
import { prepare } from "../../delivery/admission.ts";
import { connections } from "../../delivery/connections.ts";
import { converted, isConverted, versionsToConvert } from "../../delivery/event-versions.ts";
import { requestHeadersOf, type Sender } from "../../delivery/http.ts";
import { queueMessageOf } from "../../delivery/kinds/queue.ts";
import { isPolled } from "../../delivery/kinds/sending.ts";
import { payloadOf } from "../../delivery/payload.ts";
import type { InboxPage, PageCommit } from "../../gate/inbox.ts";
import { atInbox, listenAtInbox } from "../../gate/inbox-client.ts";
import { eventId } from "../../ids.ts";
import { reportUnreadable } from "../../jobs/unreadable.ts";
import type { Services } from "../../services.ts";
import { allOf } from "../../store/databases.ts";
import type { LoadedDelivery } from "../../store/deliveries.ts";
import { overBy } from "../../store/delivery-filter.ts";
import { type Destination, statusOf } from "../../store/destination.ts";
import { findDestination } from "../../store/destinations.ts";
import {
  countBehind,
  type InboxRead,
  oldestUnread,
  readInbox,
  readReturned,
  type UnreadableEvent,
} from "../../store/inbox.ts";
import { idBefore } from "../../store/time-ranges.ts";
import { isoTime } from "../../time.ts";
import { service } from "../service.ts";
import { lagMsOf } from "./lag.ts";
import type { CommitInput, ConsumerList, PollPage, PollQuery, SeekInput } from "./schema.ts";

const polling = { scope: "poll" } as const;

type At<T> = Readonly<{ id: string }> & T;

/** Rounds of reading and claiming: each further one needs another request that claims at that very moment, or a page of nothing. */
const ROUNDS = 10;
const BUSY_S = 1;

/** The newest packs of each database that are read to count the events that consumers have not committed. */
const COUNTED_PACKS = 1_000;

const UNREACHABLE = "The destination's inbox cannot be reached at the moment";

/** The next events of a consumer, which no other process gets while they are handed out to it. */
export const pollDestination = service(
  polling,
  async ({ services, principal }, { id, ...query }: At<PollQuery>) => {
    const found = await activeInbox(services, principal, id);
    if (found.kind !== "ok") return found;
    const prepared = await prepare(services, connections(), found.value);
    if (prepared.kind === "unready")
      return unavailable("The destination's secrets cannot be opened at the moment");
    const read = await (query.wait_s > 0 ? awaitedPage : nextPage)(services, found.value, query);
    if (!("page" in read)) return read;
    const { page, isLast } = read;
    const deliveries = await inVersions(services, read.deliveries);
    return ok({
      data: await Promise.all(deliveries.map((one) => polledEvent(services, prepared.sender, one))),
      iterator: iteratorText({ consumer: query.consumer, page }),
      done: isLast,
    } satisfies PollPage);
  },
);

/** `fault`: why there is no data in the version that the destination gets. */
type Polled = LoadedDelivery & Readonly<{ fault?: string }>;

/** A page for callers that show it in another form, like the Svix API. */
export type LoadedPage = Readonly<{
  deliveries: readonly Polled[];
  iterator: string;
  isLast: boolean;
}>;

type LoopInput = At<Readonly<{ consumer: string; limit: number; iterator?: string | undefined }>>;

/** When an event that could not be converted is tried again, where its consumer would take it for an empty one. */
const UNCONVERTED_AGAIN_MS = 60_000;
/** When an event whose bundle cannot be read is tried again. */
const UNREADABLE_AGAIN_MS = 15 * 60_000;

/**
 * The next page of a consumer with one process: the iterator commits the page before it, and a page that is not committed
 * comes again at once. An event that cannot be converted is left out, and comes once it can be.
 */
export const pollInLoop = service(
  polling,
  async ({ services, principal }, { id, consumer, limit, iterator: given }: LoopInput) => {
    const found = await activeInbox(services, principal, id);
    if (found.kind !== "ok") return found;
    const iterator = given === undefined ? { consumer, page: 0 } : iteratorIn(given);
    const expected = ofConsumer(consumer);
    if (iterator?.consumer !== consumer) return unknownIterator(given ?? "", expected);
    if (iterator.page > 0) {
      const committed = await atInbox(services, id, "commitPage", { ...iterator, returned: [] });
      if (committed === undefined) return unavailable(UNREACHABLE);
      if (committed.kind === "unknown_page") return unknownIterator(given ?? "", expected);
    }
    const read = await nextPage(services, found.value, { consumer, limit, visibility_s: 60, isAlone: true });
    if (!("page" in read)) return read;
    const { page, isLast } = read;
    const all = await inVersions(services, read.deliveries);
    const returned = all.flatMap(({ event, fault }) =>
      fault === undefined
        ? []
        : [{ event: event.id, afterMs: fault === TOO_MUCH ? 0 : UNCONVERTED_AGAIN_MS }],
    );
    const refused = await returnEvents(services, id, { consumer, page, returned });
    if (refused) return refused;
    const deliveries = all.filter(({ fault }) => fault === undefined);
    return ok<LoadedPage>({ deliveries, iterator: iteratorText({ consumer, page }), isLast });
  },
);

type ReadInput = At<Readonly<{ limit: number; iterator?: string | undefined; after?: number | undefined }>>;

/** The events after a position that the caller stores; without one, those since a time, or all. */
export const readFromPosition = service(
  polling,
  async ({ services, principal }, { id, limit, iterator, after }: ReadInput) => {
    const found = await activeInbox(services, principal, id);
    if (found.kind !== "ok") return found;
    const start = iterator === undefined ? INBOX_START : positionIn(iterator);
    if (start === undefined) return unknownIterator(iterator ?? "", "the iterator of a page");
    const isSince = iterator === undefined && after !== undefined;
    const lateFrom = isSince ? await atInbox(services, id, "lateBefore", after) : start.late;
    if (lateFrom === undefined) return unavailable(UNREACHABLE);
    const late = await atInbox(services, id, "lateInInbox", lateFrom, limit);
    if (late === undefined) return unavailable(UNREACHABLE);
    const from = isSince ? { late: lateFrom, next: await nextSince(services, after) } : start;
    const read = await readInbox(services, id, { start: from, late, limit }, overBy(services));
    await reportUnreadable(services, read.unreadable);
    const { isLast, end } = read;
    const deliveries = await inVersions(services, read.deliveries);
    return ok<LoadedPage>({ deliveries, iterator: positionText(end), isLast });
  },
);

/** Acknowledges a page, or single events of it, and returns others. Safe to repeat. */
export const commitPoll = service(
  polling,
  async ({ services, principal }, { id, consumer, ...input }: At<CommitInput>) => {
    const found = await polledDestination(services, principal, id);
    if (found.kind !== "ok") return found;
    const iterator = iteratorIn(input.iterator);
    const expected = ofConsumer(consumer);
    if (iterator?.consumer !== consumer) return unknownIterator(input.iterator, expected);
    if (iterator.page === 0) return ok(undefined);
    const committed = await atInbox(services, id, "commitPage", {
      consumer,
      page: iterator.page,
      acknowledged: input.acknowledge,
      returned: (input.return ?? []).map((one) => ({ event: one.id, afterMs: one.retry_after_s * 1000 })),
    });
    if (committed === undefined) return unavailable(UNREACHABLE);
    if (committed.kind === "unknown_page") return unknownIterator(input.iterator, expected);
    if (committed.kind === "full") return tooMany(MANY_RETURNED);
    if (committed.kind === "committed") return ok(undefined);
    return invalidFields(
      committed.events.map((event) => ({
        field: input.acknowledge?.includes(event) ? "acknowledge" : "return",
        fault: `has ${eventId(event)}, which is not in the page`,
        expected: "events of the page that the iterator is of",
      })),
    );
  },
);

/** The consumer starts over at a time, and its handed-out pages no longer count. */
export const seekPoll = service(
  polling,
  async ({ services, principal }, { id, consumer, since }: At<SeekInput>) => {
    const found = await polledDestination(services, principal, id);
    if (found.kind !== "ok") return found;
    const next = since === null ? [] : await nextSince(services, since);
    const done = await atInbox(services, id, "seekInInbox", consumer, next, since ?? 0);
    if (done === undefined) return unavailable(UNREACHABLE);
    return done ? ok(undefined) : tooMany(MANY_CONSUMERS);
  },
);

/** The consumers of a polled destination, and how far each is behind. */
export const getConsumers = service(
  { scope: "read", action: "read" },
  async ({ services, principal }, id: string) => {
    const found = await polledDestination(services, principal, id);
    if (found.kind !== "ok") return found;
    const consumers = await atInbox(services, id, "inboxConsumers");
    if (consumers === undefined) return unavailable(UNREACHABLE);
    const positions = consumers.map(({ position }) => position);
    const places = positions.map((position) => ({ destination: id, position }));
    const [behind, oldest] = await Promise.all([
      countBehind(services, id, positions, COUNTED_PACKS),
      oldestUnread(services, places),
    ]);
    const now = services.now();
    return ok<ConsumerList>({
      data: consumers.map((consumer, i) => {
        const { name, late, pages, returned, fetchedAt, committedAt } = consumer;
        const { events = 0, isMore = false } = behind[i] ?? {};
        return {
          name,
          lag: {
            events: events + late + returned,
            is_more: isMore,
            seconds: Math.floor(lagMsOf(consumer, oldest[i] ?? null, now) / 1000),
          },
          pages,
          returned,
          fetched_at: isoTime(fetchedAt),
          committed_at: isoTime(committedAt),
        };
      }),
    });
  },
);

/** The first event of each database that was accepted since then, or up to a minute before. */
function nextSince(services: Services, since: number): Promise<number[]> {
  return Promise.all(allOf(services).map(async (db) => eventAt((await idBefore(db, since)) + 1, 0)));
}

async function activeInbox(services: Services, principal: Principal, id: string) {
  const found = await polledDestination(services, principal, id);
  const isPaused = found.kind === "ok" && statusOf(found.value) === "paused";
  return isPaused ? conflict("The destination is paused: resume it to poll") : found;
}

/** The destination, if it is polled and the principal may see it. */
async function polledDestination({ db }: Services, { tenant, destination }: Principal, id: string) {
  const row = (destination ?? id) === id ? await findDestination(db, id, tenant) : undefined;
  if (row === undefined) return missing("destination", id);
  return isPolled(row) ? ok(row) : conflict("The destination is not of the kind poll");
}

type NextPage = Readonly<{
  page: number;
  deliveries: readonly LoadedDelivery[];
  isLast: boolean;
  /** Whether the position has moved without an event, so that another read may find one. */
  hasMoved: boolean;
  /** When something is to be handed out again, epoch ms. */
  againAt: number | null;
}>;

type NextQuery = Pick<PollQuery, "consumer" | "limit" | "visibility_s"> & Readonly<{ isAlone?: boolean }>;

/** The next page that has an event, or the last page read before the wait ends. */
async function awaitedPage(services: Services, destination: Destination, query: PollQuery) {
  const until = services.now() + query.wait_s * 1000;
  const ear = await listenAtInbox(services, destination.id);
  if (ear === undefined) return unavailable(UNREACHABLE);
  try {
    for (;;) {
      const read = await nextPage(services, destination, query);
      const now = services.now();
      if (!("page" in read) || read.deliveries.length > 0 || now >= until) return read;
      if (!read.hasMoved) await ear.wait(Math.max(1, Math.min(until, read.againAt ?? until) - now));
    }
  } finally {
    ear.close();
  }
}

async function nextPage(
  services: Services,
  { id }: Destination,
  { consumer, limit, visibility_s, isAlone = false }: NextQuery,
): Promise<NextPage | Refused<"too_many" | "unavailable">> {
  const visibleMs = visibility_s * 1000;
  for (let round = 1; round <= ROUNDS; round++) {
    const next = await atInbox(services, id, "nextInInbox", { consumer, limit, visibleMs, isAlone });
    if (next === undefined) return unavailable(UNREACHABLE);
    if (next.kind === "full") return tooMany(next.of === "pages" ? MANY_PAGES : MANY_CONSUMERS);
    if (next.kind === "page") {
      const { page } = next;
      const read = await readAgain(services, id, next);
      if (read === undefined) return unavailable(LATER_VERSION);
      const refused = await leaveOut(services, id, { consumer, page }, read.unreadable);
      if (refused) return refused;
      const { deliveries } = read;
      if (deliveries.length > 0) return { page, deliveries, isLast: false, hasMoved: false, againAt: null };
      // All other events of the page are gone by now.
      await atInbox(services, id, "commitPage", { consumer, page, returned: [] });
      continue;
    }
    const { start, late, againAt } = next;
    const read = await readInbox(services, id, { start, late, limit }, overBy(services));
    logDamaged(services, id, read);
    const { deliveries, unreadable, end, isLast } = read;
    const claim = { consumer, start, end, count: deliveries.length + unreadable.length, visibleMs };
    const page = await atInbox(services, id, "claimPage", claim);
    if (page === undefined) return unavailable(UNREACHABLE);
    const refused = page === null ? undefined : await leaveOut(services, id, { consumer, page }, unreadable);
    if (refused) return refused;
    const hasMoved = deliveries.length === 0 && !isLast && !isSamePosition(start, end);
    if (page !== null && !(hasMoved && round < ROUNDS))
      return { page, deliveries, isLast, hasMoved, againAt };
  }
  return tooMany("Other requests poll for the same consumer at the moment");
}

/**
 * The events of a page that was handed out before, without those that have been acknowledged or are gone. Undefined where
 * only later code can read some of them.
 */
async function readAgain(services: Services, id: string, page: InboxPage) {
  const { start, end, late, events, done } = page;
  const over = overBy(services);
  let found: Awaited<ReturnType<typeof readReturned>>;
  if (events === null) {
    const read = await readInbox(services, id, { start, end, late, limit: PAGE_EVENTS }, over);
    if (isSamePosition(read.end, end)) found = read;
  } else found = await readReturned(services, id, events, over);
  return (
    found && {
      deliveries: found.deliveries.filter(({ event }) => !done.includes(event.id)),
      unreadable: found.unreadable.filter(({ event }) => !done.includes(event)),
    }
  );
}

type PageName = Readonly<{ consumer: string; page: number }>;

/** Takes events whose bundles cannot be read out of a page: the consumer gets them once somebody has mended them. */
async function leaveOut(
  services: Services,
  id: string,
  page: PageName,
  unreadable: readonly UnreadableEvent[],
): Promise<Refused<"too_many" | "unavailable"> | undefined> {
  await reportUnreadable(services, unreadable);
  const returned = unreadable.map(({ event }) => ({ event, afterMs: UNREADABLE_AGAIN_MS }));
  return returnEvents(services, id, { ...page, returned });
}

/** Returns events of a page in the consumer's place, and acknowledges none. The result: why that is not possible. */
async function returnEvents(
  services: Services,
  id: string,
  commit: Pick<PageCommit, "consumer" | "page" | "returned">,
): Promise<Refused<"too_many" | "unavailable"> | undefined> {
  if (commit.returned.length === 0) return undefined;
  const left = await atInbox(services, id, "commitPage", { ...commit, acknowledged: [] });
  if (left === undefined) return unavailable(UNREACHABLE);
  return left.kind === "full" ? tooMany(MANY_RETURNED) : undefined;
}

function logDamaged({ log }: Services, destination: string, { damaged }: InboxRead): void {
  for (const event of damaged) log({ what: "polled_event_corrupt", destination, event: eventId(event) });
}

/** Bytes of converted bodies in a page: conversions may make much of little. */
const CONVERTED_BYTES = 8 * 1024 * 1024;

/**
 * The events in the versions of their types that the destination gets, without those that a conversion leaves out. One
 * that cannot be converted is there with its fault, so that it does not hold up those behind it.
 */
async function inVersions(
  services: Services,
  deliveries: readonly LoadedDelivery[],
): Promise<readonly Polled[]> {
  const versions = await versionsToConvert(services, deliveries);
  const polled: Polled[] = [];
  let bytes = 0;
  for (const delivery of deliveries) {
    const { event, destination } = delivery;
    const { body } = event;
    if (!body || !isConverted(event, destination)) polled.push(delivery);
    else if (bytes > CONVERTED_BYTES) polled.push({ ...delivery, fault: TOO_MUCH });
    else {
      const got = await converted(services, { ...event, body }, destination, versions);
      if (got.kind === "event") {
        bytes += got.event.body.byteLength;
        polled.push({ ...delivery, event: got.event });
      } else if (got.kind === "fault") polled.push({ ...delivery, fault: faultText(got.fault) });
    }
  }
  const faulty = polled.filter(({ fault }) => fault !== undefined);
  const [{ event, destination, fault } = {}] = faulty;
  if (event)
    services.log({
      what: "polled_event_unconverted",
      destination: destination?.id,
      event: eventId(event.id),
      fault,
      events: faulty.length,
    });
  return polled;
}

const TOO_MUCH =
  "the converted events are larger than one page may be: return the event, or fetch smaller pages";

/** The message that a queue would get for the event. */
async function polledEvent(
  services: Services,
  sender: Sender,
  { event, destination, row, fault }: Polled,
): Promise<PollPage["data"][number]> {
  const { type, headers: posted, body } = event;
  if (!body) throw new Error("An event without its body must not be handed out");
  const id = eventId(event.id);
  if (fault !== undefined) return { id, type, attempt: Math.max(1, row?.attempts ?? 1), headers: {}, fault };
  const payload = payloadOf({ ...event, body }, destination);
  const message = { id, type, headers: posted, ...payload, attempt: Math.max(1, row?.attempts ?? 1) };
  const headers = await requestHeadersOf(services, message, sender, services.now());
  return { id, ...queueMessageOf({ type, headers, body: payload.body }) };
}

const LATER_VERSION = "Some events can only be read by a later version of Breakwater";
const MANY_PAGES = "The consumer has too many uncommitted pages";
const MANY_RETURNED = "The consumer has too many returned events";
const MANY_CONSUMERS = "The destination has too many consumers";

function tooMany(detail: string): Refused<"too_many"> {
  return { kind: "too_many", detail, retryAfterS: BUSY_S };
}

function unknownIterator(iterator: string, expected: string) {
  return invalidField("iterator", `is ${JSON.stringify(iterator.slice(0, 100))}`, expected);
}

const ofConsumer = (consumer: string) => `one of a page of the consumer ${consumer}`;
