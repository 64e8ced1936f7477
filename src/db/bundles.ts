/**
 * Bundles in D1: committed as a whole or not at all, and safe to commit again; their bodies; and ids as times.
 *
 * A commit has its guards in each of its statements, because a statement that changes nothing rolls nothing back.
 * What a request posts has a random token, which its bundle keeps: a repeat finds the token and changes nothing, whatever
 * object it goes through and however late it comes. Results are read from RETURNING and tokens, never from
 * `last_insert_rowid()` or `meta.changes`, which triggers and other statements of the batch change.
 *
 * The commit is raw SQL because the guards, the next id and the insert have to be one statement: no round trip between
 * them, and no row read for a bundle that needs no guard.
 */
import {
  bundleOf,
  channelsAt,
  checksumOf,
  deliveriesOf,
  eventAt,
  headerAt,
  headersOf,
  indexOf,
  joined,
  type Plan,
  type RequestHeaders,
  type StoredHeader,
  tagsAt,
} from "../core/bundle.ts";
import { isErased } from "../core/erase.ts";
import { BUNDLE_BITS, beforeFirstBundleOf } from "../core/placement.ts";
import { type Databases, sharesOf } from "./shards.ts";

export type NewBundle = Readonly<{
  /** One token for each event in order, or a single one where one request made the whole bundle. */
  tokens: readonly string[];
  /** Epoch ms, not delivered before; absent: delivered at once. */
  deliverAt?: number | undefined;
  count: number;
  plan: Plan;
  header: StoredHeader;
  /** The bodies as hexadecimal. */
  hex: string;
}>;

/** Which of a key's bundles an event is in, and its index there. */
export type EventPlace = readonly [bundle: number, index: number];

/** An idempotency key, and where the events of its request are. */
export type NewKey = Readonly<{
  tenant: string;
  key: string;
  /** Digest of the content, which tells a repeat from another request under the same key. */
  fingerprint: string;
  /** The first token of each of the bundles that its events are in, in the order of the commit. */
  tokens: readonly string[];
  /** The place of each event, in the order posted. */
  places: readonly EventPlace[];
}>;

type KeyName = Pick<NewKey, "tenant" | "key">;

export type StoredKey = Omit<NewKey, "tokens"> & Readonly<{ bundles: readonly number[] }>;

/** Bundles that are committed all or none: those of one request, or one that single events share. */
export type Unit = Readonly<{
  bundles: readonly NewBundle[];
  /** The revision of each tenant that the events were routed by; empty in databases that do not store tenants. */
  revisions: Readonly<Record<string, number>>;
  keys: readonly NewKey[];
}>;

type Commit = Readonly<{
  units: readonly Unit[];
  /** Epoch ms. */
  acceptedAt: number;
  /** The highest bundle id known before the first try: tokens are looked for in the bundles after it only. */
  floor: number;
}>;

/** Which of the tokens `?2` bundles after `?1` have, and where. */
const KNOWN = `
  SELECT b.id, t.key AS place, t.value AS token FROM bundles b JOIN json_each(b.tokens) t
  WHERE b.id > ?1 AND t.value IN (SELECT value FROM json_each(?2))`;

/**
 * No token is known, no tenant's destinations have changed, no key is taken. The tenant without a name stands for the
 * validated event types; where none has ever been validated it has no row, and costs none to be read.
 */
const GUARDS = `
  NOT EXISTS (${KNOWN})
  AND NOT EXISTS (
    SELECT 1 FROM json_each(?3) r LEFT JOIN tenants t ON t.id = r.key WHERE coalesce(t.revision, 0) <> r.value)
  AND coalesce((SELECT revision FROM tenants WHERE id = ''), 0) = coalesce(?3 ->> '$.""', 0)
  AND NOT EXISTS (SELECT 1 FROM ${storedKeys("?4")})`;

/**
 * The id is the next one of this database. The newest row is never removed, so no id recurs; and it is above the floor
 * even in a database that has been restored to an earlier time since the floor was read. `?2` are the tokens of this
 * bundle alone: the other bundles of the commit are already stored.
 */
const INSERT = `
  INSERT INTO bundles (id, tokens, accepted_at, deliver_at, count, planned, plan, header, body)
  SELECT max(coalesce((SELECT max(id) FROM bundles), ?5), ?1) + 1, ?2, ?6, ?7, ?8, ?9, ?10, ?11, unhex(?12)
  WHERE ${GUARDS} RETURNING id`;

