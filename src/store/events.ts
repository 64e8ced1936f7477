/**
 * Finding events: their names by their numbers, one by its idempotency key, and all that have certain words.
 *
 * A search looks at the names in the headers of bundles, and then at the text of bodies, the newest first. A page looks at
 * as many bundles as a page of a list of events, and reads at most 8 MB of bodies: it may be empty, and still have a next
 * one.
 */
import { bundleOf, detailsAt, type EventDetails, eventAt, indexOf } from "../core/bundle.ts";
import { dataIn } from "../core/content.ts";
import { parsedJson } from "../core/json-value.ts";
import { excerptAt, findWords } from "../core/search-query.ts";
import { readHeader } from "../core/stored-bundle.ts";
import { bundlesOf, inShares, LISTED_BUNDLES } from "./bundles.ts";
import { type Databases, select, selectInAll } from "./databases.ts";
import {
  type EventListFilter,
  type EventPage,
  eachBody,
  endingAfter,
  type ListedEvent,
  listEvents,
  withinBytes,
} from "./event-list.ts";
import { listInHeaderSql } from "./sql.ts";

/** The part of an event that a list shows: all of it is in the header, so bodies are not read. */
export type EventName = EventDetails & Readonly<{ acceptedAt: number }>;

const HEADERS = `SELECT id, header, accepted_at AS acceptedAt FROM ${LISTED_BUNDLES}`;

/** By event id; events that an operator removed, and those of bundles that cannot be read, are left out. */
export async function eventNames(
  databases: Databases,
  events: readonly number[],
): Promise<ReadonlyMap<number, EventName>> {
  type Row = { id: number; header: string; acceptedAt: number };
  const found = await inShares(databases, events, async (db, share) => {
    const rows = await select<Row>(db, HEADERS, bundlesOf(share));
    const bundles = new Map(rows.map((row) => [row.id, row]));
    return share.flatMap((event): [number, EventName][] => {
      const { header, acceptedAt = 0 } = bundles.get(bundleOf(event)) ?? {};
      const read = header === undefined ? undefined : readHeader(header);
      const details = read?.kind === "read" ? detailsAt(read.header, indexOf(event)) : undefined;
      return details ? [[event, { ...details, acceptedAt }]] : [];
    });
  });
  return new Map(found);
}

/** The beginning of keys that messages of the Svix API have as their `eventId`. */
export const EVENT_ID = "svix-event-id:";

const BY_KEY = `
  SELECT bundles ->> ('$[' || (places ->> '$[0][0]') || ']') AS bundle, places ->> '$[0][1]' AS place
  FROM idempotency_keys WHERE tenant = ?1 AND key = ?2`;

/** The number of the event that was posted under the key; undefined when there is none. */
export async function eventOfKey(
  databases: Databases,
  tenant: string,
  key: string,
): Promise<number | undefined> {
  const [row] = await selectInAll<{ bundle: number; place: number }>(databases, BY_KEY, tenant, key);
  return row && eventAt(row.bundle, row.place);
}

/** The header of a bundle names the keys of its events: no index leads from an event to its key. */
const KEYS = `
  SELECT s.key, b.id AS bundle, s.places ->> '$[0][1]' AS place
  FROM json_each(?1) w CROSS JOIN bundles b ON b.id = w.value
    CROSS JOIN json_each(${listInHeaderSql("b.header", "keys")}) k
    CROSS JOIN idempotency_keys s ON s.tenant = k.value ->> 0 AND s.key = k.value ->> 1
  WHERE s.tenant = ?2 AND json_array_length(s.places) = 1`;

export async function keysOfEvents(
  databases: Databases,
  tenant: string,
  events: readonly number[],
): Promise<ReadonlyMap<number, string>> {
  type Row = { key: string; bundle: number; place: number };
  const found = await inShares(databases, events, (db, share) =>
    select<Row>(db, KEYS, bundlesOf(share), tenant),
  );
  return new Map(found.map(({ key, bundle, place }) => [eventAt(bundle, place), key]));
}

/** Events whose bodies one page reads at most. */
const MOST_READ = 1_000;

export type FoundEvent = Readonly<{
  event: ListedEvent;
  /** The text around the word that only the body has. */
  excerpt?: string;
}>;

/**
 * The events that have every word in their type, their tags, their channels, their tenant or their content.
 * @returns at most `limit` events, and the page of all events that were looked at
 */
export async function searchEvents(
  databases: Databases,
  filter: EventListFilter,
  words: readonly string[],
): Promise<Readonly<{ found: readonly FoundEvent[]; page: EventPage }>> {
  const namesOf = ({ type, tags, channels, tenant }: ListedEvent) => [type, ...tags, ...channels, tenant];
  const isNamed = (event: ListedEvent) => findWords(words, namesOf(event)) !== undefined;
  const isAsked = (event: ListedEvent) => !isNamed(event) && !event.isErased;
  const limit = words.length === 0 ? filter.limit : MOST_READ;
  const page = withinBytes(await listEvents(databases, { ...filter, limit }), isAsked);
  const hits = new Map<number, FoundEvent>();
  for (const event of page.found.filter(isNamed)) hits.set(event.id, { event });
  await eachBody(databases, page.found.filter(isAsked), (event, body) => {
    const text = body && contentOf(event, body);
    const hit = text === undefined ? undefined : findWords(words, namesOf(event), text);
    if (text !== undefined && hit) hits.set(event.id, { event, excerpt: excerptAt(text, hit.at ?? 0) });
  });
  const last = page.found.filter(({ id }) => hits.has(id))[filter.limit - 1];
  const ended = last ? endingAfter(page, page.found.indexOf(last) + 1) : page;
  return { found: ended.found.flatMap(({ id }) => hits.get(id) ?? []), page: ended };
}

/**
 * The posted content, as text. JSON may escape any character: text with escapes is written anew, with only the
 * necessary ones.
 */
function contentOf({ type, contentType }: ListedEvent, body: Uint8Array): string {
  const text = new TextDecoder().decode(contentType === undefined ? dataIn(body, type) : body);
  if (contentType !== undefined || !/\\[u/]/.test(text)) return text;
  const parsed = parsedJson(text);
  return parsed === undefined ? text : JSON.stringify(parsed);
}
