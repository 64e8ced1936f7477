/**
 * Accepting events. When the result is `accepted`, the events and their plans are in D1.
 *
 * A request with several events commits its own bundles. A single event goes to intake, the Durable Object that
 * commits the events of concurrent requests together; only when intake has certainly not taken it is it committed
 * here, by itself. Queue messages are sent after the answer; if that fails for some seconds, the sweep finds what has no
 * outcome.
 */

import { joined } from "../core/bundle.ts";
import { Content, dataIn } from "../core/content.ts";
import { placeByKey, placeByTime } from "../core/placement.ts";
import { randomText } from "../ids.ts";
import { faultOf, orLogged } from "../log.ts";
import type { Services } from "../services.ts";
import { addToCount } from "../store/stats.ts";
import { mapAtOnce, within } from "../time.ts";
import {
  type CommitOutcome,
  type CommitResult,
  type Entry,
  entryBytes,
  keyTenantOf,
  type PostedEvent,
  routedBy,
  routeOf,
  tenantsOf,
  UNAVAILABLE,
} from "./bundle.ts";
import { commitEntries, storedResults, WAIT_MS } from "./commit.ts";
import { enqueueCommitted } from "./enqueue.ts";
import { INTAKE_VERSION, type IntakeResult, type IntakeRpc, SECOND_CALL_MS } from "./intake-protocol.ts";
import type { Places } from "./placement-cache.ts";
import type { Routes } from "./routing-cache.ts";

/** Characters of five random bits each. */
const TOKEN_LENGTH = 16;
/** Calls to intake for one entry. */
const INTAKE_ATTEMPTS = 2;

const encoder = new TextEncoder();

/**
 * Stores the events, all or none, in the order given, and enqueues their deliveries. Under a key at most once: a
 * repeat stores and delivers nothing, and gets the first result. The key belongs to the tenant of the last event.
 */
export async function accept(
  services: Services,
  posted: readonly PostedEvent[],
  key?: string,
): Promise<CommitResult> {
  const now = services.now();
  const places = await placesOf(services);
  if (places === undefined) return UNAVAILABLE;
  const entry: Entry = {
    token: randomText(TOKEN_LENGTH),
    events: posted.map((event) => scheduled(event, now)),
    key: key === undefined ? undefined : { key, fingerprint: await fingerprintOf(posted) },
    deadlineAt: now + WAIT_MS,
  };
  const first = await placeAndCommit(services, places, entry, now);
  // Placed again, with the tenants known as pinned.
  const outcome =
    settled(first) ?? settled(await placeAndCommit(services, places, entry, now)) ?? UNAVAILABLE;
  if (outcome.kind === "replayed") services.background(countRepeat(services, posted));
  return outcome;
}

/** The outcome of an entry, if it was placed rightly. The first database misplaces none. */
function settled(outcome: CommitOutcome | undefined): CommitResult | undefined {
  return outcome?.kind === "misplaced" ? undefined : outcome;
}

async function placeAndCommit(
  services: Services,
  places: Places,
  entry: Entry,
  now: number,
): Promise<CommitOutcome> {
  const database = placeOf(services, entry, places.count, now);
  const sender = { tenant: keyTenantOf(entry), key: entry.key?.key };
  const elsewhere = formerPlaces(services, places, sender, now).filter((one) => one !== database);
  const { outcomes } = await lookUpStored(services, new Map(elsewhere.map((one) => [one, [entry]])));
  const outcome =
    outcomes.get(entry) ??
    (entry.events.length === 1 ? await commitByIntake(services, database, entry) : undefined) ??
    (await commitHere(services, database, entry));
  rememberPinned(services, [outcome]);
  return outcome;
}

function rememberPinned({ placement, now }: Services, outcomes: Iterable<CommitOutcome>): void {
  for (const outcome of outcomes) if (outcome.kind === "misplaced") placement.pin(outcome.tenants, now());
}

/** An event from a queue, which delivers it again until it is acknowledged. */
export type Handover = Readonly<{
  /** The event's idempotency key. */
  key?: string | undefined;
  /** Unique to the event, and the same on every delivery by the queue. */
  token: string;
  /** When its sender sent it, epoch ms: not after the first try to store it, and the same on every try. */
  sentAt: number;
  /** An earlier try may have stored it: this one finds that, and stores nothing. */
  isRepeated: boolean;
}>;

