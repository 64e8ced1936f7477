/** Search in stored events: by names and content, as they were posted, and page by page. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf, eventAt } from "../../src/core/bundle.ts";
import type { EventListFilter, EventPosition } from "../../src/store/event-list.ts";
import { searchEvents } from "../../src/store/events.ts";
import { emptyDatabase } from "../support/api.ts";
import { type EventRow, insertBundles } from "../support/bundle-rows.ts";
import { meteredD1 } from "../support/meter.ts";
import { storeBodies } from "../support/world.ts";

beforeEach(emptyDatabase);

const over = { dueBy: -1, endedBy: -1, now: 0, first: env.DB };

const search = (words: string, filter: Partial<EventListFilter> = {}, db = env.DB) =>
  searchEvents({ db }, { over, limit: 50, ...filter }, words === "" ? [] : words.split(" "));

/** The indexes of the events that are found, in bundle 1. */
const found = async (words: string, filter?: Partial<EventListFilter>) =>
  (await search(words, filter)).found.map(({ event }) => event.id - eventAt(1, 0));

/** One bundle of these events, with those bodies where they are given. */
async function bundle(events: readonly EventRow[], bodies?: readonly string[], contentTypes = {}) {
  await insertBundles(env.DB, [{ events }]);
  if (bodies === undefined) return;
  await storeBodies(1, bodies);
  await env.DB.prepare("UPDATE bundles SET header = json_set(header, '$.contentTypes', json(?1))")
    .bind(JSON.stringify(contentTypes))
    .run();
}

const erase = (index: number) =>
  env.DB.prepare("UPDATE bundles SET header = json_set(header, '$.erased', json(?1))")
    .bind(JSON.stringify([index, index]))
    .run();

describe("words", () => {
  const long = `${"a ".repeat(100)}needle${" b".repeat(100)}`;

  beforeEach(() =>
    bundle([
      { type: "order.paid", tags: ["jane"], data: { text: "invoice" } },
      { type: "order.made", channels: ["eu"], data: { text: "invoice jane" } },
      { type: "other", tenant: "rival", data: { text: long } },
    ]),
  );

  test("are found in types, tags, channels, tenants and content, each of them somewhere", async () => {
    expect(await found("order")).toEqual([1, 0]);
    expect(await found("jane")).toEqual([1, 0]);
    expect([await found("eu"), await found("rival")]).toEqual([[1], [2]]);
    expect(await found("order.paid invoice")).toEqual([0]);
    expect(await found("invoice eu jane")).toEqual([1]);
    expect(await found("invoice rival")).toEqual([]);
    expect(await found("timestamp")).toEqual([]);
  });

  test("in the content are shown with their surroundings, and those in names without", async () => {
    const [hit, ...others] = (await search("needle")).found;
    expect(others).toEqual([]);
    expect(hit?.excerpt).toMatch(/^….*needle.*…$/);
    expect((await search("order")).found.map(({ excerpt }) => excerpt)).toEqual([undefined, undefined]);
    const shown = (await search("jane")).found.map(({ excerpt }) => excerpt);
    expect(shown).toEqual([expect.stringContaining("invoice jane"), undefined]);
  });

  test("in names are found without reading a body, and so are those of erased events", async () => {
    await erase(2);
    const { db, used } = meteredD1(env.DB);
    expect((await search("o", {}, db)).found).toHaveLength(3);
    const { queries } = used();
    expect(await found("needle")).toEqual([]);
    expect(await found("rival")).toEqual([2]);
    await search("needle", { tenant: "rival" }, db);
    expect(used().queries).toBe(queries);
    await search("needle", { tenant: "acme" }, db);
    expect(used().queries).toBe(queries + 1);
  });

  test("may be absent: then every event is found", async () => {
    expect(await found("")).toEqual([2, 1, 0]);
    expect(await found("", { tenant: "rival" })).toEqual([2]);
    const { found: some, page } = await search("", { limit: 2 });
    expect([some.length, page.next]).toEqual([2, [eventAt(1, 1)]]);
  });
});

test("a page of the newest events reports that it has read back to its last one", async () => {
  await insertBundles(
    env.DB,
    [1, 2, 3].map((acceptedAt) => ({ acceptedAt, events: [{}] })),
  );
  const { page } = await search("", { limit: 2 });
  expect([page.found.length, page.lookedBackTo]).toEqual([2, 2]);
});

describe("content", () => {
  const body = (data: string) => `{"type":"a","timestamp":"2026-11-21T09:00:00.000Z","data":${data}}`;

  test("is searched as it was posted, except for escapes that JSON does not need", async () => {
    await bundle(
      [{}, {}, {}, {}],
      [body('{"n": 1.50,  "b":2}'), body('"Z\\u00fcrich"'), body('"a\\/b"'), body('"line\\nend"')],
    );
    expect([await found("1.50,"), await found('"b":2')]).toEqual([[0], [0]]);
    expect([await found("Zürich"), await found("a/b"), await found("line\\nend")]).toEqual([[1], [2], [3]]);
    expect([await found("\\u00fc"), await found("a\\/b")]).toEqual([[], []]);
  });

  test("of its own type is searched literally, from its first character to its last", async () => {
    const bodies = ['"Z\\u00fcrich"  or Wien!', "<a>", '"M\\u00fcnchen"'];
    await bundle([{}, {}, {}], bodies, { "0": "text/plain", "1": "text/xml", "2": "text/plain" });
    expect([await found('"Z\\u00fcrich"'), await found("Zürich")]).toEqual([[0], []]);
    expect([await found("wien!"), await found("<a>")]).toEqual([[0], [1]]);
    expect([await found("m\\u00fcnchen"), await found("München")]).toEqual([[2], []]);
  });

  test("that is damaged is skipped, and words in names are found", async () => {
    await bundle([{ type: "order", data: { text: "needle" } }, { data: "needle" }]);
    await env.DB.prepare("UPDATE bundles SET body = unhex('00')").run();
    expect([await found("needle"), await found("order")]).toEqual([[], [0]]);
  });
});

test("a page ends with the requested number of hits, and the next one continues behind the last", async () => {
  const events = Array.from({ length: 60 }, (_, i) => ({ data: i % 3 === 0 ? "hit" : "miss" }));
  const ids = await insertBundles(env.DB, [{ events }, { events }]);
  expect(new Set(ids.map(bundleOf)).size).toBe(2);
  const hits: number[] = [];
  const sizes: number[] = [];
  let from: readonly EventPosition[] | undefined;
  do {
    const { found, page } = await search("hit", { limit: 15, from });
    hits.push(...found.map(({ event }) => event.id));
    sizes.push(found.length);
    if (page.next) expect(page.next).toEqual([hits.at(-1)]);
    from = page.next;
  } while (from);
  expect(sizes.slice(0, 2)).toEqual([15, 15]);
  expect(hits).toEqual(ids.filter((_, i) => i % 3 === 0).toReversed());
});
