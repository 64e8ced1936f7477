/**
 * Accepting events. When the result is `accepted`, the events and their plans are in D1.
 *
 * A request with several events commits its own bundles. A single event goes to intake, the Durable Object that
 * commits the events of concurrent requests together; only when intake has certainly not taken it is it committed
 * here, by itself. Queue messages are sent after the answer; if that fails for some seconds, the sweep finds what has no
 * outcome.
 */

import { Content, envelopeOf } from "../core/content.ts";
import { placeByKey, placeByTime } from "../core/placement.ts";
import { routed } from "../core/routing.ts";
import { allOf } from "../db/shards.ts";
import { addToCount } from "../db/stats.ts";
import { randomText } from "../ids.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { isoTime, within } from "../time.ts";
import {
  type CommitResult,
  type Entry,
  type EventOptions,
  type PreparedEvent,
  UNAVAILABLE,
} from "./bundle.ts";
import { commitEntries, storedResults, WAIT_MS } from "./commit.ts";
import { enqueueCommitted } from "./enqueue.ts";
import { type IntakeResult, versionFor } from "./intake-protocol.ts";

export type PostedEvent = Readonly<{
  tenant: string;
  type: string;
  /** Any JSON value; numbers may be kept to the digit with `JSON.rawJSON`. Or `Content`, which is sent as it is. */
  data: unknown;
  /** Not to be delivered before this, epoch ms; at once when it has passed. */
  deliverAt?: number | undefined;
  options?: EventOptions | undefined;
}>;

/** Characters of five random bits each. */
const TOKEN_LENGTH = 16;
/** Calls to intake for one entry. */
const INTAKE_ATTEMPTS = 2;
/** The pause before the second, shortened by up to half: after a deploy all who wait for the object call it again. */
const INTAKE_PAUSE_MS = 200;

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
  const tenant = posted.at(-1)?.tenant ?? "";
  const databases = services.config.eventDatabases ?? allOf(services).length;
  const database =
    key === undefined ? placeByTime(tenant, databases, now) : placeByKey(tenant, key, databases);
  const entry: Entry = {
    token: randomText(TOKEN_LENGTH),
    events: posted.map((event) => prepared(event, now)),
    key: key === undefined ? undefined : { key, fingerprint: await fingerprintOf(posted) },
    deadlineAt: now + WAIT_MS,
  };
  const outcome =
    (await storedElsewhere(services, database, [entry])).get(entry) ??
    (entry.events.length === 1 ? await commitByIntake(services, database, entry) : undefined) ??
    (await commitHere(services, database, entry));
  if (outcome.kind === "replayed") services.background(countRepeat(services, posted));
  return outcome;
}

/** An event that is accepted or not by itself, although others are committed with it. */
export type SingleEvent = PostedEvent &
  Readonly<{
    /** Its idempotency key. */
    key?: string | undefined;
    /** The same whenever it is handed over, and no other event's. */
    token: string;
    /** When its sender sent it, epoch ms: not after the first try to store it, and the same at each. */
    sentAt: number;
    /** It may have been stored by an earlier try: this one finds that, and stores nothing. */
    isRepeated: boolean;
  }>;

/** Bytes of the bodies of one commit: as many as one request may post. */
const COMMIT_BYTES = 1024 * 1024;

/**
 * Stores each of the events, once however often it is handed over, and enqueues their deliveries. They are committed
 * together, and the results are in their order. Never throws.
 */
export async function acceptEach(
  services: Services,
  posted: readonly SingleEvent[],
): Promise<readonly CommitResult[]> {
  const databases = services.config.eventDatabases ?? allOf(services).length;
  const now = services.now();
  const items = posted.map((one) => ({ one, event: prepared(one, now) }));
  const byDatabase = Map.groupBy(items, ({ one: { tenant, key, sentAt } }) =>
    key === undefined ? placeByTime(tenant, databases, sentAt) : placeByKey(tenant, key, databases),
  );
  const results = new Map<SingleEvent, CommitResult>();
  for (const [database, some] of byDatabase) {
    for (const portion of portionsOf(some)) {
      const outcomes = await acceptPortion(services, database, portion);
      for (const [i, { one }] of portion.entries()) results.set(one, outcomes[i] ?? UNAVAILABLE);
    }
  }
  const repeats = posted.filter((one) => results.get(one)?.kind === "replayed");
  for (const one of repeats) services.background(countRepeat(services, [one]));
  return posted.map((one) => results.get(one) ?? UNAVAILABLE);
}

