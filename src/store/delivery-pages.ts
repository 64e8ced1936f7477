/**
 * A page of deliveries from several databases. Each gives a page of its own, in its order; they are merged by
 * the times of the events, and every database is gone on with where its part of the page ended. With one
 * database its page is the page.
 */
import type { DeliveryPage, FoundDelivery } from "./deliveries-read.ts";
import type { DeliveryKey } from "./delivery-filter.ts";
import { eventNames } from "./event-names.ts";
import { withDestinations } from "./found-destinations.ts";
import { allOf, type Databases } from "./shards.ts";

/** Where the next page starts in each database, in their order. */
export type Positions = readonly DeliveryKey[];

export type MergedPage = Readonly<{ found: readonly FoundDelivery[]; next: Positions | undefined }>;

/** Before everything, and behind it, in lists that descend. */
export const START: DeliveryKey = { destinationId: "~", eventId: Number.MAX_SAFE_INTEGER };
export const END: DeliveryKey = { destinationId: "", eventId: 0 };

export const isEnd = ({ eventId }: DeliveryKey): boolean => eventId === END.eventId;

/** What a list is in descending order of; the first difference decides. */
export type Order = (delivery: FoundDelivery, acceptedAt: number) => readonly (string | number)[];

type Asked = Readonly<{
  before: Positions | undefined;
  limit: number;
  order: Order;
  pageOf: (db: D1Database, before: DeliveryKey | undefined) => Promise<DeliveryPage>;
}>;

export async function mergedPage(databases: Databases, asked: Asked): Promise<MergedPage> {
  const { before, pageOf } = asked;
  const pages = await Promise.all(
    allOf(databases).map((db, i): Promise<DeliveryPage> | DeliveryPage =>
      before?.[i] && isEnd(before[i]) ? nothing : pageOf(db, before?.[i]),
    ),
  );
  const [only, ...others] = pages;
  if (only && others.length === 0) return { found: only.found, next: only.next && [only.next] };
  const ids = pages.flatMap(({ found }) => found.map(({ eventId }) => eventId));
  const names = await eventNames(databases, ids);
  const { found, next } = merged(pages, asked, ({ eventId }) => names.get(eventId)?.acceptedAt ?? 0);
  return { found: await withDestinations(databases, found), next };
}

const nothing: DeliveryPage = { found: [], next: undefined };

/** It ends early where a database has more than it has shown: what comes next in order, nobody knows then. */
function merged(
  pages: readonly DeliveryPage[],
  { before, limit, order }: Asked,
  acceptedAt: (delivery: FoundDelivery) => number,
): MergedPage {
  const lists = pages.map(({ found, next }) => ({ rest: [...found], next }));
  const positions = pages.map((_, i) => before?.[i] ?? START);
  const found: FoundDelivery[] = [];
  const isUsedUp = () => lists.some(({ rest, next }) => rest.length === 0 && next !== undefined);
  while (found.length < limit && !isUsedUp()) {
    const heads = lists.flatMap(({ rest: [head] }, i) =>
      head ? [{ i, head, rank: order(head, acceptedAt(head)) }] : [],
    );
    const [first] = heads.toSorted((a, b) => descendingPositions(a.rank, b.rank));
    if (!first) break;
    found.push(first.head);
    positions[first.i] = first.head;
    lists[first.i]?.rest.shift();
  }
  const next = lists.map(({ rest, next }, i) => (rest.length > 0 ? positions[i] : next) ?? END);
  return { found, next: next.every(isEnd) ? undefined : next };
}

function descendingPositions(a: readonly (string | number)[], b: readonly (string | number)[]): number {
  const i = a.findIndex((value, i) => value !== b[i]);
  const [left = 0, right = 0] = [a[i], b[i]];
  return i < 0 ? 0 : left < right ? 1 : -1;
}
