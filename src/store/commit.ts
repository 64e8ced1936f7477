/**
 * Commits of bundles: each is stored as a whole or not at all, and is safe to repeat.
 *
 * A commit has its guards in its statements, because a statement that changes nothing rolls nothing back: those of a unit
 * in its first one, and each further one inserts only right behind the one before.
 * A posted request has a random token, which its bundle keeps: a repeat finds the token and changes nothing, whatever
 * object it goes through and however late it comes. Tokens have no index, which every insert would have to write: they are
 * looked for above a floor, in a bounded number of bundles. Results are read from RETURNING and tokens, never from
 * `last_insert_rowid()` or `meta.changes`, which triggers and other statements of the batch change.
 *
 * The commit is raw SQL because the guards, the next id and the insert have to be one statement: no round trip between
 * them, and no row read for a bundle that needs no guard.
 */
import { deliveriesOf, joined, type Plan, type StoredHeader } from "../core/bundle.ts";
import { checksumOf } from "../core/crc32.ts";
import { parsedJson } from "../core/json-value.ts";
import type { Mask } from "../core/pack.ts";
import { beforeFirstBundleOf } from "../core/placement.ts";
import { isNumbers, planIn } from "../core/stored-bundle.ts";
import { LISTED_BUNDLES, through } from "./bundles.ts";
import { parsedOr } from "./columns.ts";
import { repeatable, select } from "./databases.ts";
import { jsonOrEmpty } from "./sql.ts";
import { firstSince, SKEW_MS } from "./time-ranges.ts";

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
  /** Deliveries to polled destinations: they end with the commit, in packs. */
  placed?: readonly PlacedPack[];
}>;

/** A bundle's deliveries to a polled destination, as its pack has them (packs.ts). */
export type PlacedPack = Readonly<{ destination: string; mask: Mask; ends: string }>;

export type EventPlace = readonly [bundle: number, index: number];

export type NewIdempotencyKey = Readonly<{
  tenant: string;
  key: string;
  /** Digest of the content, which distinguishes a repeat from another request under the same key. */
  fingerprint: string;
  /** The first token of each of the bundles that its events are in, in the order of the commit. */
  tokens: readonly string[];
  /** The place of each event, in the order posted. */
  places: readonly EventPlace[];
}>;

type KeyName = Pick<NewIdempotencyKey, "tenant" | "key">;

export type StoredIdempotencyKey = Omit<NewIdempotencyKey, "tokens"> &
  Readonly<{ bundles: readonly number[] }>;

/** Bundles that are committed all or none: those of one request, or one that single events share. */
export type Unit = Readonly<{
  bundles: readonly NewBundle[];
  /** The revision of each tenant that the events were routed by; 0 in a further database, which has only those that are pinned. */
  revisions: Readonly<Record<string, number>>;
  keys: readonly NewIdempotencyKey[];
}>;

type Commit = Readonly<{
  units: readonly Unit[];
  /** Epoch ms. */
  acceptedAt: number;
  /** The highest bundle id known before the first try: tokens are looked for in the bundles after it only. */
  floor: number;
  /** In how many bundles of others tokens are looked for. If there are more after the floor, nothing is inserted. */
  far: number;
  /** Returns a random text, different for each try. Only called if a unit has several bundles. */
  nonce: () => string;
}>;

/** The result of a commit. */
type Committed = Readonly<{
  /** The ids of each unit's bundles; undefined if nothing was inserted. */
  ids: readonly (readonly number[] | undefined)[];
  /** The highest bundle id before the commit; that before the database's first where it has none. */
  highest: number;
}>;

/** Which of the tokens `?2` bundles after `?1` have, and where. */
const KNOWN = `
  SELECT b.id, t.key AS place, t.value AS token FROM bundles b JOIN json_each(${jsonOrEmpty("b.tokens")}) t
  WHERE b.id > ?1 AND t.value IN (SELECT value FROM json_each(?2))`;

const HIGHEST = "SELECT coalesce((SELECT max(id) FROM bundles), ?1) AS id";

/**
 * No token is known, no tenant's destinations have changed, no key is taken. The tenant without a name represents the
 * validated event types; if none has ever been validated, it has no row, so none is read. By CASE the tokens are looked
 * for only where the floor is near.
 */
const GUARDS = `
  CASE WHEN coalesce(newest.id, 0) - ?1 <= ?13 THEN NOT EXISTS (${KNOWN}) ELSE 0 END
  AND NOT EXISTS (
    SELECT 1 FROM json_each(?3) r LEFT JOIN tenants t ON t.id = r.key WHERE coalesce(t.revision, 0) <> r.value)
  AND coalesce((SELECT revision FROM tenants WHERE id = ''), 0) = coalesce(?3 ->> '$.""', 0)
  AND NOT EXISTS (SELECT 1 FROM ${storedKeys("?4")})`;

