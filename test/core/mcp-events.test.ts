/** MCP Events: cursors, lifetimes, and what clients get of event types and events. */
import { describe, expect, test } from "vitest";
import {
  cursorIn,
  cursorText,
  endedBefore,
  inputSchemaOf,
  lifetimeMs,
  occurrenceOf,
  payloadSchemaOf,
} from "../../src/core/mcp-events.ts";

describe("a cursor", () => {
  test.each([
    ["rs", { at: 1_000 }],
    ["rs.0.z.10", { at: 1_000, positions: [0, 35, 36] }],
  ])("%s is read as it was written", (text, cursor) => {
    expect([cursorText(cursor), cursorIn(text)]).toEqual([text, cursor]);
  });

  test.each([
    "",
    "RS",
    "rs.",
    ".rs",
    "-1",
    "rs.a.",
    "zzzzzzzzzz",
    `rs.${"0".repeat(12)}`,
    "rs\n",
  ])("%j is none", (text) => {
    expect(cursorIn(text)).toBeUndefined();
  });

  test("has exact numbers as positions, for at most 8,192 databases", () => {
    expect(cursorIn(`rs.${"z".repeat(11)}`)).toBeUndefined();
    expect(cursorIn(`rs${".1".repeat(8_192)}`)?.positions).toHaveLength(8_192);
    expect(cursorIn(`rs${".1".repeat(8_193)}`)).toBeUndefined();
  });
});

test.each([
  ["an hour, unless asked for", undefined, 3_600_000],
  ["a day, where no end is asked for", null, 86_400_000],
  ["five minutes at least", 299_999, 300_000],
  ["as long as asked for", 600_000, 600_000],
  ["a day at most", 86_400_001, 86_400_000],
])("a subscription lasts %s", (_, asked, ms) => {
  expect(lifetimeMs(asked)).toBe(ms);
});

test("deliveries of events that were accepted 31 minutes ago have ended", () => {
  expect(endedBefore(10_000_000)).toBe(10_000_000 - 31 * 60_000);
});

test.each([
  [
    { type: "object", required: ["a"] },
    { type: "object", required: ["a"] },
  ],
  [{ type: "string" }, { type: "object", properties: { value: { type: "string" } }, required: ["value"] }],
  [{ enum: [1] }, { type: "object" }],
  [null, { type: "object" }],
  ["object", { type: "object" }],
])("the payload of a type with the schema %j has %j", (schema, payload) => {
  expect(payloadSchemaOf(schema)).toEqual(payload);
});

test.each([
  [
    { type: "object", properties: { amount: {} } },
    { amount: { description: "A condition on data.amount." } },
  ],
  [{ type: "object" }, {}],
  [{ type: "object", properties: null }, {}],
  [{ type: "object", properties: "ab" }, {}],
  [{ type: "string", properties: { a: {} } }, {}],
  [null, {}],
])("the arguments of a type with the schema %j are conditions on %j", (schema, properties) => {
  const description = expect.stringMatching(/^Conditions on the event's data.*a list of values.*"gte": 100/);
  expect(inputSchemaOf(schema)).toEqual({ type: "object", description, properties });
});

describe("an occurrence", () => {
  const timestamp = "2026-11-26T10:00:00.000Z";
  const textOf = (data: string, cursor?: string | null) => {
    const envelope = `{"type":"order.paid","timestamp":"${timestamp}","data":${data}}`;
    const about = { id: "evt_a", type: "order.paid", ...(cursor !== undefined && { cursor }) };
    return new TextDecoder().decode(occurrenceOf(new TextEncoder().encode(envelope), about));
  };
  const about = { eventId: "evt_a", name: "order.paid", timestamp };
  const _meta = { "breakwater/data_not_instructions": ["data"] };

  test("has the event's data to the digit, marked as data", () => {
    expect(textOf('{"n":1.50}')).toContain('"data":{"n":1.50}');
    expect(JSON.parse(textOf('{"n":1.50}'))).toEqual({ ...about, data: { n: 1.5 }, _meta });
    expect(JSON.parse(textOf("{}", null))).toEqual({ ...about, data: {}, _meta });
    expect(JSON.parse(textOf("{}", "rs"))).toEqual({ ...about, data: {}, cursor: "rs", _meta });
  });

  test("has data that is not an object as `value`", () => {
    for (const data of ["[1]", '"{"', "null", "-0.0"])
      expect(JSON.parse(textOf(data))).toEqual({ ...about, data: { value: JSON.parse(data) }, _meta });
  });
});