/** Only if its bundles were inserted, and only once. */
const INSERT_KEY = `
  INSERT INTO idempotency_keys (tenant, key, fingerprint, bundles, places, created_at)
  SELECT ?3, ?4, ?5, json_group_array(id), ?6, ?7
  FROM (SELECT DISTINCT id FROM (${KNOWN}) ORDER BY id) HAVING count(*) > 0
  ON CONFLICT DO NOTHING`;

const STORED_KEYS = `
  SELECT s.tenant, s.key, s.fingerprint, s.bundles, s.places FROM ${storedKeys("?1")}`;

/** The stored keys `s` among a JSON list of `[tenant, key]`. */
function storedKeys(names: string): string {
  return `json_each(${names}) k JOIN idempotency_keys s ON s.tenant = k.value ->> 0 AND s.key = k.value ->> 1`;
}

/**
 * Commits the units to the database of that number, in one transaction. Safe to repeat with the same tokens and floor.
 * Returns for each unit the ids of its bundles, or undefined where nothing was inserted: a token is known, a tenant's
 * destinations have changed, or a key is taken.
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

/** A stored token, its bundle, and its place among the bundle's tokens, which is the index of its event. */
export type KnownToken = Readonly<{ id: number; place: number; token: string }>;

/** Looks up the tokens and keys of a commit that inserted nothing, or whose result was lost. */
export async function findCommitted(
  db: D1Database,
  floor: number,
  tokens: readonly string[],
  keys: readonly KeyName[],
): Promise<Readonly<{ tokens: readonly KnownToken[]; keys: readonly StoredKey[] }>> {
  const stored = db.prepare(STORED_KEYS).bind(namesOf(keys));
  const known = db.prepare(KNOWN).bind(floor, JSON.stringify(tokens));
  // Without a token to look for, every bundle above the floor would be read in vain.
  const results = await db.batch<Record<string, unknown>>(tokens.length > 0 ? [stored, known] : [stored]);
  return {
    tokens: (results[1]?.results ?? []) as KnownToken[],
    keys: (results[0]?.results ?? []).map(storedKeyOf),
  };
}

/** Walks back from the newest bundle, so that only those accepted since are read. */
const HIGHEST_BEFORE = "SELECT id FROM bundles WHERE accepted_at < ?1 ORDER BY id DESC LIMIT 1";

/** The highest id of a bundle that was accepted before the time, epoch ms; 0 when there is none. */
export async function highestBefore(db: D1Database, time: number): Promise<number> {
  return (await db.prepare(HIGHEST_BEFORE).bind(time).first<number>("id")) ?? 0;
}

/** The bundles of a JSON list of ids in `?1`, to be put behind FROM. */
export const LISTED_BUNDLES = "bundles WHERE id IN (SELECT value FROM json_each(?1))";

const PLANS = `SELECT id, plan, deliver_at AS deliverAt FROM ${LISTED_BUNDLES}`;

/** The plans of the bundles, and when scheduled ones are due; bundles that are no longer stored are left out. */
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

/** Bodies as they are stored: hexadecimal, because D1's wire is JSON, where a blob is a list of numbers. */
type StoredBodies = Readonly<{ hex: string }> & Pick<StoredHeader, "encoding" | "checksum">;

/** Bytes. Below this nothing can be saved: gzip adds 18 bytes of its own. */
const WORTH_COMPRESSING = 128;

/** The exact bytes that attempts will send, one body after the other, compressed where that saves. */
export async function storeBodies(bodies: readonly Uint8Array[]): Promise<StoredBodies> {
  const plain = joined(bodies);
  const zipped =
    plain.byteLength < WORTH_COMPRESSING ? plain : await through(plain, new CompressionStream("gzip"));
  return zipped.byteLength < plain.byteLength
    ? { encoding: "gzip", hex: zipped.toHex() }
    : { encoding: "plain", checksum: checksumOf(plain), hex: plain.toHex() };
}

/** What is stored of an event's content: its body, and the request headers that it was posted with. */
export type StoredContent = Readonly<{
  body: Uint8Array<ArrayBuffer>;
  headers?: RequestHeaders | undefined;
}>;

/** The content of each event in order; undefined when the stored bytes are damaged. */
export async function readContents(
  hex: string,
  header: StoredHeader,
): Promise<readonly StoredContent[] | undefined> {
  const plain = await plainOf(hex, header);
  const sizes = headersOf(header).map(({ bytes }) => bytes);
  const { headerBytes = 0 } = header;
  if (!plain || plain.byteLength !== sizes.reduce((sum, size) => sum + size, headerBytes)) return undefined;
  const own = ownHeaders(plain.subarray(plain.byteLength - headerBytes));
  let at = 0;
  return sizes.map((size, index) => {
    at += size;
    return { body: plain.subarray(at - size, at), headers: own[index] };
  });
}

