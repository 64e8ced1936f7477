/**
 * Erasing content of a bundle in the database: only of the given events, only while the bundle is as it was read, and
 * with everything else that was requested.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt, type Plan, type StoredHeader } from "../../src/core/bundle.ts";
import { readContents } from "../../src/store/bundles.ts";
import { type ErasedDelivery, type Extent, eraseFrom, indexesOfTenant } from "../../src/store/erase.ts";
import { emptyDatabase, insertRow } from "../support/api.ts";
import { type EventRow, insertBundles } from "../support/bundle-rows.ts";
import { rowsOfAll } from "../support/databases.ts";
import { meteredD1 } from "../support/meter.ts";
import { storedRows } from "../support/world.ts";

const NOW = 1_000;
const content: Extent = { cancels: false, tags: false, keys: "kept" };
const everything: Extent = { cancels: true, tags: true, keys: "closed", erasure: "meant" };

beforeEach(emptyDatabase);

type Stored = Readonly<{ id: number; header: StoredHeader; hex: string }>;

async function bundles(): Promise<Stored[]> {
  const rows = await rowsOfAll<{ id: number; header: string; hex: string }>(
    "SELECT id, header, hex(body) AS hex FROM bundles ORDER BY id",
  );
  return rows.map(({ id, header, hex }) => ({ id, header: JSON.parse(header), hex }));
}

/** The data of each event of a bundle; an empty text if it is erased. */
async function dataOf(bundle: number): Promise<unknown[]> {
  const found = (await bundles()).find(({ id }) => id === bundle);
  const contents = found && (await readContents(found.hex, found.header));
  return (contents ?? []).map(({ body }) => {
    const text = new TextDecoder().decode(body);
    return text && JSON.parse(text).data;
  });
}

const erasure = (id: string) =>
  insertRow("erasures", {
    ...{ id, tenant: "acme", kind: "tenant", state: "running" },
    ...{ next_step_at: 0, created_at: 0, updated_at: 0 },
  });

const counts = () =>
  rowsOfAll(
    "SELECT id, events, deliveries, cancelled FROM erasures WHERE events + deliveries + cancelled > 0",
  );

/** Tags and idempotency keys that are left, each with the bundle or the fingerprint. */
async function left() {
  const tags = await rowsOfAll("SELECT tenant || ' ' || tag || ' ' || bundle_id AS t FROM tags ORDER BY t");
  const keys = await rowsOfAll(
    "SELECT tenant || ' ' || key || ' ' || fingerprint AS k FROM idempotency_keys ORDER BY k",
  );
  return {
    tags: tags.map((row) => Object.values(row as object)[0]),
    keys: keys.map((row) => Object.values(row as object)[0]),
  };
}

/** The places of a request's events: the place of the bundle in the list, and the index in it. */
const key = (name: string, ids: number[], places: [number, number][], tenant = "acme") =>
  insertRow("idempotency_keys", {
    ...{ tenant, key: name, fingerprint: "print", created_at: 1 },
    bundles: ids,
    places,
  });

