/**
 * Lists of several databases merged into one, as pages or as a whole. For a page each database gives the beginning of its
 * own list; the next page continues in each where its part of this page ended.
 */

/** The beginning of one database's list. `next` is where it continues; undefined when it has no more. */
export type PartialList<T, P> = Readonly<{ found: readonly T[]; next: P | undefined }>;

type Merge<T, P> = Readonly<{
  /** Where this page begins in each database. */
  from: readonly P[];
  /** The position of a database that has no more. */
  end: P;
  limit: number;
  /** The values that the list descends by, the most significant first. */
  rankOf: (item: T) => Rank;
  /** Where the list of the item's database continues after it. */
  positionOf: (item: T) => P;
}>;

export type Rank = readonly (string | number)[];

/** `next` is where the next page begins in each database; undefined on the last page. */
type Merged<T, P> = Readonly<{ found: readonly T[]; next: readonly P[] | undefined }>;

/**
 * Ends when a part is used up of a database that has more: its next item might come before those of the others. So a page
 * may be empty, and still have a next one.
 */
export function mergedParts<T, P>(
  parts: readonly PartialList<T, P>[],
  { from, end, limit, rankOf, positionOf }: Merge<T, P>,
): Merged<T, P> {
  const lists = parts.map(({ found, next }) => ({ rest: [...found], next }));
  const positions = [...from];
  const found: T[] = [];
  const isUsedUp = () => lists.some(({ rest, next }) => rest.length === 0 && next !== undefined);
  while (found.length < limit && !isUsedUp()) {
    const heads = lists.flatMap(({ rest: [head] }, i) =>
      head === undefined ? [] : [{ i, head, rank: rankOf(head) }],
    );
    const [first] = heads.toSorted((a, b) => descending(a.rank, b.rank));
    if (!first) break;
    found.push(first.head);
    positions[first.i] = positionOf(first.head);
    lists[first.i]?.rest.shift();
  }
  const next = lists.map(({ rest, next }, i) => (rest.length > 0 ? positions[i] : next));
  return { found, next: next.every((one) => one === undefined) ? undefined : next.map((one) => one ?? end) };
}

function descending(a: Rank, b: Rank): number {
  const i = a.findIndex((value, i) => value !== b[i]);
  const [left = 0, right = 0] = [a[i], b[i]];
  return i < 0 ? 0 : left < right ? 1 : -1;
}

/**
 * Several lists as one, ascending by time. Each list keeps its own order, whatever clocks its times are from: so a position
 * in each of them skips nothing.
 */
export function mergedByTime<T>(lists: readonly (readonly T[])[], timeOf: (item: T) => number): T[] {
  const rest = lists.map((list) => ({ list, at: 0 }));
  const merged: T[] = [];
  for (;;) {
    let first: { list: readonly T[]; at: number } | undefined;
    for (const one of rest) {
      const item = one.list[one.at];
      const least = first?.list[first.at];
      if (item && (!least || timeOf(item) < timeOf(least))) first = one;
    }
    const item = first?.list[first.at];
    if (!first || !item) return merged;
    merged.push(item);
    first.at += 1;
  }
}
