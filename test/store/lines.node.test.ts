/** Lines of ordered deliveries: where each stands, who comes next, and what holds a line. */
import { beforeEach, describe, expect, test } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import { bundleOf, eventAt, indexOf } from "../../src/core/bundle.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import type { DeliveryRecord } from "../../src/store/delivery.ts";
import {
  aheadOf,
  behindIn,
  blockedLines,
  enteringLines,
  heldAmong,
  heldLines,
  linePlaces,
  nextInLines,
  parkedIn,
  placesFrom,
  skipHeld,
} from "../../src/store/lines.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import {
  insertDeliveries,
  insertDestinations,
  insertPacks,
  insertRows,
} from "../support/stored-deliveries.ts";

const A = "dst_00000000000000000000";
const B = "dst_00000000000000000001";

const all = [0, 1].map(() => memoryD1());
const [db, far] = all.map((one) => one.bindingFor(async (_, work) => work())) as [D1Database, D1Database];
const databases = { db, further: [far] };
const FAR = beforeFirstBundleOf(1) + 1;

beforeEach(async () => {
  for (const { direct } of all)
    for (const table of ["lines", "deliveries", "packs", "bundles", "destinations"])
      direct.exec(`DELETE FROM ${table}`);
  await insertDestinations(db, [{ id: A }, { id: B }]);
  const events = Array.from({ length: 5 }, () => ({ destinations: [A, B] }));
  await insertBundles(
    db,
    [1, 2, 3, 4, 5].map((id) => ({ id, events })),
  );
  await insertBundles(far, [{ id: FAR, events }]);
});

const homeOf = (event: number) => (bundleOf(event) < FAR ? db : far);

/** Has events of a destination stand in a line. */
async function stand(destination: string, line: string, events: readonly number[], holds = 0): Promise<void> {
  for (const [bundle, own] of Map.groupBy(events, bundleOf)) {
    const home = homeOf(eventAt(bundle, 0));
    const path = `$.lines.${destination}`;
    const entry = JSON.stringify([line, 0, holds, ...own.map(indexOf)]);
    await home
      .prepare(
        `UPDATE bundles SET header = json_insert(json_insert(json_insert(header, '$.lines', json('{}')), ?2, json('[]')),
           ?2 || '[#]', json(?3)) WHERE id = ?1`,
      )
      .bind(bundle, path, entry)
      .run();
    const rows = own.map((event) => ({
      destination_id: destination,
      line,
      event_id: event,
      give_up_at: 9,
      holds,
    }));
    await insertRows(home, "lines", rows);
  }
}

/** What ended as dead stays in its line where that is held. */
const dead = (destination: string, event: number) =>
  insertDeliveries(homeOf(event), [{ destination, event, state: "dead", endedAt: 1 }]);

const keyOf = (destinationId: string) => (eventId: number) => ({ eventId, destinationId });
const eventsOf = (keys: readonly { eventId: number }[] | undefined) => keys?.map(({ eventId }) => eventId);

/** Events of the bundles 1 to 3. */
const at = (bundle: number, index: number) => eventAt(bundle, index);

async function standing(): Promise<string[]> {
  const { results } = await db
    .prepare("SELECT destination_id AS id, line, event_id AS event FROM lines ORDER BY 1, 2, 3")
    .bind()
    .all<{ id: string; line: string; event: number }>();
  return results.map(({ id, line, event }) => `${id} ${line} ${event}`);
}