/** The entry of an event that is accepted or not by itself, although others are committed with it. */
export async function entryOfMessage(
  { now }: Pick<Services, "now">,
  event: PostedEvent,
  { key, token, sentAt, isRepeated }: Handover,
): Promise<Entry> {
  const ownKey = isRepeated ? messageKey(token) : undefined;
  return {
    token,
    events: [scheduled(event, now())],
    key: key === undefined ? ownKey : { key, fingerprint: await fingerprintOf([event]) },
    deadlineAt: now() + WAIT_MS,
    handed: { sentAt, isRepeated, isKeyed: key !== undefined },
    triedWithin: isRepeated && key === undefined ? [sentAt - CLOCK_SKEW_MS, sentAt + FRESH_MS] : undefined,
  };
}

/**
 * A message that is stored no later than this after it was sent, ms, is found by its token among the bundles of that
 * time, if the queue delivers it again. One that is stored later gets a key, in a row of its own, because the delay is
 * unbounded. Senders' and isolates' clocks differ by less than the second.
 */
const FRESH_MS = 2 * 60_000;
const CLOCK_SKEW_MS = 60_000;

/** Bytes of the bodies of one commit: as many as one request may post. */
const COMMIT_BYTES = 1024 * 1024;

/**
 * Stores the event of each entry (`entryOfMessage`), once however often the queue delivers it, and enqueues its
 * deliveries. They are committed together, and the results are in their order. Never throws.
 */
export async function acceptEach(
  services: Services,
  entries: readonly Entry[],
): Promise<readonly CommitResult[]> {
  const places = await placesOf(services);
  if (places === undefined) return entries.map(() => UNAVAILABLE);
  const results = await placeAndCommitEach(services, places, entries);
  const misplaced = entries.filter((entry) => results.get(entry)?.kind === "misplaced");
  const again = misplaced.length > 0 ? await placeAndCommitEach(services, places, misplaced) : results;
  const outcomes = entries.map(
    (entry) => settled(results.get(entry)) ?? settled(again.get(entry)) ?? UNAVAILABLE,
  );
  for (const [i, { kind }] of outcomes.entries())
    if (kind === "replayed") services.background(countRepeat(services, entries[i]?.events ?? []));
  return outcomes;
}

async function placeAndCommitEach(
  services: Services,
  places: Places,
  entries: readonly Entry[],
): Promise<ReadonlyMap<Entry, CommitOutcome>> {
  const { outcomes, highest } = await lookUpStored(services, placesToAsk(services, places, entries));
  const results = new Map<Entry, CommitOutcome>(outcomes);
  const open = entries.filter((entry) => !results.has(entry));
  const byDatabase = Map.groupBy(open, (entry) => databaseOf(services, entry, places.count));
  const routes = await routesBeyond(services, byDatabase);
  for (const [database, some] of byDatabase) {
    // An entry that was looked up is in no bundle up to there; one that was not has never been tried.
    const floor = highest.get(database);
    for (const portion of portionsOf(some)) {
      const acceptedAt = services.now();
      const deadlineAt = acceptedAt + WAIT_MS;
      const dated = portion.map((entry) => ({ ...entryAt(entry, acceptedAt), deadlineAt, floor }));
      const committed = await commitEntries(services, database, dated, acceptedAt, routes);
      services.background(enqueueCommitted(services, committed.bundles));
      for (const [i, entry] of portion.entries()) results.set(entry, committed.outcomes[i] ?? UNAVAILABLE);
    }
  }
  rememberPinned(services, results.values());
  return results;
}

/** The database, given their number, where the entry of a message is stored if it is not stored yet. */
function databaseOf(services: Services, entry: Entry, count: number): number {
  const { key, handed } = entry;
  return placeOf(services, { ...entry, key: handed?.isKeyed ? key : undefined }, count, handed?.sentAt ?? 0);
}