type SingleItem = Readonly<{ one: SingleEvent; event: PreparedEvent }>;

/** As many events at a time as one commit takes. */
function portionsOf(items: readonly SingleItem[]): SingleItem[][] {
  const portions: SingleItem[][] = [];
  let free = 0;
  for (const item of items) {
    const bytes = item.event.body.byteLength;
    if (bytes > free) {
      portions.push([]);
      free = COMMIT_BYTES;
    }
    free -= bytes;
    portions.at(-1)?.push(item);
  }
  return portions;
}

async function acceptPortion(
  services: Services,
  database: number,
  items: readonly SingleItem[],
): Promise<readonly CommitResult[]> {
  const now = services.now();
  const entries = await Promise.all(
    items.map(async ({ one, event }): Promise<Entry> => {
      const { key, token, sentAt, isRepeated } = one;
      return {
        token,
        events: [event],
        key: key === undefined ? undefined : { key, fingerprint: await fingerprintOf([one]) },
        deadlineAt: now + WAIT_MS,
        triedAt: isRepeated ? sentAt : undefined,
      };
    }),
  );
  const elsewhere = await storedElsewhere(services, database, entries);
  const open = entries.filter((entry) => !elsewhere.has(entry));
  const { outcomes, bundles } = await commitEntries(services, database, open, now);
  services.background(enqueueCommitted(services, bundles));
  const committed = new Map(open.map((entry, i) => [entry, outcomes[i]]));
  return entries.map((entry) => elsewhere.get(entry) ?? committed.get(entry) ?? UNAVAILABLE);
}

/** An operational event. It is stored once by its key, however often it is posted. */
export type KeyedEvent = PostedEvent & Readonly<{ key: string }>;

/**
 * Stores operational events in the first database, where the destinations are; only those that at least one of them
 * takes. Throws when they cannot be stored.
 */