describe("the places of a bundle's deliveries", () => {
  const stored = async (destinations: readonly string[]) => {
    const sql = `SELECT ${linePlaces("b", "?1")} AS places FROM bundles b WHERE id <= 3 ORDER BY id`;
    const { results } = await db
      .prepare(sql)
      .bind(JSON.stringify(destinations))
      .all<{ places: string | null }>();
    return results.map(({ places }) => places);
  };
  const places = async (...destinations: string[]) =>
    (await stored(destinations)).map((one) =>
      one === null ? null : (JSON.parse(one) as unknown[]).toSorted(),
    );

  test("say the line, whoever is right before them there, and whether they hold it", async () => {
    await stand(A, "x", [at(1, 0), at(1, 2), at(2, 0)], 1);
    await stand(A, "y", [at(1, 1)]);
    await stand(B, "x", [at(1, 0), at(2, 3)]);
    expect(await places(A)).toEqual([
      [
        [A, at(1, 0), "x", null, 1],
        [A, at(1, 1), "y", null, 0],
        [A, at(1, 2), "x", at(1, 0), 1],
      ],
      [[A, at(2, 0), "x", at(1, 2), 1]],
      null,
    ]);
    expect(await places(A, B)).toMatchObject([
      [{}, {}, {}, [B, at(1, 0), "x", null, 0]],
      [{}, [B, at(2, 3), "x", at(1, 0), 0]],
      null,
    ]);
    expect(await places()).toEqual([[], [], null]);
  });

  test("are none where a header has none, or an edit by hand has left something else", async () => {
    await stand(A, "x", [at(1, 0), at(2, 0)]);
    await db.prepare("UPDATE bundles SET header = 'nonsense' WHERE id = 1").bind().run();
    await db
      .prepare("UPDATE bundles SET header = json_set(header, '$.lines', json('[[]]')) WHERE id = 2")
      .bind()
      .run();
    expect(await stored([A])).toEqual([null, null, null]);
  });

  const text = (...entries: [event: number, line: string, before: number | null, holds: number][]) =>
    JSON.stringify(entries.map(([event, ...place]) => [A, event, ...place]));

  test("are read by event and destination", () => {
    const other = JSON.stringify([[B, 1, "y", null, 1]]);
    expect([...placesFrom([text([1, "x", null, 0], [2, "x", 1, 0]), null, other])]).toEqual([
      [`1 ${A}`, { line: "x", before: null, holds: false }],
      [`2 ${A}`, { line: "x", before: 1, holds: false }],
      [`1 ${B}`, { line: "y", before: null, holds: true }],
    ]);
    expect(placesFrom([null]).size).toBe(0);
  });

  test.each([
    1, 0,
  ])("of a delivery that is sent again are those of its replay, and it holds what it held (%d)", (holds) => {
    const own = [3, "x", null, holds] as const;
    const again = [3, "x~", 2, 0] as const;
    const place = { line: "x~", before: 2, holds: holds === 1 };
    for (const entries of [
      [own, again],
      [again, own],
    ])
      expect([
        ...placesFrom([text(...entries.map((one) => [...one] as [number, string, number | null, number]))]),
      ]).toEqual([[`3 ${A}`, place]]);
  });
});

describe("what comes next in the lines of deliveries that end", () => {
  type Ending = Partial<Pick<DeliveryRecord, "state" | "endedAt" | "isFollowed" | "destinationId">> &
    Readonly<{ event?: number; line?: string; holds?: boolean; before?: number | null }>;

  const record = ({ event = 1, line, holds = false, before = null, ...row }: Ending) =>
    ({
      ...{ destinationId: A, eventId: event, state: "delivered", endedAt: 5, ...row },
      ...(line !== undefined && { place: { line, before, holds } }),
    }) as DeliveryRecord;

  const next = async (...endings: Ending[]) => {
    const [statement, ...others] = nextInLines(db, endings.map(record));
    expect(others).toEqual([]);
    const found = await statement?.all<{ destinationId: string; eventId: number }>();
    return (found?.results ?? [])
      .map(({ destinationId, eventId }) => `${destinationId === A ? "A" : "B"} ${eventId}`)
      .toSorted();
  };

  beforeEach(async () => {
    const rows = (destination_id: string, line: string, events: readonly number[]) =>
      events.map((event_id) => ({ destination_id, line, event_id, give_up_at: 9, holds: 0 }));
    await insertRows(db, "lines", [
      ...rows(A, "x", [13, 12]),
      ...rows(A, "x~", [14]),
      ...rows(A, "y", [11, 12]),
      ...rows(A, "yy", [15]),
      ...rows(A, "long", [16]),
      ...rows(A, "long~", [17]),
      ...rows(B, "x", [10]),
    ]);
  });

  test.each<[string, Ending[], string[]]>([
    ["is what their line has", [{ line: "x" }], ["A 12", "A 13"]],
    ["is that of each line", [{ line: "x" }, { line: "y" }], ["A 11", "A 12", "A 12", "A 13"]],
    ["is that of each destination", [{ line: "yy" }, { line: "x", destinationId: B }], ["A 15", "B 10"]],
    ["is nothing without a line", [{}], []],
    [
      "is nothing while one of the line is open",
      [{ line: "x" }, { line: "x", state: "retrying", endedAt: null }],
      [],
    ],
    [
      "is nothing while its lease continues with the line",
      [{ line: "x" }, { line: "x", isFollowed: true }],
      [],
    ],
    ["is nothing behind a dead one that holds its line", [{ line: "x", state: "dead", holds: true }], []],
    ["comes behind a dead one that does not", [{ line: "y", state: "dead" }], ["A 11", "A 12"]],
    [
      "comes behind a cancelled one that would hold it",
      [{ line: "yy", state: "cancelled", holds: true }],
      ["A 15"],
    ],
    ["is that of both lines of one that is sent again", [{ line: "long~", holds: true }], ["A 16", "A 17"]],
    ["is that of one line where it held none", [{ line: "x~" }], ["A 14"]],
  ])("%s", async (_, endings, found) => {
    expect(await next(...endings)).toEqual(found);
  });

  test("costs no statement where nothing moves up", () => {
    expect(nextInLines(db, [record({}), record({ line: "x", state: "dead", holds: true })])).toEqual([]);
  });

  test("is fifty at most, the first of the line", async () => {
    const events = Array.from({ length: 60 }, (_, i) => 200 - i);
    await insertRows(
      db,
      "lines",
      events.map((event_id) => ({ destination_id: B, line: "z", event_id, give_up_at: 9, holds: 0 })),
    );
    const found = await next({ line: "z", destinationId: B });
    expect(found).toHaveLength(50);
    expect(found.at(0)).toBe("B 141");
    expect(found.at(-1)).toBe("B 190");
    await insertRows(db, "lines", [{ destination_id: A, line: "z", event_id: 500, give_up_at: 9, holds: 0 }]);
    expect(await next({ line: "z" })).toEqual(["A 500"]);
  });
});

