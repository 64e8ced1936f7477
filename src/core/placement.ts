/**
 * Which database an event lives in: chosen once, told by its number for ever.
 *
 * The databases are numbered from 0. An event's number is its database's number times 2^40 and its row, so
 * whoever has the number knows where to look, and those of the first database are plain rows. Where a new
 * event goes is a rendezvous hash (Thaler and Ravishankar, 1998): with one database more, it takes its share
 * of the names from all the others, and no other name moves.
 */
/** For the rows of one database. At 10 GB it is full long before. */
export const ROW_BITS = 40;

const ROWS = 2 ** ROW_BITS;

/** For the bundles of one database: each has room for 128 events (core/bundle.ts). */
export const BUNDLE_BITS = ROW_BITS - 7;

const BUNDLES = 2 ** BUNDLE_BITS;

/** Databases that numbers below 2^53, which JavaScript counts exactly, have room for. */
export const MOST_DATABASES = 2 ** 53 / ROWS;

/** A tenant's events stay together for so long: most of a consumer's batch comes from one database. */
const TOGETHER_MS = 60_000;

/** The number of the database that the event lives in. */
export function databaseNumberOf(event: number): number {
  return Math.floor(event / ROWS);
}

/** The number of the database that the bundle lives in. */
export function databaseNumberOfBundle(bundle: number): number {
  return Math.floor(bundle / BUNDLES);
}

/** The number before that of a database's first bundle. */
export function beforeFirstBundleOf(database: number): number {
  return database * BUNDLES;
}

/** The number before that of a database's first event. */
export function beforeFirstOf(database: number): number {
  return database * ROWS;
}

/** Whether an event could have this number. */
export function isEventNumber(number: number): boolean {
  return Number.isSafeInteger(number) && number > 0 && number % ROWS >= 128;
}

/** Where a tenant's new events go at `now` (epoch ms), of `count` databases. */
export function placeByTime(tenant: string, count: number, now: number): number {
  return placeOf(`${tenant} ${Math.floor(now / TOGETHER_MS)}`, count);
}

/** Where what a tenant posts under a key goes, whenever it is posted: two at once meet in one database. */
export function placeByKey(tenant: string, key: string, count: number): number {
  return placeOf(`${tenant} key ${key}`, count);
}

/** The database whose hash with the name is the highest. */
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

/** 32 bits: FNV-1a, and the last steps of MurmurHash3, without which short names would hardly differ. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
