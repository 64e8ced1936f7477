/** A lease in use: never wider than it was granted, and in step with what other leases learn of the receiver. */
import { beforeEach, expect, test } from "vitest";
import { partsOf } from "../../src/core/bundle.ts";
import { newDestinationState } from "../../src/core/destination-state.ts";
import { type Leased, startLease } from "../../src/delivery/admission.ts";
import { noCredentials } from "../../src/delivery/authorization.ts";
import { connections } from "../../src/delivery/connections.ts";

import { loadDeliveries } from "../../src/store/deliveries.ts";
import { silence } from "../support/receivers.ts";
import {
  calm,
  gateOf,
  newDestination,
  newWorld,
  START,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

const QUIET_MS = 60_000;
const quiet = () => new Response(null, { status: 429, headers: { "retry-after": String(QUIET_MS / 1000) } });

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

/** A lease for so many deliveries, over so many connections of its own, beginning with one. */
async function leaseFor(count: number, slots: number, shared = connections(1)): Promise<Leased["run"]> {
  const messages = await world.post(count);
  const { deliveries } = await loadDeliveries(world.services, partsOf(messages));
  const [first] = deliveries;
  if (!first) throw new Error("Something was posted");
  const due = { destination: first.destination, patienceFor: () => 1_000 };
  return startLease(world.services, shared, due, {
    grant: {
      id: "a lease",
      slots,
      width: 1,
      deliveries: messages.map(({ eventId }) => eventId),
      startWithinMs: 5_000,
      expiresInMs: 30_000,
      pace: { firstInMs: 0, everyMs: 0, slackMs: 500 },
      destinationState: newDestinationState(START),
    },
    deliveries,
    sender: {
      signer: async () => ({}),
      credentials: noCredentials,
      post: ({ body, headers, signal }) =>
        world.services.fetch(urlOf(destination), { method: "POST", headers, body, signal }),
    },
    grantedAt: START,
  });
}

test("a lease begins with its width, and successes widen it up to its slots and no further", async () => {
  const open: number[] = [];
  const allowed: number[] = [];
  let ended = 0;
  const afterAMoment = async () => {
    open.push(world.receiver.open());
    allowed.push(1 + ended);
    await calm();
    ended += 1;
    return new Response(null, { status: 204 });
  };
  world.receiver.script(urlOf(destination), afterAMoment);
  await (await leaseFor(20, 3)).finished;
  expect(open).toHaveLength(20);
  expect(open[0]).toBe(1);
  for (const [i, now] of open.entries()) expect(now).toBeLessThanOrEqual(allowed[i] ?? 0);
  expect(world.receiver.mostOpen()).toBe(3);
});

test("a delivery that gets its connection after the time for starting is not sent", async () => {
  const shared = connections(2);
  const others = Array.from({ length: 6 }, () => Promise.withResolvers<void>());
  for (const [i, { promise }] of others.entries()) void shared.run(`other ${i}`, () => promise);
  const lease = await leaseFor(1, 1, shared);
  world.clock.pass(5_000);
  for (const { resolve } of others) resolve();
  await lease.finished;
  expect(world.receiver.calls).toEqual([]);
  expect(lease.queue).toHaveLength(1);
  expect(lease.leftoverReason()).toEqual({ reason: "slow", until: START + 5_000 });
});

test("a Retry-After is reported to the gate at once, while other attempts are still running", async () => {
  await world.earnTrust(destination);
  const { script, end } = silence();
  world.receiver.script(urlOf(destination), quiet, script);
  const delivered = world.consume(await world.post(2));
  await world.receiver.called(14);
  await calm();
  await world.settled();
  expect(await gateOf(destination).destinationState()).toMatchObject({ heldUntil: START + QUIET_MS });
  end(204);
  await delivered;
});

test("a Retry-After that another lease has received ends this one within a second", async () => {
  const narrow = await newDestination({ maxConcurrency: 1 });
  const until = START + QUIET_MS;
  const slowly = async () => {
    world.clock.pass(600);
    await gateOf(narrow).hold(until);
    return new Response(null, { status: 204 });
  };
  world.receiver.script(urlOf(narrow), slowly);
  const messages = await world.post(5);
  await world.consume(messages.filter((message) => message.destinationId === narrow));
  expect(world.receiver.calls).toHaveLength(2);
  const waiting = { state: "waiting", reason: "hold", attempts: 0, nextAttemptAt: until };
  expect((await storedRows()).slice(2)).toMatchObject([waiting, waiting, waiting]);
});
