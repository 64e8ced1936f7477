/**
 * The archive of exchanges in R2 (core/archive.ts), and D1's data about the events in it.
 *
 * Every call has a timeout: a bucket that does not answer fails like an unavailable one. A call sent to it may still
 * take effect.
 */

import {
  ARCHIVE,
  type ArchivedExchange,
  type AttemptKey,
  archiveNameOf,
  eventIn,
  exchangeIn,
  MOST_OBJECT_BYTES,
  nameBehind,
} from "../core/archive.ts";
import { bundleOf, indexOf, isErased, type Runs } from "../core/bundle.ts";
import { portionsOf } from "../core/portions.ts";
import { type Sleep, within } from "../time.ts";
import { bundlesOf, inShares, LISTED_BUNDLES } from "./bundles.ts";
import { type Databases, select } from "./databases.ts";
import { listInHeaderSql } from "./sql.ts";

export type Archive = Readonly<{ bucket: R2Bucket; sleep: Sleep }>;

/** Undefined where R2 is not bound. */
export function archiveOf({
  bodies,
  sleep,
}: Readonly<{ bodies?: R2Bucket | undefined; sleep: Sleep }>): Archive | undefined {
  return bodies && { bucket: bodies, sleep };
}

/** Whether there may be more of an attempt than its entry has. A success has no entry that says so: a pack has no log. */
export function mayBeArchived(
  { bodiesOf }: Readonly<{ bodiesOf?: "all" | undefined }>,
  { archived }: Readonly<{ archived?: true | undefined }>,
): boolean {
  return archived === true || bodiesOf === "all";
}

/** The timeout of a call. */
const CALL_MS = 10_000;

const SILENCE = "R2 did not answer in time";

/** Undefined when there is none, or none that is this tenant's and can be read. Throws when the bucket does not answer. */
export async function readExchange(
  { bucket, sleep }: Archive,
  key: AttemptKey,
  tenant: string,
): Promise<ArchivedExchange | undefined> {
  const read = async () => {
    const object = await bucket.get(archiveNameOf(key));
    if (object === null) return undefined;
    if (object.size <= MOST_OBJECT_BYTES) return exchangeIn(await object.text(), key, tenant);
    await object.body.cancel();
    return undefined;
  };
  return within({ sleep }, CALL_MS, read(), SILENCE);
}

/** Empties the object of an attempt; one that is stored later is not. The name goes with the event. */
export async function emptyExchange({ bucket, sleep }: Archive, key: AttemptKey): Promise<void> {
  await within({ sleep }, CALL_MS, bucket.put(archiveNameOf(key), ""), SILENCE);
}

/** The most objects that R2 deletes, or lists, in one call. */
const PAGE = 1_000;

/** Removes the exchanges of these attempts, where there are any. */
export async function removeExchanges({ bucket, sleep }: Archive, keys: readonly AttemptKey[]) {
  for (const names of portionsOf(keys.map(archiveNameOf), PAGE))
    await within({ sleep }, CALL_MS, bucket.delete(names), SILENCE);
}

type Walked = Readonly<{
  /** All events up to this one have been checked. */
  upto: number;
  isLast: boolean;
  removed: number;
}>;

/**
 * Removes the exchanges of events that are not stored any more, or whose content has been erased, while it may
 * continue: those after `after` up to `last`. Exchanges of an event whose database is not bound stay.
 */
export async function removeGone(
  databases: Databases,
  { bucket, sleep }: Archive,
  { after, last }: Readonly<{ after: number; last: number }>,
  mayGoOn: () => boolean,
): Promise<Walked> {
  let startAfter = nameBehind(after);
  let upto = after;
  let removed = 0;
  do {
    const listed = bucket.list({ prefix: ARCHIVE, startAfter, limit: PAGE });
    const { objects, truncated } = await within({ sleep }, CALL_MS, listed, SILENCE);
    const all = objects.map(({ key }) => ({ name: key, event: eventIn(key) ?? 0 }));
    const meant = all.filter(({ event }) => event > after && event <= last);
    const gone = await goneAmong(databases, [...new Set(meant.map(({ event }) => event))]);
    const names = meant.filter(({ event }) => gone.has(event)).map(({ name }) => name);
    if (names.length > 0) await within({ sleep }, CALL_MS, bucket.delete(names), SILENCE);
    removed += names.length;
    const end = all.at(-1);
    if (end === undefined || !truncated || end.event > last) return { upto: last, isLast: true, removed };
    startAfter = end.name;
    // There may be more of the last one: if it is gone, the next walk finds that first, and else there is nothing to remove.
    upto = Math.max(upto, gone.has(end.event) ? end.event - 1 : end.event);
  } while (mayGoOn());
  return { upto, isLast: false, removed };
}

const BUNDLES = `SELECT id, ${listInHeaderSql("header", "erased")} AS erased FROM ${LISTED_BUNDLES}`;

/** The events that are not stored, or have no content any more. Exchanges of a bundle that cannot be read stay. */
async function goneAmong(databases: Databases, events: readonly number[]): Promise<ReadonlySet<number>> {
  const gone = await inShares(databases, events, async (db, share) => {
    const rows = await select<{ id: number; erased: string }>(db, BUNDLES, bundlesOf(share));
    const erased = new Map(rows.map((row) => [row.id, { erased: JSON.parse(row.erased) as Runs }]));
    return share.filter((event) => {
      const header = erased.get(bundleOf(event));
      return header === undefined || isErased(header, indexOf(event));
    });
  });
  return new Set(gone);
}