describe("an erasure", () => {
  const events: readonly EventRow[] = [
    { data: "one", tags: ["first", "both"] },
    { data: "two", tags: ["both"] },
    { data: "three", tenant: "rival", tags: ["first"] },
  ];
  const keys = [
    ["acme", "of one"],
    ["acme", "of two"],
    ["acme", "of both"],
    ["acme", "elsewhere"],
    ["rival", "of one"],
  ] as const;

  beforeEach(async () => {
    await insertBundles(env.DB, [
      { events: [{ data: "other", tags: ["first"] }] },
      { events, keys },
      { events, keys },
    ]);
    await erasure("meant");
    await erasure("other");
    await key("of one", [2], [[0, 0]]);
    await key("of two", [2], [[0, 1]]);
    await key(
      "of both",
      [2],
      [
        [0, 1],
        [0, 0],
      ],
    );
    // Its second event is at the same index of another bundle.
    await key(
      "elsewhere",
      [2, 3],
      [
        [0, 1],
        [1, 0],
      ],
    );
    await key("of one", [2], [[0, 2]], "rival");
    await key("unlisted", [2], [[0, 0]]);
    await key("of one", [2], [[0, 0]], "stranger");
  });

  test("erases only the content of those events, not of an identical bundle", async () => {
    const [before, beside] = [await bundles(), await left()];
    expect(await eraseFrom(env.DB, { id: 2, plan: {}, indexes: [0] }, content, NOW)).toBeUndefined();
    expect(await dataOf(2)).toEqual(["", "two", "three"]);
    const after = await bundles();
    expect([after[0], after[2]]).toEqual([before[0], before[2]]);
    expect(after[1]?.header).toMatchObject({ erased: [0, 0], keys, tags: before[1]?.header.tags });
    expect(await counts()).toEqual([]);
    expect(await left()).toEqual(beside);
  });

  test("removes tags that no event has any more, and closes the keys of its requests", async () => {
    await eraseFrom(env.DB, { id: 2, plan: {}, indexes: [0] }, everything, NOW);
    const tags = [
      "acme both 2",
      "acme both 3",
      "acme first 1",
      "acme first 3",
      "rival first 2",
      "rival first 3",
    ];
    expect(await left()).toEqual({
      tags,
      keys: [
        "acme elsewhere print",
        "acme of both erased",
        "acme of one erased",
        "acme of two print",
        "acme unlisted print",
        "rival of one print",
        "stranger of one print",
      ],
    });
    const header = (await bundles())[1]?.header;
    expect(header?.keys).toEqual(keys);
    await eraseFrom(env.DB, { id: 2, plan: {}, indexes: [1] }, everything, NOW);
    expect((await left()).tags).toEqual(tags.filter((tag) => tag !== "acme both 2"));
    expect(await counts()).toEqual([{ id: "meant", events: 2, deliveries: 0, cancelled: 0 }]);
  });

  test("removes the keys on request, also from the header", async () => {
    await eraseFrom(env.DB, { id: 2, plan: {}, indexes: [0] }, { ...everything, keys: "removed" }, NOW);
    expect((await left()).keys).toEqual([
      "acme elsewhere print",
      "acme of two print",
      "acme unlisted print",
      "rival of one print",
      "stranger of one print",
    ]);
    expect((await bundles())[1]?.header.keys).toEqual([
      ["acme", "of two"],
      ["acme", "elsewhere"],
      ["rival", "of one"],
    ]);
  });

  test("passes over a key that an edit by hand left unreadable", async () => {
    await env.DB.prepare("UPDATE idempotency_keys SET places = '[' WHERE key = 'of both'").run();
    await env.DB.prepare("UPDATE idempotency_keys SET bundles = '[' WHERE key = 'elsewhere'").run();
    await eraseFrom(env.DB, { id: 2, plan: {}, indexes: [0, 1] }, everything, NOW);
    expect(await dataOf(2)).toEqual(["", "", "three"]);
    expect((await left()).keys).toEqual(
      expect.arrayContaining(["acme of one erased", "acme of two erased", "acme of both print"]),
    );
  });

  test("takes effect and is counted once, and a repeat writes nothing", async () => {
    const bundle = { id: 2, plan: {}, indexes: [0, 2] };
    await eraseFrom(env.DB, bundle, everything, NOW);
    const { db, used } = meteredD1(env.DB);
    await eraseFrom(db, bundle, everything, NOW);
    expect(used().rowsWritten).toBe(0);
    await eraseFrom(env.DB, { ...bundle, indexes: [0, 1] }, everything, NOW);
    expect(await counts()).toEqual([{ id: "meant", events: 3, deliveries: 0, cancelled: 0 }]);
    expect(await dataOf(2)).toEqual(["", "", ""]);
  });

  test.each([
    "closed",
    "removed",
  ] as const)("is nothing while others change the bundle again and again, with keys %s", async (how) => {
    const before = [await left(), (await bundles()).map(({ hex }) => hex)];
    let batches = 0;
    const racing = {
      prepare: env.DB.prepare.bind(env.DB),
      batch: async (statements: D1PreparedStatement[]) => {
        if (++batches > 20) throw new Error("It goes on and on");
        const change = "UPDATE bundles SET header = json_set(header, '$.changed', ?1) WHERE id = 2";
        await env.DB.prepare(change).bind(batches).run();
        return env.DB.batch(statements);
      },
    } as unknown as D1Database;
    const erased = eraseFrom(racing, { id: 2, plan: {}, indexes: [0] }, { ...everything, keys: how }, NOW);
    await expect(erased).rejects.toThrow("Bundle 2 is being changed by others");
    expect([await left(), (await bundles()).map(({ hex }) => hex)]).toEqual(before);
    expect([await counts(), batches]).toEqual([[], 5]);
  });
});