describe("a dead delivery that holds its line", () => {
  beforeEach(async () => {
    await stand(A, "x", [at(1, 0), at(1, 1), at(2, 0)], 1);
    await stand(A, "y", [at(1, 2), at(2, 1)], 1);
    await stand(B, "x", [at(1, 1), at(1, 3), at(2, 0)], 1);
    await stand(A, "x", [eventAt(FAR, 0), eventAt(FAR, 1)], 1);
    await dead(A, at(1, 0));
    await dead(A, eventAt(FAR, 0));
    // In none of its destination's lines.
    await dead(B, at(1, 2));
  });

  test("is ahead of those behind it, as the first of other lines is of theirs", async () => {
    const asked = [at(1, 0), at(1, 1), at(2, 0), at(1, 2), at(2, 1), at(1, 4), eventAt(FAR, 1)].map(keyOf(A));
    const ahead = await aheadOf(databases, [...asked, ...[at(1, 1), at(1, 3)].map(keyOf(B))]);
    const held = { head: at(1, 0), isHeld: true };
    expect([...ahead].toSorted()).toEqual(
      [
        [`${at(1, 1)} ${A}`, held],
        [`${at(2, 0)} ${A}`, held],
        [`${at(2, 1)} ${A}`, { head: at(1, 2), isHeld: false }],
        [`${at(1, 3)} ${B}`, { head: at(1, 1), isHeld: false }],
        [`${eventAt(FAR, 1)} ${A}`, { head: eventAt(FAR, 0), isHeld: true }],
      ].toSorted(),
    );
  });

  test("is found among others", async () => {
    await insertDeliveries(db, [
      { destination: A, event: at(1, 2), state: "waiting" },
      { destination: A, event: at(1, 4), state: "dead", endedAt: 1 },
    ]);
    const asked = [at(1, 0), at(1, 1), at(1, 2), at(1, 4), eventAt(FAR, 0)].map(keyOf(A));
    const found = await heldAmong(databases, [...asked, keyOf(B)(at(1, 1))]);
    expect(found).toEqual([keyOf(A)(at(1, 0)), keyOf(A)(eventAt(FAR, 0))]);
  });

  test("is skipped once, and those behind it come next", async () => {
    const before = await standing();
    expect(eventsOf(await skipHeld(databases, keyOf(A)(at(1, 0))))).toEqual([at(1, 1), at(2, 0)]);
    expect(await standing()).toEqual(before.filter((one) => one !== `${A} x ${at(1, 0)}`));
    expect(await skipHeld(databases, keyOf(A)(at(1, 0)))).toBeUndefined();
  });

  test("is not skipped where it is no dead one, or its database is not known", async () => {
    const before = await standing();
    expect(await skipHeld(databases, keyOf(A)(at(1, 2)))).toBeUndefined();
    expect(await skipHeld(databases, keyOf(B)(at(1, 1)))).toBeUndefined();
    expect(await skipHeld({ db }, keyOf(A)(eventAt(FAR, 0)))).toBeUndefined();
    expect(await standing()).toEqual(before);
  });

  test("is counted with its line, in all databases", async () => {
    await stand(B, "z", [at(3, 0)], 1);
    await dead(B, at(3, 0));
    // Dead, and not the first of its line.
    await dead(A, at(2, 1));
    await insertDeliveries(db, [{ destination: A, event: at(1, 2), state: "waiting" }]);
    expect(await heldLines(databases, [A, B])).toEqual(
      new Map([
        [A, 2],
        [B, 1],
      ]),
    );
    expect(await heldLines(databases, [B])).toEqual(new Map([[B, 1]]));
    expect(await heldLines(databases, [])).toEqual(new Map());
  });

  test("has its line among the blocked ones, with how many are behind it", async () => {
    await stand(A, "z", [at(3, 0)], 1);
    await stand(A, "zz", [at(3, 1)], 1);
    await dead(A, at(3, 1));
    await insertPacks(db, [{ destination: A, bundle: 1, waiting: [2] }]);
    const { lines, upto } = await blockedLines(db, A, "");
    expect(lines).toMatchObject([
      { head: { eventId: at(1, 0), state: "dead" }, isHeld: true, behind: 2 },
      { head: { eventId: at(1, 2), state: "waiting" }, isHeld: false, behind: 1 },
      { head: { eventId: at(3, 1), state: "dead" }, isHeld: true, behind: 0 },
    ]);
    expect(upto).toBeUndefined();
    expect((await blockedLines(db, A, "x")).lines.map(({ head }) => head.eventId)).toEqual([
      at(1, 2),
      at(3, 1),
    ]);
    expect((await blockedLines(db, B, "")).lines).toEqual([
      { head: keyOf(B)(at(1, 1)), isHeld: false, behind: 2 },
    ]);
  });
});