/**
 * The first bundle of a unit. The id is the next one of this database. The newest row is never removed, so no id
 * recurs; and the id is above the floor even if the database has been restored to an earlier time since the floor was
 * read. `?2` are the tokens of the whole unit.
 */
const INSERT = `
  INSERT INTO bundles (id, tokens, accepted_at, deliver_at, count, planned, plan, header, body)
  SELECT max(coalesce(newest.id, ?5), ?1) + 1, ?14, ?6, ?7, ?8, ?9, ?10, ?11, unhex(?12)
  FROM (SELECT (SELECT max(id) FROM bundles) AS id LIMIT 1) newest
  WHERE ${GUARDS} RETURNING id`;

/**
 * A further bundle of a unit: right behind the one before it, which has the mark `?1` as its last token if this very
 * commit has inserted it. So the guards are evaluated once for each unit.
 */
const INSERT_NEXT = `
  INSERT INTO bundles (id, tokens, accepted_at, deliver_at, count, planned, plan, header, body)
  SELECT b.id + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, unhex(?9) FROM bundles b
  WHERE b.id = (SELECT max(id) FROM bundles) AND ${jsonOrEmpty("b.tokens")} ->> '$[#-1]' = ?1 RETURNING id`;

/**
 * Inserts a key only if its bundles were inserted, and only once. They are then the newest of the database: its first
 * one is `?7` before the newest, and has the token of its request at the path `?8`. `?4` is how far behind that each of
 * them is.
 */
const INSERT_KEY = `
  INSERT INTO idempotency_keys (tenant, key, fingerprint, bundles, places, created_at)
  SELECT ?1, ?2, ?3, (SELECT json_group_array(b.id + o.value) FROM json_each(?4) o), ?5, ?6
  FROM bundles b WHERE b.id = (SELECT max(id) FROM bundles) - ?7 AND ${jsonOrEmpty("b.tokens")} ->> ?8 = ?9
  ON CONFLICT DO NOTHING`;

/**
 * Inserts a pack only with its bundle, which is then `?2` before the newest and has exactly the tokens `?3`, and only of a
 * destination in its plan: an earlier try may have stored some of these events by other routes. One row for each destination.
 */
const INSERT_PLACED = `
  INSERT INTO packs (destination_id, bundle_id, delivered0, delivered1, ended_at, ends)
  SELECT p.value ->> 0, b.id, p.value ->> 1, p.value ->> 2, ?4, p.value ->> 3
  FROM bundles b CROSS JOIN json_each(?1) p
  WHERE b.id = (SELECT max(id) FROM bundles) - ?2 AND b.tokens = ?3
    AND ${jsonOrEmpty("b.plan")} -> ('$.' || (p.value ->> 0)) IS NOT NULL
  ON CONFLICT DO NOTHING`;

const STORED_KEYS = `
  SELECT s.tenant, s.key, s.fingerprint, s.bundles, s.places FROM ${storedKeys("?1")}`;

/** The stored keys `s` among a JSON list of `[tenant, key]`. */
function storedKeys(names: string): string {
  return `json_each(${names}) k JOIN idempotency_keys s ON s.tenant = k.value ->> 0 AND s.key = k.value ->> 1`;
}

/**
 * Commits the units to the database of that number, in one transaction. Safe to repeat with the same tokens and floor.
 * A unit is not inserted where a token is known, a tenant's destinations have changed, or a key is taken; and none is
 * inserted if the floor is too far from the highest id.
 */