describe("a bundle", () => {
  test("that was removed has nothing to erase", async () => {
    expect(await eraseFrom(env.DB, { id: 9, plan: {}, indexes: [0] }, everything, NOW)).toBeUndefined();
  });

  test("that a later version has written is left to later code", async () => {
    await insertBundles(env.DB, [{ events: [{ data: "one" }] }]);
    await env.DB.prepare("UPDATE bundles SET header = json_set(header, '$.version', 5)").run();
    const erased = eraseFrom(env.DB, { id: 1, plan: {}, indexes: [0] }, content, NOW);
    await expect(erased).rejects.toThrow("version");
    expect((await bundles())[0]?.header.erased).toBeUndefined();
  });

  test("whose bytes are damaged loses them, and the events are erased", async () => {
    await insertBundles(env.DB, [{ events: [{ data: "one" }, { data: "two" }] }]);
    await env.DB.prepare("UPDATE bundles SET body = unhex('00')").run();
    await eraseFrom(env.DB, { id: 1, plan: {}, indexes: [0] }, content, NOW);
    expect(await bundles()).toMatchObject([{ hex: "", header: { erased: [0, 0] } }]);
  });

  test("keeps the request headers of the other events, and none of the erased ones", async () => {
    const events = ["first", "second"].map((data) => ({ data, headers: { "x-id": data } }));
    await insertBundles(env.DB, [{ events }]);
    await eraseFrom(env.DB, { id: 1, plan: {}, indexes: [0] }, content, NOW);
    const [found] = await bundles();
    const contents = found && (await readContents(found.hex, found.header));
    expect(contents?.map(({ headers }) => headers)).toEqual([undefined, { "x-id": "second" }]);
    expect(await dataOf(1)).toEqual(["", "second"]);
    await eraseFrom(env.DB, { id: 1, plan: {}, indexes: [1] }, content, NOW);
    expect((await bundles())[0]).toMatchObject({ hex: "", header: { erased: [0, 1] } });
    expect((await bundles())[0]?.header.headerBytes).toBeUndefined();
  });

  test("counts as a tenant's only that tenant's events", async () => {
    await insertBundles(env.DB, [{ events: [{}, { tenant: "rival" }, {}] }]);
    const header = (await bundles())[0]?.header as StoredHeader;
    expect([indexesOfTenant(header, "acme"), indexesOfTenant(header, "rival")]).toEqual([[0, 2], [1]]);
    expect(indexesOfTenant(header, "none")).toEqual([]);
  });
});