function ownHeaders(bytes: Uint8Array): Readonly<Record<number, RequestHeaders>> {
  return bytes.byteLength === 0 ? {} : JSON.parse(new TextDecoder().decode(bytes));
}

async function plainOf(
  hex: string,
  { encoding, checksum }: StoredHeader,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  try {
    const stored = Uint8Array.fromHex(hex);
    if (encoding === "gzip") return await through(stored, new DecompressionStream("gzip"));
    return checksumOf(stored) === checksum ? stored : undefined;
  } catch {
    return undefined;
  }
}

async function through(bytes: Uint8Array, stream: ReadableWritablePair): Promise<Uint8Array<ArrayBuffer>> {
  const whole = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(stream);
  return (await new Response(whole).bytes()) as Uint8Array<ArrayBuffer>;
}

/** What a list shows of an event: all of it is in the header, so bodies are not read. */
export type EventName = Readonly<{
  tenant: string;
  type: string;
  acceptedAt: number;
  tags: readonly string[];
  channels: readonly string[];
  /** Whether its content has been erased: it cannot be sent again. */
  isErased: boolean;
}>;

const HEADERS = `SELECT id, header, accepted_at AS acceptedAt FROM ${LISTED_BUNDLES}`;

/** What a header says of an event; undefined for one that an operator removed. */
export function eventNameIn(header: StoredHeader, acceptedAt: number, event: number): EventName | undefined {
  const index = indexOf(event);
  const about = headerAt(header, index);
  if (about === undefined) return undefined;
  const { tenant, type } = about;
  const labels = { tags: tagsAt(header, index), channels: channelsAt(header, index) };
  return { tenant, type, acceptedAt, ...labels, isErased: isErased(header, index) };
}

/** By event id; events that an operator removed are left out. */
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
        if (bundle === undefined) return [];
        const name = eventNameIn(JSON.parse(bundle.header) as StoredHeader, bundle.acceptedAt, event);
        return name ? [[event, name]] : [];
      });
    }),
  );
  return new Map(found.flat());
}

/**
 * Workers' clocks differ a little, so the order of times may differ from that of ids: ranges are this much wider than
 * asked for, and callers compare the times of what they find.
 */
const SKEW_MS = 60_000;

/**
 * The first bundle that was not accepted before `?1`, by binary search: `lo` stays below it, `hi` at or above it. Bundles
 * are numbered in the order of acceptance, so this takes as many rows as ids have bits, and saves an index on
 * `accepted_at`, which every insert would have to write. It begins below the first id of this database, which is derived
 * from its newest. It takes 34 rows at most; LIMIT bounds it whatever is stored.
 */
const FIRST = `
  WITH RECURSIVE halving (lo, hi) AS (
    SELECT newest.id >> ${BUNDLE_BITS} << ${BUNDLE_BITS}, newest.id + 1
    FROM (SELECT coalesce((SELECT max(id) FROM bundles), 0) AS id) newest
    UNION ALL
    SELECT iif(b.accepted_at < ?1, b.id, lo), iif(b.accepted_at < ?1, hi, (lo + hi) / 2)
    FROM halving JOIN bundles b ON b.id = (SELECT min(id) FROM bundles WHERE id >= (lo + hi) / 2)
    WHERE hi - lo > 1 LIMIT 40
  )
  SELECT min(hi) AS first FROM halving`;

export type TimeRange = Readonly<{
  /** Epoch ms, itself included. */
  since?: number | undefined;
  /** Epoch ms, itself excluded. */
  until?: number | undefined;
}>;

/** No event of the time range has a smaller id than `first`, or a larger one than `last`. */
export type IdRange = Readonly<{ first: number; last: number }>;

/** The ids that the events of a time range have. */
export async function idRangeOf(db: D1Database, { since, until }: TimeRange): Promise<IdRange> {
  const [first, after] = await Promise.all([
    since === undefined ? 1 : firstAt(db, since - SKEW_MS),
    until === undefined ? Number.POSITIVE_INFINITY : firstAt(db, until + SKEW_MS),
  ]);
  return { first, last: Math.min(after - 1, Number.MAX_SAFE_INTEGER) };
}

/** The first event of the first bundle that was accepted at that time or later. */
async function firstAt(db: D1Database, at: number): Promise<number> {
  return eventAt((await db.prepare(FIRST).bind(at).first<number>("first")) ?? 0, 0);
}
