/**
 * Bundles in D1: committed as a whole or not at all, and safe to commit again.
 *
 * A commit carries its guards in each of its statements, because a statement that changes nothing rolls nothing
 * back. What a request posts has a random token, which its bundle keeps: a repeat, through whatever object and
 * however late, finds the token and changes nothing. What has happened is told by RETURNING and by tokens, never by
 * `last_insert_rowid()` or `meta.changes`, which triggers and neighbours change.
 */
import {
  bundleOf,
  checksumOf,
  deliveriesOf,
  eventAt,
  headerAt,
  headersOf,
  indexOf,
  joined,
  type Plan,
  type StoredHeader,
} from "../core/bundle.ts";
import { BUNDLE_BITS, beforeFirstBundleOf } from "../core/placement.ts";
import { type Databases, sharesOf } from "./shards.ts";

export type NewBundle = Readonly<{
  /** Of each event in order, or one for all of them where a request has made the bundle. */
  tokens: readonly string[];
  /** Not to be delivered before this, epoch ms; at once without it. */
  deliverAt?: number | undefined;
  count: number;
  plan: Plan;
  header: StoredHeader;
  /** The bodies as hexadecimal. */
  hex: string;
}>;

/** Which of the bundles of a key, and the index there. */
export type EventPlace = readonly [bundle: number, index: number];

/** A sender's name for a request, and where its events are. */
export type NewKey = Readonly<{
  tenant: string;
  key: string;
  /** Digest of the content, by which a repeat is told from another request. */
  fingerprint: string;
  /** The first token of each of the bundles that its events are in, in the order of the commit. */
  tokens: readonly string[];
  /** The place of each event, in the order posted. */
  places: readonly EventPlace[];
}>;

export type KeyName = Pick<NewKey, "tenant" | "key">;

export type StoredKey = Omit<NewKey, "tokens"> & Readonly<{ bundles: readonly number[] }>;

/** Bundles that are committed all or none: those of one request, or one that single events share. */
export type Unit = Readonly<{
  bundles: readonly NewBundle[];
  /** The revision of each tenant by which the events were routed; none where the tenants are not stored. */
  revisions: Readonly<Record<string, number>>;
  keys: readonly NewKey[];
}>;

export type Commit = Readonly<{
  units: readonly Unit[];
  /** Epoch ms. */
  acceptedAt: number;
  /** The highest bundle that was known before the first try: tokens are looked for in what came after it. */
  floor: number;
}>;

const KNOWN = `
  SELECT b.id, t.key AS place, t.value AS token FROM bundles b JOIN json_each(b.tokens) t
  WHERE b.id > ?1 AND t.value IN (SELECT value FROM json_each(?2))`;

/** No token is known, no tenant has changed, no key is taken. */
const GUARDS = `
  NOT EXISTS (${KNOWN})
  AND NOT EXISTS (
    SELECT 1 FROM json_each(?3) r LEFT JOIN tenants t ON t.id = r.key WHERE coalesce(t.revision, 0) <> r.value)
  AND NOT EXISTS (
    SELECT 1 FROM json_each(?4) k JOIN idempotency_keys taken
      ON taken.tenant = k.value ->> 0 AND taken.key = k.value ->> 1)`;

/**
 * The number is the next one of this database: the newest row is never removed, so none comes twice; and it is above
 * the floor, also in a database that has been put back to an earlier time since the floor was read. `?2` are the
 * tokens of this bundle alone, for its neighbours of the same commit are there already.
 */
const INSERT = `
  INSERT INTO bundles (id, tokens, accepted_at, deliver_at, count, planned, plan, header, body)
  SELECT max(coalesce((SELECT max(id) FROM bundles), ?5), ?1) + 1, ?2, ?6, ?7, ?8, ?9, ?10, ?11, unhex(?12)
  WHERE ${GUARDS} RETURNING id`;

