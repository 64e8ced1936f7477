/** The facts about erased events that the header of a bundle retains. */
import { describe, expect, test } from "vitest";
import { headerAt, isErased, type StoredHeader, storedHeader, tagsAt } from "../../src/core/bundle.ts";
import { headerWithout, tagsLost } from "../../src/core/erase.ts";

const stored = { encoding: "plain", checksum: 5 } as const;
const after = { encoding: "plain", checksum: 6 } as const;
const kept = { tags: false, keys: [] };

const header: StoredHeader = {
  ...storedHeader(
    [
      { tenant: "acme", type: "a", bytes: 10, tags: ["x", "only"], channels: ["c"] },
      { tenant: "globex", type: "b", bytes: 20, tags: ["x"], channels: ["d"] },
      { tenant: "acme", type: "a", bytes: 30, tags: ["x"], channels: ["c"] },
    ],
    { ...stored, headerBytes: 7 },
  ),
  keys: [
    ["acme", "k1"],
    ["globex", "k1"],
  ],
};

describe("an erased event", () => {
  test("keeps its place, tenant and type, and loses its bytes; its neighbours lose nothing", () => {
    const without = headerWithout(header, [0], after, kept);
    expect([0, 1, 2].map((index) => headerAt(without, index))).toEqual([
      { tenant: "acme", type: "a", bytes: 0 },
      { tenant: "globex", type: "b", bytes: 20 },
      { tenant: "acme", type: "a", bytes: 30 },
    ]);
    expect(headerAt(headerWithout(header, [1], after, kept), 1)).toEqual({
      tenant: "globex",
      type: "b",
      bytes: 0,
    });
    expect([0, 1, 2].map((index) => isErased(without, index))).toEqual([true, false, false]);
    expect(without).toMatchObject({ version: 2, checksum: 6 });
    expect(without).not.toHaveProperty("headerBytes");
  });

  test("leaves the bundle to code that knows what else it has", () => {
    const place = ["*", 5, 0, 1] as const;
    const inLines = storedHeader([{ tenant: "acme", type: "a", bytes: 10 }], {
      ...stored,
      lines: { dst_1: [place] },
    });
    const without = headerWithout(inLines, [0], after, kept);
    expect(without).toMatchObject({ version: inLines.version, lines: { dst_1: [place] } });
    const version = { version: 2, since: 1 };
    const versioned = storedHeader([{ tenant: "acme", type: "a", bytes: 10, version }], stored);
    expect(headerWithout(versioned, [0], after, kept).version).toBe(versioned.version);
  });

  test("stays erased when another event is erased, in any order", () => {
    const both = headerWithout(headerWithout(header, [2], after, kept), [0], after, kept);
    expect(both.erased).toEqual([0, 0, 2, 2]);
    expect(headerWithout(both, [0], after, kept).erased).toEqual([0, 0, 2, 2]);
  });

  test("keeps its tags, its channels and its keys unless they are to be erased too", () => {
    const { tags, channels, keys } = headerWithout(header, [0], after, kept);
    expect({ tags, channels, keys }).toEqual({
      tags: header.tags,
      channels: header.channels,
      keys: header.keys,
    });
  });

  test("loses its tags and channels if they may name people, while others keep theirs", () => {
    const without = headerWithout(header, [0], after, { ...kept, tags: true });
    expect([0, 1, 2].map((index) => tagsAt(without, index))).toEqual([[], ["x"], ["x"]]);
    expect(without.channels).toEqual([
      ["c", [2, 2]],
      ["d", [1, 1]],
    ]);
    const none = headerWithout(header, [0, 1, 2], after, { ...kept, tags: true });
    expect(none).not.toHaveProperty("tags");
    expect(none).not.toHaveProperty("channels");
  });

  test("loses the named keys, of its own tenant only", () => {
    const without = headerWithout(header, [0], after, { tags: false, keys: [["acme", "k1"]] });
    expect(without.keys).toEqual([["globex", "k1"]]);
    const none = headerWithout(without, [1], after, { tags: false, keys: [["globex", "k1"]] });
    expect(none).not.toHaveProperty("keys");
  });
});

test("a bundle loses the tags that no remaining event of the same tenant has", () => {
  const lostBy = (...indexes: number[]) =>
    tagsLost(header, headerWithout(header, indexes, after, { ...kept, tags: true }));
  expect(lostBy(0)).toEqual([["acme", "only"]]);
  expect(lostBy(1)).toEqual([["globex", "x"]]);
  expect(lostBy(0, 1, 2)).toHaveLength(3);
  expect(tagsLost({ ...header, tags: [] }, header)).toEqual([]);
  const { tags: _, ...untagged } = header;
  expect(tagsLost(untagged, untagged)).toEqual([]);
});
