/** Rows of raw statements, whatever is in them or missing. */
import { expect, test } from "vitest";
import { modelOf } from "../../src/store/columns.ts";
import { destinations } from "../../src/store/destination.ts";
import { tenantSettings } from "../../src/store/schema.ts";

test("a column that is missing or null reads as null, and one that is not JSON reads as its fallback", () => {
  const read = (sealed_headers?: unknown) => modelOf(destinations, { id: "dst_a", sealed_headers });
  expect(read()).toMatchObject({ id: "dst_a", sealedHeaders: null, rateBurst: null, uid: null, auth: null });
  expect(read(null)).toMatchObject({ sealedHeaders: null });
  expect(read('{"x":"sealed"}')).toMatchObject({ sealedHeaders: { x: "sealed" } });
  expect(read("no JSON")).toMatchObject({ sealedHeaders: { "": "" } });
});

test("a column that is no list or object, as its fallback is, reads as the fallback", () => {
  const read = (raw: object) => modelOf(destinations, { id: "dst_a", ...raw });
  expect(read({ sealed_headers: "[1]", previous_secrets: "{}" })).toMatchObject({
    sealedHeaders: { "": "" },
    previousSecrets: [],
  });
  expect(read({ event_types: "7", auth: "7", previous_secrets: "null" })).toMatchObject({
    ...{ eventTypes: 7, auth: {}, previousSecrets: [] },
  });
});

test("every column of the table is read, and nothing else of the row", () => {
  const { tenant, retentionDays, ...others } = modelOf(tenantSettings, {
    ...{ tenant: "acme", retention_days: 7, more: 1 },
  });
  expect([tenant, retentionDays]).toEqual(["acme", 7]);
  expect(new Set(Object.values(others))).toEqual(new Set([null]));
});