export async function commitUnits(db: D1Database, database: number, commit: Commit): Promise<Committed> {
  const { units, acceptedAt } = commit;
  const before = beforeFirstBundleOf(database);
  const first = db.prepare(INSERT);
  const next = db.prepare(INSERT_NEXT);
  const insertKey = db.prepare(INSERT_KEY);
  const insertPlaced = db.prepare(INSERT_PLACED);
  let ahead = 0;
  const statements = units.flatMap(({ bundles, revisions, keys }) => {
    const nonce = bundles.length > 1 ? commit.nonce() : "";
    const own = bundles.flatMap(({ tokens }) => tokens);
    const guards = [JSON.stringify(own), JSON.stringify(revisions), namesOf(keys), before, acceptedAt];
    // The units before it in this commit are above the floor too.
    const far = commit.far + ahead;
    ahead += bundles.length;
    const marked = bundles.map(({ tokens }, i) =>
      JSON.stringify(i === bundles.length - 1 ? tokens : [...tokens, markOf(nonce, i)]),
    );
    const inserts = bundles.map(({ deliverAt = null, count, plan, header, hex }, i) => {
      const texts = [JSON.stringify(plan), JSON.stringify(header), hex];
      const columns = [deliverAt, count, deliveriesOf(plan), ...texts];
      return i === 0
        ? first.bind(commit.floor, ...guards, ...columns, far, marked[i])
        : next.bind(markOf(nonce, i - 1), marked[i], acceptedAt, ...columns);
    });
    const places = placesOf(bundles);
    const placed = bundles.flatMap(({ placed = [] }, i) => {
      if (placed.length === 0) return [];
      const packs = placed.map(({ destination, mask, ends }) => [destination, ...mask, ends]);
      return [insertPlaced.bind(JSON.stringify(packs), bundles.length - 1 - i, marked[i], acceptedAt)];
    });
    return [
      ...inserts,
      ...placed,
      ...keys.map((key) => insertKey.bind(...keyValues(key, places, bundles.length, acceptedAt))),
    ];
  });
  const [highest, ...results] = await db.batch<{ id: number }>([
    db.prepare(HIGHEST).bind(before),
    ...statements,
  ]);
  let at = 0;
  const ids = units.map(({ bundles, keys }) => {
    const ids = results.slice(at, at + bundles.length).flatMap(({ results }) => results.map(({ id }) => id));
    at += bundles.length + keys.length + bundles.filter(({ placed = [] }) => placed.length > 0).length;
    return ids.length === bundles.length ? ids : undefined;
  });
  return { ids, highest: highest?.results[0]?.id ?? before };
}

/** The last token of a bundle that another of its unit follows. */
function markOf(nonce: string, bundle: number): string {
  return `${nonce} ${bundle}`;
}

/** Which of the bundles each token is in, and its index there. */
function placesOf(bundles: readonly NewBundle[]): ReadonlyMap<string, EventPlace> {
  return new Map(
    bundles.flatMap(({ tokens }, bundle) =>
      tokens.map((token, index): [string, EventPlace] => [token, [bundle, index]]),
    ),
  );
}

/** The values of `INSERT_KEY`. @param places of the tokens of the key's unit, with its number of bundles */
function keyValues(
  { tenant, key, fingerprint, tokens, places: events }: NewIdempotencyKey,
  places: ReadonlyMap<string, EventPlace>,
  bundles: number,
  acceptedAt: number,
): (string | number)[] {
  const [token = ""] = tokens;
  const [first, index] = places.get(token) ?? [0, 0];
  const offsets = tokens.map((one) => (places.get(one)?.[0] ?? 0) - first);
  const columns = [tenant, key, fingerprint, JSON.stringify(offsets), JSON.stringify(events), acceptedAt];
  return [...columns, bundles - 1 - first, `$[${index}]`, token];
}

/** A stored token, its bundle, and its place among the bundle's tokens, which is the index of its event. */
export type KnownToken = Readonly<{ id: number; place: number; token: string }>;

/** Tokens and keys that are looked up, and in a further database the tenants that are pinned to the first one. */
type Sought = Readonly<{
  tokens: readonly string[];
  keys: readonly KeyName[];
  tenants?: readonly string[];
  /** Tenants to be pinned from now on, epoch ms, as far as this database is concerned. */
  pin?: Readonly<{ tenants: readonly string[]; at: number }> | undefined;
  /** Where to search tokens: above a bundle, or in those accepted within the spans of time, epoch ms. */
  within: number | readonly NumberSpan[];
}>;

/** From and until, epoch ms, both included. */
export type NumberSpan = readonly [from: number, until: number];

type Stored = Readonly<{
  tokens: readonly KnownToken[];
  keys: readonly StoredIdempotencyKey[];
  /** The highest bundle id at that time: a token that was not found is in no bundle up to this one. */
  highest: number;
  /** Since when this database has refused each pinned tenant among the requested ones, epoch ms. */
  pinned: ReadonlyMap<string, number>;
}>;

/**
 * A tenant that is pinned to the first database has a row here, in a further one, as soon as one of its entries was
 * looked up here. The row stops every commit of a possible repeat, so an entry that was not found then is never stored
 * here.
 */
const PIN = repeatable(
  "INSERT INTO tenants (id, revision) SELECT value, ?2 FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING",
);

const PINNED = "SELECT t.id, t.revision AS since FROM json_each(?1) w JOIN tenants t ON t.id = w.value";

/**
 * Looks up tokens, keys and tenants in one transaction. Reads the bundles above the given one, or those of the spans and of a
 * minute before and after each, however long ago they were.
 */
