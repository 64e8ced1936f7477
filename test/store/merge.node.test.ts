/** Pages of several databases in one list: nothing is shown twice, left out or out of order, however short their parts are. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { mergedParts, type PartialList, type Rank } from "../../src/store/merge.ts";

type Item = Readonly<{ rank: Rank; place: number; index: number }>;

/** Behind the last item of a database. */
const END = -1;

/** A database's list from a position on, of which it gives so many at once; without a limit all that it has. */
function partOf(list: readonly Item[], from: number, most: number): PartialList<Item, number> {
  if (from === END) return { found: [], next: undefined };
  const found = list.slice(from, from + most);
  return { found, next: from + most < list.length ? from + most : undefined };
}

/** One page of the merged list. @param given how many items each database gives at once */
function pageOf(
  lists: readonly (readonly Item[])[],
  from: readonly number[],
  limit: number,
  given: readonly number[],
) {
  const parts = lists.map((list, i) => partOf(list, from[i] ?? 0, given[i] ?? limit));
  const positionOf = ({ index }: Item) => index + 1;
  return mergedParts(parts, { from, end: END, limit, rankOf: ({ rank }) => rank, positionOf });
}

/** Databases with the items of these ranks, in the order of the list. */
const listsOf = (...ranks: Rank[][]): Item[][] =>
  ranks.map((list, place) => list.map((rank, index) => ({ rank, place, index })));

const ranksOf = (items: readonly Item[]) => items.map(({ rank }) => rank);

/** Negative where `a` comes before `b`: by the first value that differs, the greater one first. */
function order(a: Rank, b: Rank): number {
  for (const [i, left] of a.entries()) {
    const right = b[i] ?? left;
    if (left > right) return -1;
    if (left < right) return 1;
  }
  return 0;
}

describe("a list of several databases", () => {
  const rank = fc.tuple(
    fc.integer({ min: -3, max: 3 }),
    fc.integer({ min: 0, max: 9 }),
    fc.constantFrom("a", "b", "c"),
  );
  const items = fc.uniqueArray(fc.tuple(rank, fc.integer({ min: 0, max: 2 })), {
    selector: ([one]) => String(one),
    maxLength: 30,
  });
  const given = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 3, maxLength: 3 });

  test("shows each item once, in order, on pages no longer than requested", () => {
    fc.assert(
      fc.property(items, fc.integer({ min: 1, max: 7 }), given, (all, limit, most) => {
        const lists = listsOf(
          ...[0, 1, 2].map((place) =>
            all.flatMap(([one, where]) => (where === place ? [one] : [])).sort(order),
          ),
        );
        const shown: Rank[] = [];
        let from: readonly number[] | undefined = [0, 0, 0];
        for (let pages = 0; from && pages < 200; pages++) {
          const page = pageOf(lists, from, limit, most);
          expect(page.found.length).toBeLessThanOrEqual(limit);
          shown.push(...ranksOf(page.found));
          from = page.next;
        }
        expect(from).toBeUndefined();
        expect(shown).toEqual(all.map(([one]) => one).sort(order));
      }),
      { numRuns: 300 },
    );
  });

  test("fills a page unless a database with more items is used up", () => {
    const [first = [], second = []] = listsOf([[9], [7], [5]], [[8], [6]]);
    const page = pageOf([first, second], [0, 0], 4, [3, 3]);
    expect(ranksOf(page.found)).toEqual([[9], [8], [7], [6]]);
    expect(page.next).toEqual([2, END]);
  });

  test("ends a page, even an empty one, if a database may have the next item", () => {
    const [first = [], second = []] = listsOf([[9], [3]], [[8], [6]]);
    const short = pageOf([first, second], [0, 0], 4, [1, 2]);
    expect(ranksOf(short.found)).toEqual([[9]]);
    expect(short.next).toEqual([1, 0]);
    const empty = mergedParts([{ found: [], next: 5 }, partOf(second, 0, 2)], {
      ...{ from: [3, 0], end: END, limit: 4 },
      rankOf: ({ rank }: Item) => rank,
      positionOf: ({ index }: Item) => index + 1,
    });
    expect(empty).toEqual({ found: [], next: [5, 0] });
  });

  test("ends when the last page has exactly the limit", () => {
    const lists = listsOf([[9], [7]], [[8]]);
    expect(pageOf(lists, [0, 0], 3, [3, 3])).toMatchObject({ next: undefined });
  });

  test("shows equal items in the order of the databases", () => {
    const lists = listsOf([[1, "a"]], [[1, "a"]], [[1, "a"]]);
    const { found } = pageOf(lists, [0, 0, 0], 3, [1, 1, 1]);
    expect(found.map(({ place }) => place)).toEqual([0, 1, 2]);
  });
});
