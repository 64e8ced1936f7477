/** Why a destination does not take events that are stored. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import {
  type ComparedEvent,
  type Criteria,
  criteriaOf,
  isDataAsked,
  refusalsOf,
} from "../../src/store/event-refusals.ts";
import { emptyDatabase } from "../support/api.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { meteredD1 } from "../support/meter.ts";
import { storeBodies } from "../support/world.ts";

beforeEach(emptyDatabase);

const large = { amount: { gte: 100 } };
const absent = { amount: { exists: false } };
const route: Criteria = { types: ["order.*"], channels: null, filter: null, takesContent: false };
const plain: ComparedEvent = {
  ...{ id: eventAt(1, 0), type: "order.paid", channels: [] },
  ...{ contentType: undefined, isErased: false, bundleBytes: 100 },
};
const content = { contentType: "text/xml" };

const refusals = (criteria: Partial<Criteria>, events: readonly Partial<ComparedEvent>[], db = env.DB) =>
  refusalsOf(
    { db },
    { ...route, ...criteria },
    events.map((one) => ({ ...plain, ...one })),
  );

test("a destination is compared by its types, channels and filter, and by whether it gets only data", () => {
  const stored = { eventTypes: ["a"], channels: ["eu"], filter: large, body: "data" };
  const expected = { types: ["a"], channels: ["eu"], filter: large };
  expect(criteriaOf(stored as never)).toEqual({ ...expected, takesContent: true });
  expect(criteriaOf({ ...stored, body: "envelope" } as never)).toEqual({ ...expected, takesContent: false });
});

test.each<[string, Partial<Criteria>, Partial<ComparedEvent>, boolean]>([
  ["there is a filter", {}, {}, true],
  ["there is none", { filter: null }, {}, false],
  ["the event is content", { takesContent: true }, content, false],
  ["its data has been erased", {}, { isErased: true }, false],
  ["its type is not taken", {}, { type: "other" }, false],
  ["its channels are not taken", { channels: ["us"] }, { channels: ["eu"] }, false],
  ["its channel is taken", { channels: ["eu"] }, { channels: ["eu"] }, true],
])("where %s, whether an event's data is asked is %4$s", (_, criteria, event, isAsked) => {
  expect(isDataAsked({ ...route, filter: large, ...criteria }, { ...plain, ...event })).toBe(isAsked);
});

describe("an event", () => {
  test.each<[string, Partial<Criteria>, Partial<ComparedEvent>, unknown]>([
    ["is taken", {}, {}, null],
    ["is of another type", {}, { type: "other" }, "type"],
    ["is of another channel", { channels: ["us"] }, { channels: ["eu"] }, "channel"],
    ["is content, which is not taken", {}, content, "body"],
    ["is content, which is taken", { takesContent: true }, content, null],
    ["is content, in which a filter finds nothing", { takesContent: true, filter: large }, content, "filter"],
    ["is content, and a filter asks for nothing", { takesContent: true, filter: absent }, content, null],
    ["is erased", {}, { isErased: true }, null],
    ["is erased, and a filter would ask it", { filter: large }, { isErased: true }, "erased"],
    ["is erased, and of another type", { filter: large }, { isErased: true, type: "other" }, "type"],
    ["is gone, and a filter would ask it", { filter: large }, {}, "corrupt"],
  ])("%s", async (_, criteria, event, refusal) => {
    expect(await refusals(criteria, [event])).toEqual(new Map([[plain.id, refusal]]));
  });

  test("is taken or not by its own data", async () => {
    const ids = await insertBundles(env.DB, [
      { events: [100, 99, "100"].map((amount) => ({ type: "order.paid", data: { amount } })) },
      { events: [{ type: "order.paid" }, { type: "other", data: { amount: 100 } }] },
    ]);
    const events = ids.map((id, i) => ({ id, type: i === 4 ? "other" : "order.paid" }));
    const refused = await refusals({ filter: large }, events);
    expect(ids.map((id) => refused.get(id))).toEqual([null, "filter", "filter", "filter", "type"]);
  });

  test("whose body cannot be read is corrupt, and the others of its bundle are not", async () => {
    await insertBundles(env.DB, [{ events: [{}, {}, {}, {}] }, { events: [{}] }]);
    await storeBodies(1, ["{", '{"data":{"amount":100}}', "null", ""]);
    await env.DB.prepare("UPDATE bundles SET body = unhex('00') WHERE id = 2").run();
    const ids = [...[0, 1, 2, 3].map((index) => eventAt(1, index)), eventAt(2, 0)];
    const refused = await refusals(
      { filter: large },
      ids.map((id) => ({ id })),
    );
    expect([...refused]).toEqual(ids.map((id, i) => [id, i === 1 ? null : "corrupt"]));
  });

  test("is read only if its data is needed", async () => {
    const { db, used } = meteredD1(env.DB);
    const unasked = [{ type: "other" }, content, { isErased: true }];
    await refusals({ filter: large, takesContent: true }, unasked, db);
    await refusals({}, [{}], db);
    expect(used().queries).toBe(0);
    await refusals({ filter: large }, [{}], db);
    expect(used().queries).toBe(1);
  });
});
