/**
 * Accepting events: commit, then promise. When this answers `accepted`, the events and their plans are in D1.
 *
 * A request with many events makes its bundles itself. A single event goes to intake, the object that commits for
 * everybody who asks at the same time; only when intake has certainly not taken it, it is committed here, alone.
 * The messages are sent behind the answer; whatever becomes of them, the sweep finds what has no outcome.
 */

import { placeByKey, placeByTime } from "../core/placement.ts";
import { routed } from "../core/routing.ts";
import { allOf } from "../db/shards.ts";
import { addToCount } from "../db/stats.ts";
import { randomText } from "../ids.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { isoTime } from "../time.ts";
import type { CommitResult, Entry, PreparedEvent } from "./bundle.ts";
import { answerByKey, commitEntries, WAIT_MS } from "./commit.ts";
import { enqueueCommitted } from "./enqueue.ts";
import { commitByIntake } from "./intake-client.ts";

/** `data` is any JSON value, or a value whose numbers were kept with `JSON.rawJSON`. */
export type PostedEvent = Readonly<{
  tenant: string;
  type: string;
  data: unknown;
  /** Not before this, epoch ms; at once when it is over already. */
  deliverAt?: number | undefined;
}>;

/** Characters of five random bits each: nobody else has the same while it matters. */
const TOKEN_LENGTH = 16;

const encoder = new TextEncoder();

/**
 * Stores the events, all or none, in the order given, and has them delivered. Under a key at most once: a repeat
 * stores and delivers nothing, and gets what was answered first. The key is one of the last event's tenant.
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
    ...(key !== undefined && { key: { key, fingerprint: await fingerprintOf(posted) } }),
    deadlineAt: now + WAIT_MS,
  };
  const outcome =
    (await storedElsewhere(services, database, entry)) ??
    (entry.events.length === 1 ? await commitByIntake(services, database, entry) : undefined) ??
    (await commitHere(services, database, entry));
  if (outcome.kind === "replayed") services.background(noteRepeat(services, posted));
  return outcome;
}

async function commitHere(services: Services, database: number, entry: Entry): Promise<CommitResult> {
  const { outcomes, bundles } = await commitEntries(services, database, [entry], services.now());
  services.background(enqueueCommitted(services, bundles));
  return outcomes[0] ?? { kind: "unavailable" };
}

function prepared({ tenant, type, data, deliverAt = 0 }: PostedEvent, now: number): PreparedEvent {
  const body = encoder.encode(JSON.stringify({ type, timestamp: isoTime(now), data }));
  return { tenant, type, data: () => data, body, ...(deliverAt > now && { deliverAt }) };
}

/** An event of our own. Its key says which it is: it is stored once, however often it is told. */
export type OperationalNotice = PostedEvent & Readonly<{ key: string }>;

/**
 * Stores events of our own in the first database, beside the destinations that they are for; only those that somebody
 * takes. Throws when they cannot be stored.
 */
export async function acceptOperational(
  services: Services,
  notices: readonly OperationalNotice[],
): Promise<void> {
  const now = services.now();
  const tenants = [...new Set(notices.map(({ tenant }) => tenant))];
  const routes = await services.routing.read(services.db, tenants);
  const wanted = notices.filter(({ tenant, type, data }) => {
    return routed(routes.get(tenant)?.routes ?? [], type, () => data).length > 0;
  });
  const entries = wanted.map(
    ({ key, ...event }): Entry => ({
      token: randomText(TOKEN_LENGTH),
      events: [prepared(event, now)],
      key: { key, fingerprint: key },
      deadlineAt: now + WAIT_MS,
    }),
  );
  const { outcomes, bundles } = await commitEntries(services, 0, entries, now);
  await enqueueCommitted(services, bundles);
  if (outcomes.some(({ kind }) => kind === "unavailable")) throw new Error("The database cannot be reached");
}

/**
 * A key leads to one database, where two requests at once are told apart. When there were fewer databases it may have
 * led to another: so those are asked first.
 */
async function storedElsewhere(
  services: Services,
  database: number,
  entry: Entry,
): Promise<CommitResult | undefined> {
  const others = entry.key ? allOf(services).filter((_, number) => number !== database) : [];
  try {
    const found = await Promise.all(others.map((db) => answerByKey(services, db, entry)));
    return found.find((outcome) => outcome !== undefined);
  } catch (error) {
    services.log({ what: "keys_unavailable", error: faultOf(error) });
    return { kind: "unavailable" };
  }
}

/**
 * What a request says, in a few bytes, as hexadecimal SHA-256: the same content has the same fingerprint, whether it
 * came alone, in a list or in lines, and however it was spaced. Numbers count as they were written.
 */
async function fingerprintOf(posted: readonly PostedEvent[]): Promise<string> {
  const content = posted.map(({ tenant, type, data, deliverAt }) => [tenant, type, data, deliverAt]);
  const digest = await crypto.subtle.digest("SHA-256", encoder.encode(JSON.stringify(content)));
  return new Uint8Array(digest).toHex();
}

/**
 * A request that was answered from what is stored is logged and counted: it shows how senders behave. A failure is
 * logged, not thrown: the answer does not depend on it.
 */
async function noteRepeat(services: Services, posted: readonly PostedEvent[]): Promise<void> {
  services.log({ what: "deduplicated", tenant: posted.at(-1)?.tenant, events: posted.length });
  try {
    await addToCount(services.db, "deduplicated", 1);
  } catch (error) {
    services.log({ what: "count_failed", error: faultOf(error) });
  }
}
