/** Bundles that jobs could not read: reported once, tried again in turn, and forgotten when they can be read. */
import { beforeEach, expect, test } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import {
  COUNT_UNREADABLE,
  forgetUnreadable,
  markTried,
  recordedBefore,
  recordUnreadable,
  unreadableFaultsOf,
} from "../../src/store/unreadable.ts";
import { insertBundles } from "../support/bundle-rows.ts";

let db: D1Database;
let far: D1Database;
beforeEach(() => {
  [db, far] = [0, 1].map(() => memoryD1().bindingFor(async (_, work) => work())) as [D1Database, D1Database];
});

const faulty = (...bundles: number[]) => bundles.map((bundle) => ({ bundle, fault: "plan" as const }));
const recorded = async (triedBy = 9_999, limit = 100) =>
  (await recordedBefore(db, triedBy, limit)).map(({ bundle }) => bundle);

test("a bundle is recorded once, with its fault", async () => {
  expect(await recordUnreadable(db, faulty(1, 2), 5)).toEqual(faulty(1, 2));
  expect(await recordUnreadable(db, [{ bundle: 2, fault: "header" }, ...faulty(3)], 6)).toEqual(faulty(3));
  expect(await recordedBefore(db, 6, 100)).toEqual(faulty(1, 2, 3));
  expect(await db.prepare(`SELECT ${COUNT_UNREADABLE} AS n`).first("n")).toBe(3);
});

test("those that were tried longest ago come first, so many at most", async () => {
  await recordUnreadable(db, faulty(1, 2), 5);
  await recordUnreadable(db, faulty(3), 4);
  expect(await recorded(4)).toEqual([3]);
  expect(await recorded(3)).toEqual([]);
  expect(await recorded(5, 2)).toEqual([3, 1]);
  await markTried(db, [3, 1], 8);
  expect(await recorded(7)).toEqual([2]);
  expect((await recorded()).at(0)).toBe(2);
  await markTried(db, [], 9);
  expect(await recorded(8)).toHaveLength(3);
});

test("those that can be read again are forgotten, and no others", async () => {
  await recordUnreadable(db, faulty(1, 2, 3), 5);
  await forgetUnreadable(db, [1, 3]);
  await forgetUnreadable(db, []);
  expect(await recorded()).toEqual([2]);
});

test("the present fault of a bundle is that of its stored columns, in whichever database it is", async () => {
  const FAR = beforeFirstBundleOf(1) + 1;
  await insertBundles(
    db,
    [1, 2, 3].map((id) => ({ id, events: [{}] })),
  );
  await insertBundles(far, [{ id: FAR, events: [{}] }]);
  await db.prepare("UPDATE bundles SET plan = 'nonsense' WHERE id = 2").bind().run();
  await far.prepare("UPDATE bundles SET header = json_set(header, '$.version', 99)").bind().run();
  const asked = [1, 2, 9, FAR, beforeFirstBundleOf(2) + 1];
  const faults = await unreadableFaultsOf({ db, further: [far] }, asked);
  expect([...faults].map(([bundle, { fault }]) => [bundle, fault])).toEqual([
    [1, undefined],
    [2, "plan"],
    [9, undefined],
    [FAR, "version"],
  ]);
  expect([faults.get(1)?.db === db, faults.get(FAR)?.db === far]).toEqual([true, true]);
});