describe("of many lines", () => {
  /** A hundred and one lines of two events each, whose heads are dead. */
  beforeEach(async () => {
    const nameOf = (i: number) => String(i).padStart(3, "0");
    const lines = Array.from({ length: 101 }, (_, i) => nameOf(i));
    const rows = lines.flatMap((line, i) =>
      [1_000 + i, 2_000 + i].map((event_id) => ({
        destination_id: A,
        line,
        event_id,
        give_up_at: 9,
        holds: 1,
      })),
    );
    // Lines of another destination are between them.
    const others = lines.map((line, i) => ({
      ...{ destination_id: B, line: `${line}b`, event_id: i, give_up_at: 9, holds: 1 },
    }));
    await insertRows(db, "lines", [...rows, ...others]);
    await insertDeliveries(
      db,
      lines.map((_, i) => ({ destination: A, event: 1_000 + i, state: "dead", endedAt: 1 })),
    );
  });

  test("a hundred are examined", async () => {
    expect(await heldLines(databases, [A])).toEqual(new Map([[A, 100]]));
    const first = await blockedLines(db, A, "");
    expect([first.lines.length, first.upto]).toEqual([100, "099"]);
    const second = await blockedLines(db, A, "099");
    expect([second.lines.length, second.upto]).toEqual([1, undefined]);
    const last = await blockedLines(db, A, "000");
    expect([last.lines.length, last.upto]).toEqual([100, "100"]);
    const ninetyNine = await blockedLines(db, A, "001");
    expect([ninetyNine.lines.length, ninetyNine.upto]).toEqual([99, undefined]);
  });
});

test("behind the head of a line a hundred are counted", async () => {
  const rows = (line: string, count: number) =>
    Array.from({ length: count }, (_, i) => ({
      destination_id: A,
      line,
      event_id: i,
      give_up_at: 9,
      holds: 0,
    }));
  await insertRows(db, "lines", [...rows("x", 101), ...rows("y", 150), ...rows("z", 100)]);
  expect((await blockedLines(db, A, "")).lines.map(({ behind }) => behind)).toEqual([100, 100, 99]);
});

test("deliveries in lines that have no rows are the parked ones, so many at most", async () => {
  await stand(A, "x", [at(1, 0), at(1, 1), at(2, 0)]);
  await stand(B, "x", [at(1, 2)]);
  await insertDeliveries(db, [
    { destination: A, event: at(1, 0), state: "waiting" },
    { destination: B, event: at(1, 1), state: "waiting" },
  ]);
  const parked = async (limit: number) => (await parkedIn(db, A, limit).all()).results;
  expect(await parked(5)).toEqual([
    { eventId: at(1, 1), giveUpAt: 9 },
    { eventId: at(2, 0), giveUpAt: 9 },
  ]);
  expect(await parked(1)).toHaveLength(1);
});