/** Only behind its bundles, and not once more where that has happened already. */
const INSERT_KEY = `
  INSERT INTO idempotency_keys (tenant, key, fingerprint, bundles, places, created_at)
  SELECT ?3, ?4, ?5, json_group_array(id), ?6, ?7
  FROM (SELECT DISTINCT id FROM (${KNOWN}) ORDER BY id) HAVING count(*) > 0
  ON CONFLICT DO NOTHING`;

const STORED_KEYS = `
  SELECT s.tenant, s.key, s.fingerprint, s.bundles, s.places FROM json_each(?1) k
  JOIN idempotency_keys s ON s.tenant = k.value ->> 0 AND s.key = k.value ->> 1`;

/**
 * Commits the units to the database of that number, in one transaction. Safe to repeat with the same tokens and
 * floor. Answers for each the numbers of its bundles, or undefined where nothing has changed: a token is known, a
 * tenant's destinations are others by now, or a key is taken.
 */
export async function commitUnits(
  db: D1Database,
  database: number,
  commit: Commit,
): Promise<readonly (readonly number[] | undefined)[]> {
  const { units, acceptedAt, floor } = commit;
  const insert = db.prepare(INSERT);
  const insertKey = db.prepare(INSERT_KEY);
  const statements = units.flatMap(({ bundles, revisions, keys }) => {
    const guards = [JSON.stringify(revisions), namesOf(keys), beforeFirstBundleOf(database), acceptedAt];
    return [
      ...bundles.map(({ tokens, deliverAt = null, count, plan, header, hex }) => {
        const columns = [
          deliverAt,
          count,
          deliveriesOf(plan),
          JSON.stringify(plan),
          JSON.stringify(header),
          hex,
        ];
        return insert.bind(floor, JSON.stringify(tokens), ...guards, ...columns);
      }),
      ...keys.map(({ tokens, tenant, key, fingerprint, places }) => {
        const columns = [tenant, key, fingerprint, JSON.stringify(places), acceptedAt];
        return insertKey.bind(floor, JSON.stringify(tokens), ...columns);
      }),
    ];
  });
  const results = await db.batch<{ id: number }>(statements);
  let at = 0;
  return units.map(({ bundles, keys }) => {
    const ids = results.slice(at, at + bundles.length).flatMap(({ results }) => results.map(({ id }) => id));
    at += bundles.length + keys.length;
    return ids.length === bundles.length ? ids : undefined;
  });
}

/** Where a token's event is: the first of the bundle, or the one at the token's place. */
export type KnownToken = Readonly<{ id: number; place: number; token: string }>;

/** What is known of the tokens and the keys of a commit that has changed nothing, or whose answer got lost. */
export async function findCommitted(
  db: D1Database,
  floor: number,
  tokens: readonly string[],
  keys: readonly KeyName[],
): Promise<Readonly<{ tokens: readonly KnownToken[]; keys: readonly StoredKey[] }>> {
  const stored = db.prepare(STORED_KEYS).bind(namesOf(keys));
  const known = db.prepare(KNOWN).bind(floor, JSON.stringify(tokens));
  // Without a token to look for, every bundle above the floor would be read for nothing.
  const results = await db.batch<Record<string, unknown>>(tokens.length > 0 ? [stored, known] : [stored]);
  return {
    tokens: (results[1]?.results ?? []) as KnownToken[],
    keys: (results[0]?.results ?? []).map(storedKeyOf),
  };
}

/** Read from the newest one back, so that only what was accepted since is read. */
const HIGHEST_BEFORE = "SELECT id FROM bundles WHERE accepted_at < ?1 ORDER BY id DESC LIMIT 1";

/** The highest bundle that was accepted before the time, epoch ms; 0 when there is none. */
export async function highestBefore(db: D1Database, time: number): Promise<number> {
  return (await db.prepare(HIGHEST_BEFORE).bind(time).first<number>("id")) ?? 0;
}

const PLANS = `
  SELECT id, plan, deliver_at AS deliverAt FROM bundles WHERE id IN (SELECT value FROM json_each(?1))`;