export async function acceptOperational(services: Services, keyed: readonly KeyedEvent[]): Promise<void> {
  const now = services.now();
  const tenants = [...new Set(keyed.map(({ tenant }) => tenant))];
  const routes = await services.routing.read(services.db, tenants);
  const wanted = keyed.filter(({ tenant, type, data }) => {
    return routed(routes.get(tenant)?.routes ?? [], { type, data: () => data }).length > 0;
  });
  const entries = wanted.map(
    ({ key, ...event }): Entry => ({
      token: randomText(TOKEN_LENGTH),
      events: [prepared(event, now)],
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
 * The results of entries that are stored in another database than the one they are placed in now. A key or a repeated
 * event is placed in one database, in which concurrent tries are told apart; while there were fewer databases, it may
 * have been placed in another. Where that cannot be looked up, all that might be stored are unavailable.
 */
async function storedElsewhere(
  services: Services,
  database: number,
  entries: readonly Entry[],
): Promise<ReadonlyMap<Entry, CommitResult>> {
  const wanted = entries.filter(({ key, triedAt }) => key !== undefined || triedAt !== undefined);
  const others = allOf(services).flatMap((_, number) => (number === database ? [] : [number]));
  if (wanted.length === 0 || others.length === 0) return new Map();
  try {
    const found = await Promise.all(others.map((number) => storedResults(services, number, wanted)));
    const bundles = found.flatMap((one) => one.bundles);
    services.background(enqueueCommitted(services, bundles));
    return new Map(found.flatMap(({ outcomes }) => [...outcomes]));
  } catch (error) {
    services.log({ what: "keys_unavailable", error: faultOf(error) });
    return new Map(wanted.map((entry) => [entry, UNAVAILABLE]));
  }
}

/**
 * Has intake commit an entry of one event. Undefined when intake has certainly not taken it, so that the caller may
 * commit it. If the answer is lost, the call is repeated once with the same token; if that fails too, the result is
 * uncertain: a commit from here could race with an object that is still working on the entry.
 */
async function commitByIntake(
  services: Services,
  database: number,
  { token, events: [event], key, deadlineAt }: Entry,
): Promise<CommitResult | undefined> {
  const { intake, config } = services;
  if (!intake || !event) return undefined;
  const { tenant, type, body, deliverAt, options } = event;
  const shard = Math.floor(services.random() * config.intakeShards);
  const location = config.intakeLocation && { locationHint: config.intakeLocation };
  const version = versionFor(options);
  const posted = { version, database, token, tenant, type, body, deliverAt, options, key, deadlineAt };
  let triedAt: number | undefined;
  for (let attempt = 1; attempt <= INTAKE_ATTEMPTS; attempt++) {
    const calledAt = services.now();
    if (calledAt >= deadlineAt) break;
    const notTaken = triedAt === undefined ? undefined : UNAVAILABLE;
    const call = async (): Promise<IntakeResult> =>
      intake.get(intake.idFromName(`${database}.${shard}`), location).accept({ ...posted, triedAt });
    try {
      const result = await within(services, deadlineAt - calledAt, call());
      if (result.kind === "done") return result.outcome;
      return result.kind === "full" ? UNAVAILABLE : notTaken;
    } catch (error) {
      services.log({ what: "intake_unreachable", attempt, error: faultOf(error) });
      // An overloaded object has taken nothing: https://developers.cloudflare.com/durable-objects/best-practices/error-handling/
      if ((error as { overloaded?: boolean }).overloaded) return notTaken;
      triedAt ??= calledAt;
      if (attempt < INTAKE_ATTEMPTS)
        await services.sleep(Math.round(INTAKE_PAUSE_MS * (1 - services.random() / 2)));
    }
  }
  return UNAVAILABLE;
}

async function commitHere(services: Services, database: number, entry: Entry): Promise<CommitResult> {
  const { outcomes, bundles } = await commitEntries(services, database, [entry], services.now());
  services.background(enqueueCommitted(services, bundles));
  return outcomes[0] ?? UNAVAILABLE;
}

function prepared({ tenant, type, data, deliverAt = 0, options }: PostedEvent, now: number): PreparedEvent {
  const scheduled = deliverAt > now && { deliverAt };
  if (data instanceof Content) {
    const { bytes: body, type: contentType } = data;
    return { tenant, type, data: () => undefined, body, ...scheduled, options: { ...options, contentType } };
  }
  const body = encoder.encode(envelopeOf(type, isoTime(now), data));
  return { tenant, type, data: () => data, body, ...scheduled, ...(options && { options }) };
}

/**
 * A digest of a request's content, as hexadecimal SHA-256. It is the same for a single event, a list and lines of JSON,
 * whatever the white space; numbers are compared as they were written.
 */
async function fingerprintOf(posted: readonly PostedEvent[]): Promise<string> {
  const content = posted.map(({ tenant, type, data, deliverAt, options }) => {
    return [tenant, type, data, deliverAt, ...(options ? [options] : [])];
  });
  const digest = await crypto.subtle.digest("SHA-256", encoder.encode(JSON.stringify(content)));
  return new Uint8Array(digest).toHex();
}

/** Logs and counts a request that was answered from its key. A failure is logged: the answer does not depend on it. */
async function countRepeat(services: Services, posted: readonly PostedEvent[]): Promise<void> {
  services.log({ what: "deduplicated", tenant: posted.at(-1)?.tenant, events: posted.length });
  try {
    await addToCount(services.db, "deduplicated", 1);
  } catch (error) {
    services.log({ what: "count_failed", error: faultOf(error) });
  }
}
