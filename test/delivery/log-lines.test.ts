/** Every change of a destination, a replay or a delivery writes one log line, with ids, without bodies and secrets. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { consumeDeadLetters } from "../../src/delivery/dead-letters.ts";
import { replaying } from "../../src/features/replays/job.ts";
import { eventId } from "../../src/ids.ts";
import { beginReplay } from "../../src/store/replay-steps.ts";
import { batchOf } from "../support/queues.ts";
import {
  execute,
  messageFor,
  newDestination,
  newWorld,
  SECRET,
  START,
  storedRows,
  TENANT,
  urlOf,
  type World,
} from "../support/world.ts";

let world: World;
let place: string;
beforeEach(async () => {
  world = await newWorld();
  place = await newDestination();
});

const BODY = { card: "4111-1111" };

async function send(count: number, ...answers: Parameters<World["receiver"]["script"]>[1][]): Promise<void> {
  world.receiver.script(urlOf(place), ...answers);
  await world.consume(await world.post(count, { data: BODY }));
  await world.settled();
}

const CIRCUIT = /^(circuit_|held$|hold_)/;
const circuitLines = () => world.log.filter(({ what }) => CIRCUIT.test(what)).map(({ what }) => what);

describe("a circuit", () => {
  test("that opens, half-opens and closes writes a line each time", async () => {
    await send(10, 500);
    const [opened] = world.logged("circuit_opened");
    expect(opened).toMatchObject({ destination: place, openings: 1, until: expect.any(Number) });
    world.clock.pass(60_000);
    await send(1, 204);
    await send(1, 204);
    expect(circuitLines()).toEqual(["circuit_opened", "circuit_half_open", "circuit_closed"]);
  });

  test("whose probe fails opens again, and logs how often", async () => {
    await send(10, 500);
    world.clock.pass(60_000);
    await send(1, 500);
    expect(world.logged("circuit_opened").map(({ openings }) => openings)).toEqual([1, 2]);
  });
});

describe("a hold", () => {
  const quiet = (seconds: number) => () =>
    new Response(null, { status: 429, headers: { "retry-after": String(seconds) } });

  test("writes a line when it begins and one when it ends, however many attempts receive it", async () => {
    await world.earnTrust(place);
    await send(10, quiet(60), quiet(61), quiet(62));
    expect(world.logged("held")).toMatchObject([{ destination: place, until: expect.any(Number) }]);
    world.clock.pass(30_000);
    await send(1, 204);
    expect(circuitLines()).toEqual(["held"]);
    world.clock.pass(90_000);
    await send(1, 204);
    world.clock.pass(90_000);
    await send(1, 204);
    expect(circuitLines()).toEqual(["held", "hold_ended"]);
  });

  test("after another writes its own lines", async () => {
    await send(1, quiet(60));
    world.clock.pass(90_000);
    await send(1, quiet(60));
    expect(circuitLines()).toEqual(["held", "hold_ended", "held"]);
  });
});

describe("a delivery that ends dead without an attempt's outcome", () => {
  test("writes a line with the delivery's ids and its reason", async () => {
    world.receiver.script(urlOf(place), 500);
    const messages = await world.post(2);
    await world.consume(messages);
    await consumeDeadLetters(world.services, batchOf("breakwater-dead", messages.map(messageFor), 100).batch);
    const lines = messages.map(({ eventId: event }) => ({
      event: eventId(event),
      destination: place,
      reason: "poison",
    }));
    expect(world.logged("delivery_dead")).toMatchObject(lines);
  });

  test("writes no line for a delivery that had ended before", async () => {
    const messages = await world.post();
    await world.consume(messages);
    await consumeDeadLetters(world.services, batchOf("breakwater-dead", messages.map(messageFor), 100).batch);
    expect(world.logged("delivery_dead")).toEqual([]);
  });
});

describe("attempts that succeed", () => {
  test("write no line", async () => {
    await send(3);
    expect(world.logged("attempt")).toEqual([]);
    expect(world.logged("lease")).toEqual([]);
    expect(world.logged("delivered")).toEqual([]);
  });

  test("write no line in a drain either", async () => {
    await send(1, 500);
    world.log.splice(0);
    await execute("UPDATE deliveries SET state = 'waiting', reason = 'capacity', next_attempt_at = NULL");
    world.receiver.script(urlOf(place), 204);
    await world.answer([{ destination: place, drains: 1 }]);
    await world.settled();
    expect((await storedRows()).map(({ state }) => state)).toEqual(["delivered"]);
    expect(world.log.filter(({ what }) => ["attempt", "lease", "delivered"].includes(what))).toEqual([]);
  });

  test("write a line each if all attempts are to be logged", async () => {
    Object.assign(world.services.config, { logAttempts: "all" });
    await send(2);
    expect(world.logged("attempt")).toMatchObject([{ state: "delivered" }, { state: "delivered" }]);
    expect(world.logged("delivered")).toEqual([]);
  });
});

describe("a lease with a failure", () => {
  test("writes a line with its counts, in addition to one for each failed attempt", async () => {
    await send(3, 204, 500, 204);
    expect(world.logged("attempt")).toMatchObject([{ status: 500, state: "retrying" }]);
    expect(world.logged("lease")).toMatchObject([
      { destination: place, granted: 3, delivered: 2, failed: 1, running: 0, left: 0 },
    ]);
    expect(world.logged("delivered")).toMatchObject([{ deliveries: 2, failed: 1 }]);
  });

  test("logs how many deliveries it has left over, and why", async () => {
    await send(10, 500);
    const [lease] = world.logged("lease");
    expect(lease).toMatchObject({ delivered: 0, reason: "circuit_open" });
    expect(Number(lease?.left)).toBeGreaterThan(0);
    expect(world.logged("delivered")).toEqual([]);
  });
});

test("a delivery that ends dead by an attempt writes that attempt's line and no other", async () => {
  await send(1, 400);
  expect(world.logged("attempt")).toMatchObject([{ destination: place, state: "dead", reason: "permanent" }]);
  expect(world.logged("delivery_dead")).toEqual([]);
});

describe("a replay", () => {
  const ID = "rpl_0123456789abcdefghjk";

  async function begin(): Promise<void> {
    const times = { since: 0, until: START + 1, createdAt: START, updatedAt: START, nextStepAt: START };
    const job = { id: ID, tenant: TENANT, destinationId: place, include: "dead", state: "running" } as const;
    const all = { first: 1, last: Number.MAX_SAFE_INTEGER };
    await beginReplay(env.DB, { ...job, ...times, ratePerMinute: 100, pace: 100 }, all, 100, {
      ms: START,
      types: {},
    });
  }

  test("that completes writes a line", async () => {
    await send(2, 400);
    await begin();
    await replaying.step(world.services, ID);
    await replaying.step(world.services, ID);
    expect(world.logged("replay_completed")).toEqual([
      { what: "replay_completed", replay: ID, destination: place },
    ]);
  });

  test("whose destination is deleted writes a line, once", async () => {
    await send(2, 400);
    await begin();
    await execute("UPDATE destinations SET deleted_at = 1");
    await replaying.step(world.services, ID);
    await replaying.step(world.services, ID);
    expect(world.logged("replay_cancelled")).toMatchObject([
      { replay: ID, destination: place, reason: "destination_deleted" },
    ]);
  });
});

test("no log line has a body, a secret, or more of a receiver than its id", async () => {
  await newDestination({ tenant: "operator" });
  await send(10, 500, 410);
  world.clock.pass(60_000);
  await send(2, 204);
  const lines = JSON.stringify(world.log);
  for (const secret of ["4111", SECRET, SECRET.slice(6), "/hook"]) expect(lines).not.toContain(secret);
});
