/**
 * Search in events: by the names in the headers of bundles, and then in the text of bodies, the newest first.
 *
 * A page looks at as many bundles as a page of a list of events, and reads at most 8 MB of bodies: it may be empty, and
 * still have a next one.
 */
import { dataIn } from "../core/content.ts";
import { excerptAt, findWords } from "../core/search-query.ts";
import {
  type EventListFilter,
  type EventPage,
  eachBody,
  endingAfter,
  type ListedEvent,
  listEvents,
  withinBytes,
} from "./event-list.ts";
import type { Databases } from "./shards.ts";

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
 * What was posted, as text. JSON may have any character as an escape: what has escapes is written anew, so that it has
 * only those that it needs.
 */
function contentOf({ type, contentType }: ListedEvent, body: Uint8Array): string {
  const text = new TextDecoder().decode(contentType === undefined ? dataIn(body, type) : body);
  if (contentType !== undefined || !/\\[u/]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}
