/** Results of code, stored before they are sent: the first one of a delivery stays, and they go with their event's content. */
import { beforeEach, expect, test } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import { eventAt } from "../../src/core/bundle.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import {
  hasFunctionsOff,
  readTransformResults,
  storeTransformResults,
  type TransformResult,
} from "../../src/store/transform-results.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { insertRows } from "../support/stored-deliveries.ts";

const A = "dst_00000000000000000000";
const B = "dst_00000000000000000001";
const EVENT = eventAt(1, 0);
const FAR = beforeFirstBundleOf(1) + 1;

let databases: { db: D1Database; further: D1Database[] };
beforeEach(async () => {
  const [db, far] = [0, 1].map(() => memoryD1().bindingFor(async (_, work) => work())) as [
    D1Database,
    D1Database,
  ];
  databases = { db, further: [far] };
  const events = [{}, {}, {}, {}];
  await insertBundles(db, [{ id: 1, events }]);
  await insertBundles(far, [{ id: FAR, events }]);
});

const result = (event: number, own: object, destinationId = A) =>
  ({ eventId: event, destinationId, version: 1, ...own }) as TransformResult;
const made = (event: number, body: string, destinationId?: string) =>
  result(event, { made: { body } }, destinationId);
const failed = (event: number, stopped: boolean) =>
  result(event, { fault: { field: "code", fault: "throws", line: 3 }, stopped });

const store = (...results: TransformResult[]) => storeTransformResults(databases, results);
const read = (...results: TransformResult[]) => readTransformResults(databases, results);

test("results are read as they were stored, each from its event's database", async () => {
  const results = [
    made(EVENT, "1"),
    failed(EVENT + 1, true),
    failed(EVENT + 2, false),
    made(EVENT, "2", B),
    made(eventAt(FAR, 0), "3"),
  ];
  expect(await store(...results)).toEqual([]);
  expect(await read(...results)).toEqual(results);
  expect(await read(made(EVENT, "1", B), made(EVENT + 1, "", B))).toEqual([results[3]]);
  expect(await read()).toEqual([]);
});

test("the first thing that was made stays, and whoever brings another gets it", async () => {
  const [first, other] = [made(EVENT, "first"), { ...made(EVENT, "other"), version: 2 }];
  await store(first);
  expect(await store(first, made(EVENT + 1, "new"))).toEqual([]);
  expect(await store(other)).toEqual([first]);
  expect(await store(failed(EVENT, false))).toEqual([first]);
  expect(await read(first)).toEqual([first]);
});

test("a fault gives way to another, and to what is made", async () => {
  await store(failed(EVENT, true));
  const later = { ...failed(EVENT, false), version: 2 };
  expect(await store(later)).toEqual([]);
  expect(await read(later)).toEqual([later]);
  expect(await store(made(EVENT, "made"))).toEqual([]);
  expect(await read(later)).toEqual([made(EVENT, "made")]);
});

test("a result that an edit has damaged is read as a fault, until another is made", async () => {
  const columns = { destination_id: A, version: 1 };
  await insertRows(databases.db, "transform_results", [
    { event_id: EVENT, ...columns, made: "{", fault: null },
    { event_id: EVENT + 1, ...columns, made: null, fault: "{" },
  ]);
  const fault = { field: "code", fault: "has a result that cannot be read; save it again" };
  const unreadable = { fault, stopped: false };
  const asked = [made(EVENT, ""), made(EVENT + 1, "")];
  expect(await read(...asked)).toEqual([result(EVENT, unreadable), result(EVENT + 1, unreadable)]);
  const anew = [made(EVENT, "anew"), made(EVENT + 1, "anew")];
  expect(await store(...anew)).toEqual([]);
  expect(await read(...asked)).toEqual(anew);
});

test("nothing is stored of an event that is erased or gone", async () => {
  await databases.db
    .prepare("UPDATE bundles SET header = json_set(header, '$.erased', json('[1, 2]'))")
    .bind()
    .run();
  const results = [0, 1, 2, 3].map((index) => made(EVENT + index, "x"));
  const gone = made(eventAt(9, 0), "x");
  expect(await store(...results, gone)).toEqual([]);
  expect(await read(...results, gone)).toEqual([results[0], results[3]]);
});

test("no more is loaded at once than eight million characters, in the order asked for", async () => {
  const long = JSON.stringify("x".repeat(8_000_000 - 2));
  const columns = { destination_id: A, version: 1 };
  await insertRows(databases.db, "transform_results", [
    { event_id: EVENT, ...columns, made: long },
    { event_id: EVENT + 1, ...columns, made: "{}" },
  ]);
  const [large, small] = [made(EVENT, ""), made(EVENT + 1, "")];
  const kept = async (...asked: TransformResult[]) =>
    (await read(...asked)).map((one) => [one.eventId, "withheld" in one && one.withheld]);
  expect(await kept(large, small)).toEqual([
    [EVENT, false],
    [EVENT + 1, true],
  ]);
  expect(await kept(small, large)).toEqual([
    [EVENT + 1, false],
    [EVENT, true],
  ]);
  await expect(store(result(EVENT, { withheld: true }))).rejects.toThrow("cannot be stored");
});

test("functions are off where the operator has switched the tenant's off", async () => {
  const times = { created_at: 0, updated_at: 0 };
  await insertRows(databases.db, "tenant_settings", [
    { tenant: "acme", functions_off: 1, ...times },
    { tenant: "globex", functions_off: 0, ...times },
  ]);
  const isOff = (tenant: string) => hasFunctionsOff(databases, tenant);
  expect([await isOff("acme"), await isOff("globex"), await isOff("initech")]).toEqual([true, false, false]);
});

test.each([
  ["made", "no JSON"],
  ["made", "7"],
  ["made", '"text"'],
  ["made", '{"query":7}'],
  ["made", '{"headers":{"x":null}}'],
  ["fault", "null"],
  ["fault", "[]"],
  ["fault", '{"field":"code"}'],
])("a stored result whose %s is %j counts as a fault, and the others are read", async (column, value) => {
  const columns = { destination_id: A, version: 1 };
  await insertRows(databases.db, "transform_results", [{ event_id: EVENT, ...columns, [column]: value }]);
  await store(made(EVENT + 1, "fine"));
  const [broken, fine] = await read(made(EVENT, ""), made(EVENT + 1, ""));
  expect(broken).toMatchObject({ eventId: EVENT, fault: { field: "code" }, stopped: false });
  expect(fine).toEqual(made(EVENT + 1, "fine"));
});

test("a result of another shape gives way to one of another version", async () => {
  const columns = { destination_id: A, version: 1 };
  await insertRows(databases.db, "transform_results", [{ event_id: EVENT, ...columns, made: "[]" }]);
  const again = { ...made(EVENT, "anew"), version: 2 };
  expect(await store(again)).toEqual([]);
  expect(await read(again)).toEqual([again]);
});
