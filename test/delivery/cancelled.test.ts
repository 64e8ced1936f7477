/** A cancelled delivery is not sent when its message or a drain comes; one in flight ends as its sender says. */
import { beforeEach, expect, test } from "vitest";
import { deliveryId } from "../../src/ids.ts";
import { KEY, testApi } from "../support/api.ts";
import { gateOf, newDestination, newWorld, storedRows, TENANT, urlOf, type World } from "../support/world.ts";

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

async function cancel(event: number) {
  const services = { ...world.services, config: { ...world.services.config, adminKey: KEY } };
  const authenticate = async () => ({ scopes: ["admin"] as const, tenant: TENANT });
  const api = testApi({ services, authenticate });
  return api.call("POST", `/v1/deliveries/${deliveryId(event, destination)}/cancel`);
}

test("a queued delivery that is cancelled is not sent when its message comes", async () => {
  const messages = await world.post(2);
  const [first, second] = messages.map(({ eventId }) => eventId);
  expect((await cancel(first ?? 0)).status).toBe(200);
  await world.consume(messages);
  expect(world.receiver.calls).toHaveLength(1);
  const rows = await storedRows();
  expect(rows.find(({ eventId }) => eventId === first)).toMatchObject({ state: "cancelled" });
  expect(rows.find(({ eventId }) => eventId === second)).toMatchObject({ state: "delivered" });
});

test("a delivery in flight is refused, and ends as its attempt does", async () => {
  const messages = await world.post(1);
  const answers: number[] = [];
  world.receiver.script(urlOf(destination), async () => {
    answers.push((await cancel(messages[0]?.eventId ?? 0)).status);
    return new Response(null, { status: 204 });
  });
  await world.consume(messages);
  await world.settled();
  expect(answers).toEqual([409]);
  expect(await storedRows()).toMatchObject([{ state: "delivered" }]);
});

test("a drain sends the remaining deliveries when some of the waiting ones are cancelled", async () => {
  await gateOf(destination).hold(world.clock.now() + 3_600_000);
  const messages = await world.post(6);
  await world.consume(messages);
  expect((await storedRows()).map(({ state }) => state)).toEqual(Array(6).fill("waiting"));
  for (const { eventId: event } of messages.slice(0, 3)) expect((await cancel(event)).status).toBe(200);
  await gateOf(destination).clearHold();
  for (let i = 0; i < 5; i++) {
    await world.drain(destination);
    await world.settled();
    world.clock.pass(1_000);
  }
  expect((await storedRows()).map(({ state }) => state).sort()).toEqual([
    ...Array(3).fill("cancelled"),
    ...Array(3).fill("delivered"),
  ]);
  expect(world.receiver.calls).toHaveLength(3);
});