/** The entry of a message as it is committed at that time. */
function entryAt(entry: Entry, acceptedAt: number): Entry {
  const { key, token, handed: { sentAt } = { sentAt: 0 } } = entry;
  const isFresh = sentAt - CLOCK_SKEW_MS <= acceptedAt && acceptedAt <= sentAt + FRESH_MS;
  return key !== undefined || isFresh ? entry : { ...entry, key: messageKey(token) };
}

function messageKey(token: string) {
  return { key: `${MESSAGE_KEY}${token}`, fingerprint: token };
}

/** The beginning of a message's own key: no idempotency key of a sender has such a character. */
const MESSAGE_KEY = "\u0001message ";

/** By database, the entries that an earlier try, or another request with their key, may have stored there. */
function placesToAsk(
  services: Services,
  places: Places,
  entries: readonly Entry[],
): ReadonlyMap<number, readonly Entry[]> {
  const now = services.now();
  const asked = new Map<number, Entry[]>();
  for (const entry of entries) {
    const { isRepeated = false, isKeyed = false, sentAt = 0 } = entry.handed ?? {};
    const database = databaseOf(services, entry, places.count);
    const sender = { tenant: keyTenantOf(entry), key: isKeyed ? entry.key?.key : undefined, sentAt };
    const former = isRepeated || isKeyed ? formerPlaces(services, places, sender, now) : [];
    // Concurrent requests with a key meet in the transaction of the commit; an event that the same message has stored
    // is looked up. An earlier try may have been made while its tenant was pinned to the first database.
    const own = isRepeated ? [database, 0, ...former] : former.filter((at) => at !== database);
    for (const at of new Set(own)) asked.set(at, [...(asked.get(at) ?? []), entry]);
  }
  return asked;
}

/** The destinations of the entries that go to further databases, read once for all of them; undefined if there are none. */
async function routesBeyond(
  services: Services,
  byDatabase: ReadonlyMap<number, readonly Entry[]>,
): Promise<ReadonlyMap<string, Routes> | undefined> {
  const entries = [...byDatabase].flatMap(([database, some]) => (database > 0 ? some : []));
  if (entries.length === 0) return undefined;
  // If it fails, each commit tries it again.
  return orLogged(services, { what: "routes_unread" }, () =>
    within(services, LOOK_UP_MS, services.routing.fresh(services.db, routedBy(entries))),
  );
}

/** As many entries at a time as one commit takes. */
function portionsOf(entries: readonly Entry[]): Entry[][] {
  const portions: Entry[][] = [];
  let free = 0;
  for (const entry of entries) {
    const bytes = entryBytes(entry);
    if (bytes > free) {
      portions.push([]);
      free = COMMIT_BYTES;
    }
    free -= bytes;
    portions.at(-1)?.push(entry);
  }
  return portions;
}

/** An operational event. It is stored once by its key, however often it is posted. */
export type KeyedEvent = PostedEvent & Readonly<{ key: string }>;

/**
 * Stores operational events in the first database, where the destinations are; only those that at least one destination
 * takes. Throws when they cannot be stored.
 */
export async function acceptOperational(services: Services, keyed: readonly KeyedEvent[]): Promise<void> {
  const now = services.now();
  const tenants = [...new Set(keyed.map(({ tenant }) => tenant))];
  const routes = await services.routing.fresh(services.db, tenants);
  const wanted = keyed.filter((event) => routeOf(event, routes).length > 0);
  const entries = wanted.map(
    ({ key, ...event }): Entry => ({
      token: randomText(TOKEN_LENGTH),
      events: [scheduled(event, now)],
      key: { key, fingerprint: key },
      deadlineAt: now + WAIT_MS,
      isOwn: true,
    }),
  );
  const { outcomes, bundles } = await commitEntries(services, 0, entries, now);
  services.background(enqueueCommitted(services, bundles));
  if (outcomes.some(({ kind }) => kind === "unavailable")) throw new Error("The database cannot be reached");
}

/**
 * The database that stores new events. Those with an ordering key go to the first one, however many there are and were,
 * and so does everything of tenants with destinations that order other events: order is that of the numbers in one
 * database. A commit to another one refuses such a tenant's events, so the pin need not be known here.
 * @param at epoch ms
 */