/** Who gets what of the bundles, and when; those that are there no more are left out. */
export async function findPlans(
  db: D1Database,
  ids: readonly number[],
): Promise<Readonly<{ id: number; plan: Plan; deliverAt?: number }>[]> {
  if (ids.length === 0) return [];
  type Row = { id: number; plan: string; deliverAt: number | null };
  const { results } = await db.prepare(PLANS).bind(JSON.stringify(ids)).all<Row>();
  return results.map(({ id, plan, deliverAt }) => ({
    id,
    plan: JSON.parse(plan),
    ...(deliverAt !== null && { deliverAt }),
  }));
}

function namesOf(keys: readonly KeyName[]): string {
  return JSON.stringify(keys.map(({ tenant, key }) => [tenant, key]));
}

function storedKeyOf({ tenant, key, fingerprint, bundles, places }: Record<string, unknown>): StoredKey {
  return {
    tenant: String(tenant),
    key: String(key),
    fingerprint: String(fingerprint),
    bundles: JSON.parse(String(bundles)),
    places: JSON.parse(String(places)),
  };
}

// §§ The bodies of a bundle as they are stored: the exact bytes that attempts send, one after the other, compressed
// where that saves. Hexadecimal on the wire, because D1's is JSON, where a blob would travel as a list of numbers.

export type StoredBodies = Readonly<{ hex: string }> & Pick<StoredHeader, "encoding" | "checksum">;

/** Below this nothing can be saved: gzip adds 18 bytes of its own. */
const WORTH_COMPRESSING = 128;

export async function storeBodies(bodies: readonly Uint8Array[]): Promise<StoredBodies> {
  const plain = joined(bodies);
  const zipped =
    plain.byteLength < WORTH_COMPRESSING ? plain : await through(plain, new CompressionStream("gzip"));
  return zipped.byteLength < plain.byteLength
    ? { encoding: "gzip", hex: zipped.toHex() }
    : { encoding: "plain", checksum: checksumOf(plain), hex: plain.toHex() };
}

/** The body of each event in order; undefined when what is stored is not what was stored. */
export async function readBodies(hex: string, header: StoredHeader): Promise<Uint8Array[] | undefined> {
  const plain = await plainOf(hex, header);
  const sizes = headersOf(header).map(({ bytes }) => bytes);
  if (!plain || plain.byteLength !== sizes.reduce((sum, size) => sum + size, 0)) return undefined;
  let at = 0;
  return sizes.map((size) => {
    at += size;
    return plain.subarray(at - size, at);
  });
}

async function plainOf(hex: string, { encoding, checksum }: StoredHeader): Promise<Uint8Array | undefined> {
  try {
    const stored = Uint8Array.fromHex(hex);
    if (encoding === "gzip") return await through(stored, new DecompressionStream("gzip"));
    return checksumOf(stored) === checksum ? stored : undefined;
  } catch {
    return undefined;
  }
}

async function through(bytes: Uint8Array, stream: ReadableWritablePair): Promise<Uint8Array> {
  return new Response(new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(stream)).bytes();
}

// §§ What a bundle says of its events, in SQL: for what looks at many deliveries at once. See core/bundle.ts.

/** SQL of the number of the bundle that an event is in, from SQL of its number. */
export function bundleIdOf(event: string): string {
  return `(${event} / 128)`;
}

/** SQL of an event's index in its bundle, from SQL of its number. */
export function indexColumnOf(event: string): string {
  return `(${event} % 128)`;
}

/** SQL of the event's tenant. @param header SQL of its bundle's header */
export function tenantOf(header: string, event: string): string {
  return nameOf("tenants", header, `(${indexColumnOf(event)} * 3)`);
}

/** SQL of the event's type. */
export function typeOf(header: string, event: string): string {
  return nameOf("types", header, `(${indexColumnOf(event)} * 3 + 1)`);
}

function nameOf(list: string, header: string, place: string): string {
  return `(${header} ->> ('$.${list}[' || (${header} ->> ('$.events[' || ${place} || ']')) || ']'))`;
}

