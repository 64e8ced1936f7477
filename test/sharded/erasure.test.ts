/** Erasures over three databases: all of a tenant's events, wherever they are, and one receipt. */
import { beforeEach, expect, test } from "vitest";
import { databaseNumberOf } from "../../src/core/placement.ts";
import { eraseEvent, erasing, startErasure } from "../../src/features/erasures/job.ts";
import { findErasure, listErasures } from "../../src/features/erasures/sql.ts";
import { accept } from "../support/accept.ts";
import { testDatabases } from "../support/databases.ts";
import { storedBodies } from "../support/stored-bodies.ts";
import { newDestination, newWorld, storedRows, TENANT, type World } from "../support/world.ts";

const MINUTE = 60_000;
const EVENTS = 12;

let world: World;
let events: number[];
beforeEach(async () => {
  world = await newWorld();
  await newDestination();
  events = [];
  for (let i = 0; i < EVENTS; i++) {
    const posted = [TENANT, "rival"].map((tenant) => ({ tenant, type: "a", data: `${tenant} ${i}` }));
    const result = await accept(world.services, posted);
    if ("events" in result) events.push(result.events[0]?.id ?? 0);
    world.clock.pass(MINUTE);
  }
  await world.settled();
});

async function complete(id = ""): Promise<void> {
  for (let step = 0; step < 30; step++) {
    await erasing.step(world.services, id);
    world.clock.pass(MINUTE);
  }
}

test("everything of a tenant is erased in all databases, and the receipt has the sum", async () => {
  expect(new Set(events.map(databaseNumberOf)).size).toBe(testDatabases.length);
  const begun = await startErasure(world.services, TENANT, { kind: "tenant" });
  let fault: "before" | "after" | undefined = "after";
  world.d1.failing((sql) => {
    if (!sql.includes("UPDATE bundles")) return undefined;
    fault = fault === "after" ? undefined : "after";
    return fault;
  });
  for (let step = 0; step < 40; step++) await erasing.step(world.services, begun?.id ?? "").catch(() => {});
  world.d1.failing(() => undefined);
  await complete(begun?.id);
  const left = await storedBodies();
  expect(left.filter((body) => body !== "")).toHaveLength(EVENTS);
  expect(left.join()).not.toContain(`${TENANT} `);
  const receipt = await findErasure(world.services, begun?.id ?? "", TENANT);
  expect(receipt).toMatchObject({
    state: "completed",
    events: EVENTS,
    deliveries: EVENTS,
    cancelled: EVENTS,
  });
  expect(
    (await listErasures(world.services, { tenant: TENANT, before: undefined, limit: 5 })).erasures,
  ).toEqual([receipt]);
  expect(await findErasure(world.services, begun?.id ?? "", "rival")).toBeUndefined();
  expect((await storedRows()).every(({ reason }) => reason === "erased")).toBe(true);
});

test("a single event is erased in whichever database it is", async () => {
  for (const event of events) await complete((await eraseEvent(world.services, TENANT, event))?.id);
  expect((await storedBodies()).filter((body) => body !== "")).toHaveLength(EVENTS);
});