describe("the deliveries of an erased event", () => {
  const answered = { at: 1, latencyMs: 2, status: 500, excerpt: "secret" };
  const remarked = { at: 3, latencyMs: 2, note: "secret" };
  const archived = { at: 5, latencyMs: 2, status: 200, archived: true };
  const plain = { at: 7, latencyMs: 2, status: 500 };
  /** The entry without what receivers have answered, and remarks about it. */
  const redacted = (entry: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(
      Object.entries(entry).filter(([name]) => !["excerpt", "note", "archived"].includes(name)),
    );

  const row = (destination: string, state: string, more: object = {}, index = 0) =>
    insertRow("deliveries", {
      ...{ destination_id: destination, event_id: eventAt(1, index), state, give_up_at: 1 },
      ...more,
    });
  const retrying = { attempts: 1, reason: "http_500", next_attempt_at: 50 };
  const dead = { attempts: 2, reason: "exhausted", ended_at: 9 };

  /** A bundle of two events for each of these destinations. */
  async function bundle(names: readonly string[]): Promise<Plan> {
    const destinations = [...names];
    await insertBundles(env.DB, [
      {
        events: [
          { data: "one", destinations },
          { data: "two", destinations },
        ],
      },
    ]);
    return Object.fromEntries(names.map((name) => [name, [0, 1]]));
  }

  const packOf = (destination: string, masks: object) =>
    insertRow("packs", { destination_id: destination, bundle_id: 1, ends: "", ...masks });

  /** State and reason by destination, and what is stored of the log. */
  async function statesOf(index: number) {
    const rows = (await storedRows()).filter(({ eventId }) => eventId === eventAt(1, index));
    return Object.fromEntries(
      rows.map(({ destinationId, state, reason }) => [destinationId, [state, reason]]),
    );
  }
  const logOf = async (destination: string, index = 0) => {
    const [found] = await rowsOfAll<{ log: string }>(
      "SELECT log FROM deliveries WHERE destination_id = ?1 AND event_id = ?2",
      destination,
      eventAt(1, index),
    );
    return found && JSON.parse(found.log);
  };

  const names = [
    "answered",
    "remarked",
    "archived",
    "plain",
    "later",
    "edited",
    "listed",
    "emptied",
    "broken",
    "sending",
    "packed",
    "queued",
  ];

  async function someOfEach(): Promise<Plan> {
    // More destinations than are read at once.
    const plan = await bundle([
      ...names,
      ...Array.from({ length: 25 }, (_, i) => `x${String(i).padStart(2, "0")}`),
    ]);
    await row("answered", "retrying", { ...retrying, log: [answered] });
    await row("answered", "retrying", { ...retrying, log: [answered] }, 1);
    await row("remarked", "dead", { ...dead, log: [remarked] });
    await row("archived", "delivered", { attempts: 2, ended_at: 9, log: [archived] });
    await row("plain", "retrying", { ...retrying, log: [plain] });
    await row("later", "dead", { ...dead, log: [plain, answered] });
    await row("edited", "dead", { ...dead, log: { excerpt: "secret" } });
    await row("listed", "dead", { ...dead, log: ["secret", null, plain] });
    await row("emptied", "dead", { ...dead, log: "null" });
    await row("broken", "dead", { ...dead, log: "secret" });
    await row("sending", "retrying", { ...retrying, reason: "in_flight" });
    await packOf("packed", { waiting0: 0b11, reason: "paused", give_up_at: 99 });
    await packOf("x20", {
      in_flight0: 0b01,
      waiting0: 0b10,
      recover_at: 99,
      reason: "paused",
      give_up_at: 99,
    });
    await packOf("x21", { delivered0: 0b01, ended_at: 4 });
    await row("x22", "dead", { ...dead, log: [remarked] });
    return plan;
  }

  test("are cancelled if they have not ended and are not in flight, while those of others stay", async () => {
    await erasure("meant");
    await erasure("other");
    const plan = await someOfEach();
    const before = await statesOf(1);
    const more = { ...plan, unplanned: [1, 1] };
    await eraseFrom(env.DB, { id: 1, plan: more, indexes: [0] }, everything, NOW);
    const cancelled = ["cancelled", "erased"];
    expect(await statesOf(0)).toEqual({
      ...Object.fromEntries(Object.keys(plan).map((name) => [name, cancelled])),
      ...Object.fromEntries(
        ["remarked", "later", "edited", "listed", "emptied", "broken", "x22"].map((name) => [
          name,
          ["dead", "exhausted"],
        ]),
      ),
      ...{ archived: ["delivered", null], x21: ["delivered", null] },
      ...{ sending: ["retrying", "in_flight"], x20: ["retrying", "in_flight"] },
    });
    expect(await statesOf(1)).toEqual(before);
    const rows = await storedRows();
    const one = rows.find(
      ({ destinationId, eventId }) => destinationId === "queued" && eventId === eventAt(1, 0),
    );
    expect(one).toMatchObject({ attempts: 0, giveUpAt: NOW, endedAt: NOW, nextAttemptAt: null });
    const retried = rows.find(({ destinationId }) => destinationId === "plain");
    expect(retried).toMatchObject({ attempts: 1, giveUpAt: 1, endedAt: NOW, nextAttemptAt: null });
    expect(await counts()).toEqual([{ id: "meant", events: 1, deliveries: 37, cancelled: 26 }]);
  });

  test("lose receivers' answers, and nothing else of their logs", async () => {
    const plan = await someOfEach();
    const returned: ErasedDelivery[] = [];
    await eraseFrom(env.DB, { id: 1, plan, indexes: [0] }, content, NOW, {
      erased: async (deliveries) => void returned.push(...deliveries),
    });
    expect(await logOf("answered")).toEqual([redacted(answered)]);
    expect(await logOf("remarked")).toEqual([redacted(remarked)]);
    expect(await logOf("archived")).toEqual([redacted(archived)]);
    expect(await logOf("plain")).toEqual([plain]);
    expect(await logOf("later")).toEqual([plain, redacted(answered)]);
    expect(await logOf("listed")).toEqual([plain]);
    const edited = "SELECT log FROM deliveries WHERE destination_id IN ('edited', 'emptied', 'broken')";
    expect(await rowsOfAll(edited)).toEqual(Array(3).fill({ log: "[]" }));
    expect(await logOf("x22")).toEqual([redacted(remarked)]);
    expect(await logOf("answered", 1)).toEqual([answered]);
    const event = eventAt(1, 0);
    const logs = returned.map(({ destination, event, log }) => [destination, event, log.length]);
    expect(logs.toSorted()).toEqual(
      [
        ...["answered", "remarked", "archived", "plain", "listed", "x21", "x22"].map((name) => [
          name,
          event,
          1,
        ]),
        ["later", event, 2],
      ].toSorted(),
    );
    expect(returned.find(({ destination }) => destination === "answered")?.log).toEqual([answered]);
    expect((await statesOf(0)).answered).toEqual(["retrying", "http_500"]);
    expect((await statesOf(0)).packed).toEqual(["waiting", "paused"]);
  });

  test("are cancelled without a receipt too", async () => {
    const plan = await bundle(["a", "b"]);
    await eraseFrom(env.DB, { id: 1, plan, indexes: [1] }, { ...content, cancels: true }, NOW);
    expect([await statesOf(0), await statesOf(1)]).toEqual([
      {},
      { a: ["cancelled", "erased"], b: ["cancelled", "erased"] },
    ]);
  });

  test.each([true, false])("are counted as cancelled if they are, and if requested: %s", async (cancels) => {
    await erasure("meant");
    const plan = await bundle(["ended", "open"]);
    await packOf("ended", { delivered0: 0b11, ended_at: 4 });
    await packOf("open", { delivered0: 0b10, ended_at: 4 });
    const extent = { ...everything, cancels };
    await eraseFrom(env.DB, { id: 1, plan, indexes: [1] }, extent, NOW);
    expect(await counts()).toEqual([{ id: "meant", events: 1, deliveries: 2, cancelled: 0 }]);
    await eraseFrom(env.DB, { id: 1, plan, indexes: [0] }, extent, NOW);
    const cancelled = cancels ? 1 : 0;
    expect(await counts()).toEqual([{ id: "meant", events: 2, deliveries: 4, cancelled }]);
  });

  test("are counted as cancelled each once, however much there is in their logs", async () => {
    await erasure("meant");
    const names = Array.from({ length: 20 }, (_, i) => `x${i}`);
    const plan = await bundle(names);
    const long = { ...answered, excerpt: "x".repeat(40_000) };
    for (const name of names) await row(name, "retrying", { ...retrying, log: [long] });
    await eraseFrom(env.DB, { id: 1, plan, indexes: [0] }, everything, NOW);
    expect(await counts()).toEqual([{ id: "meant", events: 1, deliveries: 20, cancelled: 20 }]);
  });

  test.each([
    true,
    false,
  ])("cost four queries for twenty destinations without stored answers, and one written row, if they are cancelled: %s", async (cancels) => {
    const names = Array.from({ length: 20 }, (_, i) => `x${i}`);
    const plan = await bundle(names);
    await row("x0", "dead", { ...dead, log: [plain] });
    await row("x1", "cancelled", { ended_at: 1 });
    // The last one has no record, which is cancelled if all are.
    const recorded = cancels ? names.slice(2) : names.slice(2, -1);
    for (const name of recorded) await packOf(name, { delivered0: 0b11, ended_at: 4 });
    const { db, used } = meteredD1(env.DB);
    await eraseFrom(db, { id: 1, plan, indexes: [0] }, { cancels, tags: true, keys: "closed" }, NOW);
    expect(used()).toMatchObject({ queries: 4, rowsWritten: 1 });
  });
});
