import { describe, expect, test } from "vitest";
import { loadedRow, type StoredRow, storedRow } from "../../src/store/delivery.ts";
import { WITHOUT_ATTEMPT } from "../../src/store/packs.ts";

const entry = { at: 1, latencyMs: 2 };
const row: StoredRow = {
  ...{ ...WITHOUT_ATTEMPT, destinationId: "dst_1", eventId: 128, state: "retrying", giveUpAt: 9 },
  log: [entry, { ...entry, owner: "last" }],
};

describe("the row of a delivery", () => {
  test.each([
    ["in flight has it as a retry", { reason: "in_flight" }, { state: "in_flight", reason: null }],
    ["to retry has its cause", { reason: "http_503" }, { state: "retrying", reason: "http_503" }],
    ["that waits has its reason", { state: "waiting", reason: "hold" }, { state: "waiting", reason: "hold" }],
  ] as const)("%s", (_, columns, status) => {
    const stored = { ...row, ...columns };
    expect(loadedRow(stored)).toEqual({ ...row, ...status, log: [entry, entry], owner: "last" });
    expect(storedRow(loadedRow(stored))).toEqual(stored);
  });

  test("has no owner if its log has no entry", () => {
    expect(storedRow({ ...loadedRow(row), log: [] })).toEqual({ ...row, log: [] });
  });

  test.each([null, 5, {}, [null], [5], [{ owner: 5 }]])("survives an edit of its log into %j", (edited) => {
    const log = edited as unknown as StoredRow["log"];
    const delivery = loadedRow({ ...row, log });
    expect(delivery).toEqual({ ...row, log });
    expect(storedRow(delivery)).toEqual({ ...row, log });
  });
});
