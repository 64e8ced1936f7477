/** A bundle whose bodies are damaged loses its own deliveries, and no others. */
import { beforeEach, describe, expect, test } from "vitest";
import { accept } from "../support/accept.ts";
import { rowsOfAll } from "../support/databases.ts";
import {
  execute,
  newDestination,
  newWorld,
  storedRows,
  TENANT,
  urlOf,
  type World,
} from "../support/world.ts";

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

/** Two bundles, of three events and of two. */
async function twoBundles(text = "x".repeat(500)) {
  const event = { tenant: TENANT, type: "a", data: { text } };
  await accept(world.services, [event, event, event]);
  await accept(world.services, [event, event]);
  await world.settled();
  return world.deliveryQueue.taken().map(({ body }) => body);
}

/** SQL: the destination. */
const DESTINATION = "(SELECT id FROM destinations)";

const outcomes = async () =>
  (await storedRows()).map(({ state, reason, attempts }) => [state, reason, attempts]);

const dead = ["dead", "corrupt", 0];
const delivered = ["delivered", null, 1];

describe("deliveries of a damaged bundle", () => {
  test.each([
    ["cut off", "UPDATE bundles SET body = unhex(substr(hex(body), 1, 40)) WHERE id = 1"],
    ["emptied", "UPDATE bundles SET body = x'' WHERE id = 1"],
    ["overwritten", "UPDATE bundles SET body = zeroblob(length(body)) WHERE id = 1"],
    ["replaced by a text", "UPDATE bundles SET body = 'no bytes at all' WHERE id = 1"],
  ])("end dead with that reason, and the others of the batch are delivered (%s)", async (_how, damage) => {
    const messages = await twoBundles();
    await execute(damage);
    expect(await world.consume(messages)).toEqual(["acked", "acked"]);
    expect(await outcomes()).toEqual([dead, dead, dead, delivered, delivered]);
    expect(world.receiver.to(urlOf(destination))).toHaveLength(2);
  });

  test("end dead too when the bodies were too short to be compressed", async () => {
    const event = { tenant: TENANT, type: "a", data: 1 };
    await accept(world.services, [event]);
    await accept(world.services, [event]);
    await world.settled();
    const messages = world.deliveryQueue.taken().map(({ body }) => body);
    await execute(
      "UPDATE bundles SET body = CAST(replace(CAST(body AS TEXT), '1', '2') AS BLOB) WHERE id = 1",
    );
    expect(await world.consume(messages)).toEqual(["acked", "acked"]);
    expect(await outcomes()).toEqual([dead, delivered]);
  });

  test("are retried when the header has an unknown version: another isolate may know it", async () => {
    const messages = await twoBundles();
    await execute("UPDATE bundles SET header = json_set(header, '$.version', 5) WHERE id = 1");
    const results = await world.consume(messages);
    expect(results).toEqual([{ retryIn: expect.any(Number) }, "acked"]);
    expect(await outcomes()).toEqual([delivered, delivered]);
  });

  test.each([
    ["header is no JSON", "header = 'oops'"],
    ["header has no lists", "header = '{}'"],
    ["header has a text as versions", "header = json_set(header, '$.versions', 'oops')"],
    [
      "header has a text as lines",
      `header = json_set(header, '$.lines', json_object(${DESTINATION}, 'oops'))`,
    ],
    [
      "header has texts as lines",
      `header = json_set(header, '$.lines', json_object(${DESTINATION}, json('["oops"]')))`,
    ],
    ["plan is no JSON", "plan = 'oops'"],
    ["plan has no runs", `plan = '{"dst_1": "oops"}'`],
  ])("come again when the %s, and those of other bundles are delivered", async (_, change) => {
    const messages = await twoBundles();
    const [{ plan, header } = { plan: "", header: "" }] = await rowsOfAll<Record<"plan" | "header", string>>(
      "SELECT plan, header FROM bundles WHERE id = 1",
    );
    await execute(`UPDATE bundles SET ${change} WHERE id = 1`);
    expect(await world.consume(messages)).toEqual([{ retryIn: expect.any(Number) }, "acked"]);
    expect(await outcomes()).toEqual([delivered, delivered]);
    await execute("UPDATE bundles SET plan = ?1, header = ?2 WHERE id = 1", plan, header);
    expect(await world.consume(messages.slice(0, 1))).toEqual(["acked"]);
    expect(await outcomes()).toEqual(Array(5).fill(delivered));
  });

  test("keep no drain from the others when the header is no JSON", async () => {
    await twoBundles();
    await execute(
      "INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at) SELECT ?1, id * 128, 'waiting', 'hold', 9e15 FROM bundles",
      destination,
    );
    await execute("UPDATE bundles SET header = 'oops' WHERE id = 1");
    expect(await world.answer([{ destination, drains: 1 }])).toEqual(["left"]);
    expect(await outcomes()).toEqual([["waiting", "hold", 0], delivered]);
  });

  test("do not end dead because of one bad answer of the database: an unreadable body is read once more", async () => {
    const messages = await twoBundles();
    const { db } = world.services;
    let isBad = true;
    const spoiling = {
      prepare: db.prepare.bind(db),
      batch: async (statements: D1PreparedStatement[]) => {
        const results = await db.batch<Record<string, unknown>>(statements);
        for (const { results: rows } of isBad ? results : [])
          for (const row of rows) if (typeof row.body === "string") row.body = "00";
        isBad = false;
        return results;
      },
    } as unknown as D1Database;
    Object.assign(world.services, { db: spoiling });
    await world.consume(messages);
    expect(await outcomes()).toEqual(Array(5).fill(delivered));
  });
});