function placeOf({ placement, now }: Services, entry: Entry, count: number, at: number): number {
  const { key, events } = entry;
  const tenant = keyTenantOf(entry);
  if (count > 1 && pinnedAmong({ placement, now }, [entry]).length > 0) return 0;
  if (events.some(({ options }) => options?.orderingKey !== undefined)) return 0;
  return key === undefined ? placeByTime(tenant, count, at) : placeByKey(tenant, key.key, count);
}

/** The tenants of the entries that this isolate knows to be pinned to the first database. */
function pinnedAmong(
  { placement, now }: Pick<Services, "placement" | "now">,
  entries: readonly Entry[],
): string[] {
  const at = now();
  return tenantsOf(entries).filter((tenant) => placement.isPinned(tenant, at));
}

/** How many databases take new events, and have taken them; undefined if that cannot be read. */
function placesOf(services: Services): Promise<Places | undefined> {
  return orLogged(services, { what: "history_unread" }, () => services.placement.places(services));
}

/** Longer than `RETENTION_DAYS` an event is kept while it is scheduled or its deliveries have not ended. */
export const KEPT_LONGER_MS = 60 * 86_400_000;

/**
 * Where an event may have been stored before: under its key as long as that is kept, or without one since it was sent. While
 * the number of databases stays as it is, that is the one in which it is placed now.
 */
function formerPlaces(
  { config, placement }: Services,
  places: Places,
  { tenant, key, sentAt = 0 }: Readonly<{ tenant: string; key?: string | undefined; sentAt?: number }>,
  now: number,
): number[] {
  if (key === undefined && sentAt === 0) return [];
  const from = key === undefined ? sentAt : now - config.retentionMs - KEPT_LONGER_MS;
  const placed = (count: number) =>
    key === undefined ? placeByTime(tenant, count, sentAt) : placeByKey(tenant, key, count);
  const all = [...new Set(places.countsSince(from).map(placed))];
  return all.filter((database) => placement.refusedSince(database, tenant) > from);
}

type LookedUp = Readonly<{
  outcomes: ReadonlyMap<Entry, CommitOutcome>;
  /** The highest bundle id of each queried database at that time. */
  highest: ReadonlyMap<number, number>;
}>;

/** Databases queried at the same time: an invocation has six connections. */
const ASKED_AT_ONCE = 5;
/** The timeout of a read of the database. */
const LOOK_UP_MS = 5_000;

/**
 * Looks the entries up in the databases where they may be stored, and enqueues what an earlier try has stored. If one
 * of these cannot be queried, the entries that might be there are unavailable. From then on, a further database refuses
 * events of pinned tenants, and of tenants whose key such an entry has used.
 */
async function lookUpStored(
  services: Services,
  asked: ReadonlyMap<number, readonly Entry[]>,
): Promise<LookedUp> {
  const outcomes = new Map<Entry, CommitOutcome>();
  const highest = new Map<number, number>();
  await mapAtOnce([...asked], ASKED_AT_ONCE, async ([database, entries]) => {
    try {
      const pinned = entries.flatMap((entry) => {
        const known = pinnedAmong(services, [entry]);
        return known.length > 0 ? [...known, keyTenantOf(entry)] : [];
      });
      const found = await storedResults(services, database, entries, [...new Set(pinned)]);
      services.background(enqueueCommitted(services, found.bundles));
      for (const [entry, outcome] of found.outcomes) outcomes.set(entry, outcome);
      services.placement.keepRefused(database, found.pinned);
      for (const entry of entries) {
        const tenants = tenantsOf([entry]).filter((tenant) => found.pinned.has(tenant));
        if (tenants.length === 0 || outcomes.has(entry) || pinnedAmong(services, [entry]).length > 0)
          continue;
        outcomes.set(entry, { kind: "misplaced", tenants });
      }
      highest.set(database, found.highest);
    } catch (error) {
      services.log({ what: "keys_unavailable", database, error: faultOf(error) });
      for (const entry of entries) if (!outcomes.has(entry)) outcomes.set(entry, UNAVAILABLE);
    }
  });
  return { outcomes, highest };
}

/**
 * Has intake commit an entry of one event. Undefined when intake has certainly not taken it, so that the caller may
 * commit it. If the answer is lost, the call is repeated once with the same token; if that fails too, the result is
 * uncertain: a commit from here could race with an object that is still working on the entry.
 */