test("deliveries behind others without rows and bits are found, so many at most, and no head, which may be in flight", async () => {
  await stand(A, "x", [at(1, 0), at(1, 1), at(2, 0)]);
  await stand(A, "y", [at(3, 0), at(4, 0)]);
  await stand(B, "x", [at(1, 2), at(1, 3)]);
  await insertPacks(db, [{ destination: A, bundle: 4, inFlight: [0] }]);
  await insertDeliveries(db, [
    { destination: A, event: at(1, 0), state: "waiting" },
    { destination: B, event: at(1, 1), state: "waiting" },
  ]);
  const behind = async (limit: number) => (await behindIn(db, A, limit).all()).results;
  expect(await behind(5)).toEqual([
    { eventId: at(1, 1), giveUpAt: 9 },
    { eventId: at(2, 0), giveUpAt: 9 },
  ]);
  expect(await behind(1)).toHaveLength(1);
});

describe("deliveries that a replay has requeued", () => {
  const replay = { id: "rpl_1", destinationId: A };
  const enter = async (ordering: "key" | "destination" | null, events: readonly number[]) => {
    const statements = enteringLines(db, replay, events, ordering);
    const results = statements.length > 0 ? await db.batch([...statements]) : [];
    return results.map(({ meta }) => meta.changes);
  };
  const headerOf = async (bundle: number) => {
    const header = await db
      .prepare("SELECT header FROM bundles WHERE id = ?1")
      .bind(bundle)
      .first<string>("header");
    return JSON.parse(header ?? "") as { version: number; lines?: Record<string, unknown> };
  };

  beforeEach(async () => {
    await stand(A, "x", [at(1, 0), at(1, 1)], 1);
    await stand(B, "y", [at(1, 2)]);
    const requeued = { state: "waiting", replay: "rpl_1", giveUpAt: 77 } as const;
    await insertDeliveries(db, [
      { destination: A, event: at(1, 1), ...requeued },
      { destination: A, event: at(1, 2), ...requeued },
      { destination: A, event: at(2, 0), ...requeued, replay: "rpl_2" },
      { destination: A, event: at(2, 1), ...requeued, state: "retrying" },
      { destination: A, event: at(2, 2), ...requeued },
    ]);
  });
  const requeued = [at(1, 1), at(1, 2), at(2, 0), at(2, 1), at(2, 2)];
  const entered = async () => (await standing()).filter((one) => one.includes("~"));

  test("stand in no line where their destination has no order, or there are none", async () => {
    expect(await enter(null, requeued)).toEqual([]);
    expect(await enter("key", [])).toEqual([]);
  });

  test("stand in the replayed line of their key, which their bundle then names", async () => {
    const before = await headerOf(2);
    await enter("key", requeued);
    expect(await entered()).toEqual([`${A} x~ ${at(1, 1)}`]);
    const row = await db.prepare("SELECT give_up_at AS at, holds FROM lines WHERE line = 'x~'").bind().all();
    expect(row.results).toEqual([{ at: 77, holds: 0 }]);
    const { version, lines = {} } = await headerOf(1);
    expect(version).toBe(3);
    expect(lines).toEqual({
      [A]: [
        ["x", 0, 1, 0, 1],
        ["x~", 0, 0],
      ],
      [B]: [["y", 0, 0, 2]],
    });
    expect(await headerOf(2)).toEqual(before);
    // Once: a bundle is written whole.
    expect(await enter("key", requeued)).toEqual([0, 0]);
    await enter("destination", [at(1, 2)]);
    expect((await headerOf(1)).lines).toMatchObject({
      [A]: [
        ["*~", 0, 0],
        ["x", 0, 1, 0, 1],
        ["x~", 0, 0],
      ],
    });
    expect(await enter("destination", [at(1, 2)])).toEqual([0, 0]);
  });

  test("stand in no line but their own, and a bundle that cannot be read stops none of them", async () => {
    await stand(A, "y", [at(4, 3)], 1);
    await db.prepare("UPDATE bundles SET header = 'nonsense' WHERE id = 5").bind().run();
    const own = { state: "waiting", replay: "rpl_1" } as const;
    const events = [at(1, 1), at(4, 0), at(4, 1), at(4, 3), at(5, 0)];
    await insertDeliveries(db, [
      ...events.slice(1).map((event) => ({ destination: A, event, ...own })),
      { destination: B, event: at(1, 1), ...own },
    ]);
    await enter("key", events);
    expect(await entered()).toEqual([`${A} x~ ${at(1, 1)}`, `${A} y~ ${at(4, 3)}`]);
  });

  test("stand in the one replayed line of their destination", async () => {
    await enter("destination", requeued);
    expect(await entered()).toEqual([`${A} *~ ${at(1, 2)}`, `${A} *~ ${at(2, 2)}`, `${A} x~ ${at(1, 1)}`]);
    expect((await headerOf(2)).lines).toEqual({ [A]: [["*~", 0, 0]] });
    expect(await headerOf(3)).not.toHaveProperty("lines");
  });
});
