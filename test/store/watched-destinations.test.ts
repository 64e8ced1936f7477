/** Which destinations are examined when there are too many: the active ones, or a sample. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import { drawnDestinations, watchedDestinations } from "../../src/store/watched-destinations.ts";
import { emptyDatabase, insertRow, plainDestination } from "../support/api.ts";
import { insertBundles, repeatedBundle } from "../support/bundle-rows.ts";

const databases = { db: env.DB };

beforeEach(emptyDatabase);

/** Destinations of `acme` with these names. */
async function destinations(names: string, columns?: Readonly<Record<string, unknown>>): Promise<void> {
  for (const name of names.split(" ")) await plainDestination(`dst_${name}`, columns);
}

const delivery = (name: string, bundle: number, state: string, more = {}) =>
  insertRow("deliveries", {
    destination_id: `dst_${name}`,
    event_id: eventAt(bundle, 0),
    state,
    give_up_at: 1,
    ...more,
  });

const retry = (name: string, bundle: number, at: number) =>
  delivery(name, bundle, "retrying", { reason: "http_500", next_attempt_at: at });

const pack = (name: string, bundle: number, masks: Readonly<Record<string, number>>) =>
  insertRow("packs", { destination_id: `dst_${name}`, bundle_id: bundle, ends: "", ...masks });

async function watched(tenant: string | undefined, limit: number) {
  const { destinations, total } = await watchedDestinations(databases, tenant, limit, () => 0.5);
  return [destinations.map(({ id }) => id.slice(4)).join(" "), total];
}

describe("among all destinations,", () => {
  test("all are looked at where they are no more than the limit, in order of their ids", async () => {
    await destinations("b c a");
    await destinations("gone", { deleted_at: 1 });
    await delivery("c", 1, "waiting");
    expect(await watched(undefined, 3)).toEqual(["a b c", 3]);
    expect(await watched(undefined, 2)).toEqual(["c", 3]);
  });

  test("those with waiting deliveries come first, then those with retries, then those with the newest events", async () => {
    await destinations("a b c d e f g h");
    await destinations("gone", { deleted_at: 1 });
    await delivery("c", 1, "waiting");
    await pack("e", 1, { waiting0: 1 });
    await pack("f", 1, { delivered0: 1, ended_at: 1 });
    await pack("gone", 1, { waiting0: 1 });
    await retry("g", 1, 5);
    await retry("c", 2, 6);
    await delivery("d", 1, "dead", { reason: "exhausted", ended_at: 1 });
    await insertBundles(env.DB, [{ events: [{ destinations: ["dst_b", "dst_c"] }] }]);
    expect(await watched(undefined, 7)).toEqual(["c e g b", 8]);
    expect(await watched(undefined, 3)).toEqual(["c e g", 8]);
  });

  test("those without deliveries in the thousand newest bundles count as quiet", async () => {
    await destinations("a b c");
    await insertBundles(env.DB, [{ events: [{ destinations: ["dst_a"] }] }]);
    const events = [{ destinations: ["dst_b"] }];
    const { sql, values } = repeatedBundle(events, { first: 2, count: 1_000, acceptedAt: 1 });
    await env.DB.prepare(sql)
      .bind(...values)
      .run();
    expect(await watched(undefined, 2)).toEqual(["b", 3]);
  });
});

describe("among a tenant's destinations,", () => {
  beforeEach(async () => {
    await destinations("a b c d e f");
    await destinations("gone", { deleted_at: 1 });
    await destinations("theirs", { tenant: "rival" });
  });

  test("those with waiting deliveries come first, then those with the newest deliveries", async () => {
    await delivery("b", 2, "waiting");
    await pack("e", 1, { waiting0: 1 });
    for (const bundle of [4, 9]) await pack("c", bundle, { delivered0: 1, ended_at: 1 });
    for (const bundle of [3, 8]) await delivery("f", bundle, "delivered", { ended_at: 1 });
    await delivery("d", 5, "delivered", { ended_at: 1 });
    await pack("d", 7, { delivered0: 1, ended_at: 1 });
    await delivery("theirs", 90, "waiting");
    await pack("theirs", 99, { waiting0: 1 });
    await delivery("gone", 90, "waiting");
    expect(await watched("acme", 5)).toEqual(["b e c f d", 6]);
    expect(await watched("acme", 1)).toEqual(["b", 6]);
  });

  test("all are looked at where they are no more than the limit, in order of their ids", async () => {
    await delivery("f", 1, "waiting");
    expect(await watched("acme", 6)).toEqual(["a b c d e f", 6]);
    expect(await watched("rival", 6)).toEqual(["theirs", 1]);
  });
});

describe("a sample", () => {
  /** Draws so many; random numbers come from the list, and then from its beginning again. */
  async function drawn(tenant: string | undefined, size: number, numbers: readonly number[]) {
    let i = 0;
    const random = () => numbers[i++ % numbers.length] ?? 0;
    const rows = await drawnDestinations(databases, tenant, size, random);
    return rows.map(({ id }) => id.slice(4)).join(" ");
  }

  test("of all has each drawn one once, the first and the last included, and no deleted one", async () => {
    await destinations("a b");
    await destinations("gone", { deleted_at: 1 });
    await destinations("theirs", { tenant: "rival" });
    const last = await env.DB.prepare("SELECT max(rowid) AS n FROM destinations").first<number>("n");
    const first = (last ?? 0) - 3;
    /** A number that draws the one in this place. */
    const at = (place: number) => (first + place - 1 + 0.5) / (last ?? 1);
    expect(await drawn(undefined, 2, [at(2), at(3), at(3), at(0)])).toBe("theirs a");
    expect(await drawn(undefined, 2, [at(2), at(2), at(2), at(2), at(2), at(2), at(2), at(1)])).toBe("b");
    expect(await drawn(undefined, 2, [at(1), at(3), at(0)])).toBe("b theirs");
    expect(await drawn(undefined, 9, [0.999999])).toBe("theirs");
  });

  test("of all has the very first one", async () => {
    await destinations("a b c");
    await env.DB.prepare("UPDATE destinations SET rowid = -1 WHERE id = 'dst_a'").run();
    await env.DB.prepare("UPDATE destinations SET rowid = 1 WHERE id = 'dst_c'").run();
    await env.DB.prepare("UPDATE destinations SET rowid = 2 WHERE id = 'dst_b'").run();
    expect(await drawn(undefined, 2, [0])).toBe("c");
    expect(await drawn(undefined, 2, [0.6, 0])).toBe("b c");
  });

  test("of none is empty", async () => {
    expect(await drawn(undefined, 3, [0.5])).toBe("");
    expect(await drawn("acme", 3, [0.5])).toBe("");
  });

  test("of a tenant has a random selection of its own, each once", async () => {
    await destinations("a b c d");
    await destinations("gone", { deleted_at: 1 });
    await destinations("theirs", { tenant: "rival" });
    expect(await drawn("acme", 2, [0])).toBe("a b");
    expect(await drawn("acme", 2, [0.99])).toBe("d c");
    expect(await drawn("acme", 3, [0.5, 0.99, 0])).toBe("c d a");
    expect((await drawn("acme", 9, [0.3])).split(" ").toSorted()).toEqual(["a", "b", "c", "d"]);
  });
});