export async function findCommitted(
  db: D1Database,
  database: number,
  { tokens, keys, within, tenants = [], pin }: Sought,
): Promise<Stored> {
  const highest = db.prepare(HIGHEST).bind(beforeFirstBundleOf(database));
  const stored = db.prepare(STORED_KEYS).bind(namesOf(keys));
  const known =
    typeof within === "number"
      ? db.prepare(KNOWN).bind(within, JSON.stringify(tokens))
      : db.prepare(KNOWN_WITHIN).bind(JSON.stringify(joinedSpans(within)), JSON.stringify(tokens));
  const results = await db.batch<Record<string, unknown>>([
    ...(pin ? [db.prepare(PIN).bind(JSON.stringify(pin.tenants), pin.at)] : []),
    stored,
    highest,
    // Without a token to search for, reading every bundle there would be useless.
    ...(tokens.length > 0 ? [known] : []),
    ...(database > 0 ? [db.prepare(PINNED).bind(JSON.stringify(tenants))] : []),
  ]);
  const [ofKeys, ofHighest, ...others] = (pin ? results.slice(1) : results).map((one) => one.results);
  const ofPinned = ((database > 0 ? others.at(-1) : undefined) ?? []) as { id: string; since: number }[];
  return {
    keys: (ofKeys ?? []).map(storedKeyOf),
    highest: Number(ofHighest?.[0]?.id ?? 0),
    tokens: ((tokens.length > 0 ? others[0] : undefined) ?? []) as KnownToken[],
    pinned: new Map(ofPinned.map(({ id, since }) => [id, since])),
  };
}

/** The spans without overlaps, in their order, so that no bundle is read twice. */
function joinedSpans(spans: readonly NumberSpan[]): NumberSpan[] {
  const joined: NumberSpan[] = [];
  for (const [from, until] of spans.toSorted(([a], [b]) => a - b)) {
    const last = joined.at(-1);
    if (last && from - last[1] <= 2 * SKEW_MS)
      joined[joined.length - 1] = [last[0], Math.max(last[1], until)];
    else joined.push([from, until]);
  }
  return joined;
}

/** The highest id of a database; that before its first where it has none. */
export async function highestId(db: D1Database, database: number): Promise<number> {
  const before = beforeFirstBundleOf(database);
  return (await db.prepare(HIGHEST).bind(before).first<number>("id")) ?? before;
}

/** Like `KNOWN`, in bundles accepted within spans of time. Only their tokens are read. */
const KNOWN_WITHIN = `
  SELECT b.id, t.key AS place, t.value AS token FROM json_each(?1) w
    CROSS JOIN bundles b ON b.id >= (${firstSince(`(w.value ->> 0) - ${SKEW_MS}`)})
      AND b.id < (${firstSince(`(w.value ->> 1) + ${SKEW_MS + 1}`)})
      AND b.accepted_at BETWEEN w.value ->> 0 AND w.value ->> 1
    CROSS JOIN json_each(${jsonOrEmpty("b.tokens")}) t
  WHERE t.value IN (SELECT value FROM json_each(?2))`;

const PLANS = `SELECT id, tokens, plan, accepted_at AS acceptedAt, deliver_at AS deliverAt FROM ${LISTED_BUNDLES}`;

/** The stored facts of a bundle as a whole. */
export type PlannedBundle = Readonly<{
  id: number;
  tokens: readonly string[];
  plan: Plan;
  /** Epoch ms. */
  acceptedAt: number;
  deliverAt?: number;
}>;

/**
 * The plans of the bundles, and when scheduled ones are due. Bundles that are no longer stored, or have no plan that can be
 * read, are left out.
 */
export async function findPlans(db: D1Database, ids: readonly number[]): Promise<PlannedBundle[]> {
  if (ids.length === 0) return [];
  type Row = { id: number; tokens: string; plan: string; acceptedAt: number; deliverAt: number | null };
  return (await select<Row>(db, PLANS, ids)).flatMap(
    ({ id, tokens, plan: stored, acceptedAt, deliverAt }) => {
      const plan = planIn(stored);
      if (plan === undefined) return [];
      return [
        {
          id,
          tokens: parsedOr<string[]>(tokens, []),
          plan,
          acceptedAt,
          ...(deliverAt !== null && { deliverAt }),
        },
      ];
    },
  );
}

function namesOf(keys: readonly KeyName[]): string {
  return JSON.stringify(keys.map(({ tenant, key }) => [tenant, key]));
}

/** A key whose events an edit by hand has made unreadable is in use, by a request unlike any other. */
function storedKeyOf(row: Record<string, unknown>): StoredIdempotencyKey {
  const { bundles: b, places: p, ...texts } = row as Record<keyof StoredIdempotencyKey, string>;
  const [bundles, places] = [parsedJson(b), parsedJson(p)];
  return isNumbers(bundles) && Array.isArray(places) && places.every(isNumbers)
    ? { ...texts, bundles, places: places as unknown as readonly EventPlace[] }
    : { ...texts, fingerprint: "unreadable", bundles: [], places: [] };
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
