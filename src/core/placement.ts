/**
 * Placement: which database stores an event. Chosen once; the event's number says it for ever.
 *
 * The databases are numbered from 0. An event's number is its database's number times 2^40 plus its row, so the number
 * ^ * alone names the database, and the numbers in the first database are plain rows. New events are placed by a
 * rendezvous hash (Thaler and Ravishankar, 1998): one more database takes its share of the names from all the others,
 * and no other name moves. The place of an earlier event of the same name follows from the history of the number of
 * databases.
 */

/** Bits for the rows of one database. At 10 GB it is full long before. */
const ROW_BITS = 40;

const ROWS = 2 ** ROW_BITS;

/** Bits for the bundles of one database: each has 128 event numbers (see bundle.ts). */
export const BUNDLE_BITS = ROW_BITS - 7;

const BUNDLES = 2 ** BUNDLE_BITS;

/** Databases at most: numbers below 2^53 are exact in JavaScript. */
export const MOST_DATABASES = 2 ** 53 / ROWS;

/** The names of the databases that are bound beyond the first, in the order of their numbers. */
export function furtherDatabaseNames(env: object): string[] {
  const numberOf = (name: string) => Number(/^DB_(\d+)$/.exec(name)?.[1] ?? Number.NaN);
  const named = Object.keys(env).filter((name) => !Number.isNaN(numberOf(name)));
  return named.toSorted((a, b) => numberOf(a) - numberOf(b));
}

/**
 * Faults in the names of the databases' bindings beyond the first, `DB`. Their numbers are part of event ids, so
 * there may be no gap in them.
 */
export function databaseNamesFault(names: readonly string[]): string | undefined {
  const numberOf = (name: string) => Number(name.slice("DB_".length));
  const sorted = names.toSorted((a, b) => numberOf(a) - numberOf(b));
  const misplaced = sorted.find((name, i) => name !== `DB_${i + 1}`);
  const expected = `expected DB, DB_1, DB_2 and so on, ${MOST_DATABASES} at most`;
  if (misplaced !== undefined) return `${misplaced} is bound out of order; ${expected}`;
  return names.length < MOST_DATABASES ? undefined : `${names.length + 1} databases are bound; ${expected}`;
}

/** How long a tenant's events go to one database, so that most of a consumer's batch comes from one. */
const TOGETHER_MS = 60_000;

export function databaseNumberOf(event: number): number {
  return Math.floor(event / ROWS);
}

export function databaseNumberOfBundle(bundle: number): number {
  return Math.floor(bundle / BUNDLES);
}

export function beforeFirstBundleOf(database: number): number {
  return database * BUNDLES;
}

export function beforeFirstOf(database: number): number {
  return database * ROWS;
}

export function isEventNumber(number: number): boolean {
  return Number.isSafeInteger(number) && number % ROWS >= 128;
}

/** Where a tenant's new events go at `now` (epoch ms), of `count` databases. */
export function placeByTime(tenant: string, count: number, now: number): number {
  return placeOf(`${tenant} ${Math.floor(now / TOGETHER_MS)}`, count);
}

/** Where a tenant's events with an idempotency key go, at any time: two at once meet in one database. */
export function placeByKey(tenant: string, key: string, count: number): number {
  return placeOf(`${tenant} key ${key}`, count);
}

/** The number of databases that take new events, since when; until the next entry. */
export type DatabaseCount = Readonly<{ count: number; since: number }>;

/** A change of the number of databases comes into effect this long after it was stored, ms, when every isolate knows it. */
export const CHANGE_MARGIN_MS = 15 * 60_000;

/** Clocks of isolates differ by less, ms. */
const CLOCK_SKEW_MS = 60_000;

/**
 * How many databases take new events at a time (epoch ms).
 * @param history in order of time
 * @param bound how many there are now
 * @param configured how many it shall be, which counts while nothing has been stored
 */
export function countAt(
  history: readonly DatabaseCount[],
  now: number,
  { bound, configured }: Readonly<{ bound: number; configured: number }>,
): number {
  return Math.min(history.findLast(({ since }) => since <= now)?.count ?? configured, bound);
}

/**
 * Each number of databases that took new events at some time between `from` and `now` (epoch ms), as far as isolates' clocks
 * may differ; every possible one where the history does not go back that far.
 */
export function countsBetween(
  history: readonly DatabaseCount[],
  from: number,
  now: number,
  bound: number,
): number[] {
  const [first] = history;
  if (first === undefined || first.since > from - CLOCK_SKEW_MS)
    return Array.from({ length: bound }, (_, i) => i + 1);
  const inForce = history.filter(({ since }, i) => {
    const until = history[i + 1]?.since ?? Number.POSITIVE_INFINITY;
    return since <= now + CLOCK_SKEW_MS && until > from - CLOCK_SKEW_MS;
  });
  return [...new Set(inForce.map(({ count }) => Math.min(count, bound)))];
}

/** Two of the shards, the same ones for a tenant each time; one where there is only one. */
export function shardsOf(tenant: string, shards: number): readonly number[] {
  if (shards < 2) return [0];
  const hash = hashOf(`shard ${tenant}`);
  const first = hash % shards;
  return [first, (first + 1 + (Math.floor(hash / shards) % (shards - 1))) % shards];
}

/** The database with the highest hash together with the name. */
function placeOf(name: string, count: number): number {
  let place = 0;
  for (let best = -1, database = 0; count > 1 && database < count; database++) {
    const weight = hashOf(`${database} ${name}`);
    if (weight <= best) continue;
    best = weight;
    place = database;
  }
  return place;
}

/** 32 bits: FNV-1a, with the finalizer of MurmurHash3, without which similar names get similar hashes. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