async function commitByIntake(
  services: Services,
  database: number,
  entry: Entry,
): Promise<CommitOutcome | undefined> {
  const { intake, config, placement } = services;
  if (!intake) return undefined;
  const location = config.intakeLocation && { locationHint: config.intakeLocation };
  return placement.withShard(services, keyTenantOf(entry), config.intakeShards, (shard) => {
    const id = intake.idFromName(`${database}.${shard}`);
    return callIntake(services, () => intake.get(id, location), database, entry);
  });
}

async function callIntake(
  services: Services,
  objectOf: () => DurableObjectStub<IntakeRpc>,
  database: number,
  entry: Entry,
): Promise<CommitOutcome | undefined> {
  const { deadlineAt } = entry;
  let triedAt: number | undefined;
  for (let attempt = 1; attempt <= INTAKE_ATTEMPTS; attempt++) {
    const calledAt = services.now();
    if (calledAt >= deadlineAt) break;
    const notTaken = triedAt === undefined ? undefined : UNAVAILABLE;
    const call = async (): Promise<IntakeResult> =>
      objectOf().accept(INTAKE_VERSION, database, { ...entry, triedAt });
    try {
      const result = await within(services, deadlineAt - calledAt, call());
      if (result.kind === "done") return result.outcome;
      return result.kind === "full" ? UNAVAILABLE : notTaken;
    } catch (error) {
      services.log({ what: "intake_unreachable", attempt, error: faultOf(error) });
      // An overloaded object has taken nothing: https://developers.cloudflare.com/durable-objects/best-practices/error-handling/
      if ((error as { overloaded?: boolean }).overloaded) return notTaken;
      triedAt ??= calledAt;
      if (attempt < INTAKE_ATTEMPTS) {
        // After a deploy all waiting callers call the object again; jitter spreads them over up to twice this time.
        await services.sleep(Math.round(SECOND_CALL_MS * (2 - services.random())));
      }
    }
  }
  return UNAVAILABLE;
}

async function commitHere(services: Services, database: number, entry: Entry): Promise<CommitOutcome> {
  const { outcomes, bundles } = await commitEntries(services, database, [entry], services.now());
  services.background(enqueueCommitted(services, bundles));
  return outcomes[0] ?? UNAVAILABLE;
}

/** The event, without its time if that has already passed. */
function scheduled(event: PostedEvent, now: number): PostedEvent {
  const { deliverAt = Number.POSITIVE_INFINITY } = event;
  return deliverAt > now ? event : { ...event, deliverAt: undefined };
}

/**
 * A digest of a request's content, as hexadecimal SHA-256. It is the same for a single event, a list and lines of JSON,
 * whatever the white space; numbers are compared as they were written.
 */
async function fingerprintOf(posted: readonly PostedEvent[]): Promise<string> {
  const parts = posted.flatMap((event, i) => [encoder.encode(i === 0 ? "[" : ","), ...contentOf(event)]);
  const digest = await crypto.subtle.digest("SHA-256", joined([...parts, encoder.encode("]")]));
  return new Uint8Array(digest).toHex();
}

/** The JSON of an event's tenant, type, data, time and options, in that order. */
function contentOf({ tenant, type, body, deliverAt, options = {} }: PostedEvent): Uint8Array[] {
  const { contentType, ...others } = options;
  const before = JSON.stringify([tenant, type]).slice(0, -1);
  const behind = JSON.stringify([deliverAt, ...(Object.keys(others).length > 0 ? [others] : [])]).slice(1);
  const data =
    contentType === undefined
      ? dataIn(body, type)
      : encoder.encode(JSON.stringify(new Content(contentType, body)));
  return [encoder.encode(`${before},`), data, encoder.encode(`,${behind}`)];
}

/** Logs and counts a request that was answered from its key. A failure is logged: the answer does not depend on it. */
async function countRepeat(services: Services, posted: readonly PostedEvent[]): Promise<void> {
  services.log({ what: "deduplicated", tenant: posted.at(-1)?.tenant, events: posted.length });
  await orLogged(services, { what: "count_failed" }, () => addToCount(services.db, "deduplicated", 1));
}