/** SQL of how many events runs stand for. */
export function countOf(runs: string): string {
  return `(SELECT coalesce(sum(iif(r.key % 2, r.value + 1, -r.value)), 0) FROM json_each(${runs}) r)`;
}

/** SQL of the condition that a delivery's event is in a bundle. */
export function isInBundle(event: string, bundle: string): string {
  return `${event} >= ${bundle} * 128 AND ${event} < ${bundle} * 128 + 128`;
}

// §§ What events are called, for a list of deliveries: without their bodies, which a list does not show.

export type EventName = Readonly<{ tenant: string; type: string; acceptedAt: number }>;

const HEADERS = `
  SELECT id, header, accepted_at AS acceptedAt FROM bundles WHERE id IN (SELECT value FROM json_each(?1))`;

/** By the events' numbers; those that somebody has removed are left out. */
export async function eventNames(
  databases: Databases,
  events: readonly number[],
): Promise<ReadonlyMap<number, EventName>> {
  const shares = sharesOf(databases, events, (event) => event);
  const found = await Promise.all(
    [...shares].map(async ([db, share]) => {
      type Row = { id: number; header: string; acceptedAt: number };
      const ids = JSON.stringify([...new Set(share.map(bundleOf))]);
      const { results } = await db.prepare(HEADERS).bind(ids).all<Row>();
      const bundles = new Map(results.map((row) => [row.id, row]));
      return share.flatMap((event): [number, EventName][] => {
        const bundle = bundles.get(bundleOf(event));
        const header = bundle && headerAt(JSON.parse(bundle.header) as StoredHeader, indexOf(event));
        return header
          ? [[event, { tenant: header.tenant, type: header.type, acceptedAt: bundle.acceptedAt }]]
          : [];
      });
    }),
  );
  return new Map(found.flat());
}

// §§ Times as numbers of events. Bundles are numbered in the order in which they were accepted, so a range of time is
// a range of keys: found by halving, in as many rows read as the number of bundles has bits, without an index that
// every bundle would have to pay for.

/**
 * Workers' clocks differ a little, and so may the order of times from that of numbers: ranges are this much
 * wider than asked for, and whoever uses them compares the times of what they hold.
 */
const SKEW_MS = 60_000;

/**
 * Keeps `lo` below and `hi` at the first bundle that was not accepted before `?1`. It begins below the first
 * number of this database, which its newest bundle tells.
 */
const FIRST = `
  WITH RECURSIVE halving (lo, hi) AS (
    SELECT newest.id >> ${BUNDLE_BITS} << ${BUNDLE_BITS}, newest.id + 1
    FROM (SELECT coalesce((SELECT max(id) FROM bundles), 0) AS id) newest
    UNION ALL
    SELECT iif(b.accepted_at < ?1, b.id, lo), iif(b.accepted_at < ?1, hi, (lo + hi) / 2)
    FROM halving JOIN bundles b ON b.id = (SELECT min(id) FROM bundles WHERE id >= (lo + hi) / 2)
    WHERE hi - lo > 1
  )
  SELECT min(hi) AS first FROM halving`;

export type TimeRange = Readonly<{
  /** Epoch ms, itself included. */
  since?: number | undefined;
  /** Epoch ms, itself excluded. */
  until?: number | undefined;
}>;

/** No event of the time range has a smaller number than `first`, or a larger one than `last`. */
export type IdRange = Readonly<{ first: number; last: number }>;

/** The numbers of events that a range of time lies in. */
export async function idRangeOf(db: D1Database, { since, until }: TimeRange): Promise<IdRange> {
  const [first, after] = await Promise.all([
    since === undefined ? 1 : firstAt(db, since - SKEW_MS),
    until === undefined ? Number.POSITIVE_INFINITY : firstAt(db, until + SKEW_MS),
  ]);
  return { first, last: Math.min(after - 1, Number.MAX_SAFE_INTEGER) };
}

async function firstAt(db: D1Database, at: number): Promise<number> {
  return eventAt((await db.prepare(FIRST).bind(at).first<number>("first")) ?? 0, 0);
}
