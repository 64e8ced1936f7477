/** Cancelling deliveries that stand in lines: a dead one that holds its key, and those behind others. */
import { beforeEach, expect, test } from "vitest";
import { deliveryId, eventNumber } from "../../../src/ids.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { execute } from "../../support/world.ts";

beforeEach(emptyDatabase);

const { call } = testApi();

async function newDestination(settings: object): Promise<string> {
  return (await call("POST", "/v1/destinations", { url: "https://example.com/", ...settings })).json.id;
}

/** Posts so many events of a key in one request; their numbers. */
async function post(count: number, key: string, type = "a.b"): Promise<number[]> {
  const events = Array.from({ length: count }, (_, data) => ({ type, data, ordering_key: key }));
  const { json } = await call("POST", "/v1/events/batch", { events });
  return json.events.map(({ id }: { id: string }) => eventNumber(id) ?? 0);
}

const first = { attempts: 1, give_up_at: NOW + 7_200_000, log: [] };

async function end(destination: string, event: number, state: string): Promise<string> {
  const ended_at = state === "dead" ? NOW : null;
  const next_attempt_at = state === "retrying" ? NOW + 60_000 : null;
  const key = { destination_id: destination, event_id: event };
  await insertRow("deliveries", { ...key, ...first, state, ended_at, next_attempt_at });
  return deliveryId(event, destination);
}

const stateOf = async (id: string) => (await call("GET", `/v1/deliveries/${id}`)).json;

test("a dead delivery that holds its key can be cancelled, and the next one follows", async () => {
  const destination = await newDestination({ ordering: "key", on_dead: "hold" });
  const [one = 0, two = 0] = await post(2, "a");
  const held = await end(destination, one, "dead");
  const next = deliveryId(two, destination);
  expect(await stateOf(next)).toMatchObject({ state: "queued", reason: "order_held" });
  const cancelled = await call("POST", `/v1/deliveries/${held}/cancel`);
  expect(cancelled).toMatchObject({
    status: 200,
    json: { state: "cancelled", reason: "cancelled_by_request" },
  });
  expect(await stateOf(next)).toMatchObject({ state: "waiting", reason: "order" });
});

test("a dead delivery that holds no key is not cancelled, alone or among others", async () => {
  const destination = await newDestination({ ordering: "key", on_dead: "hold" });
  const [one = 0, two = 0] = [...(await post(1, "a")), ...(await post(1, "b"))];
  const [skipped, held] = [await end(destination, one, "dead"), await end(destination, two, "dead")];
  await call("POST", `/v1/deliveries/${skipped}/skip`);
  expect((await call("POST", `/v1/deliveries/${skipped}/cancel`)).status).toBe(409);
  const repair = { action: "cancel", destination_id: destination, state: "dead" };
  const all = await call("POST", "/v1/deliveries/repair", repair);
  expect(all).toMatchObject({ status: 200, json: { repaired: 1 } });
  expect(await stateOf(held)).toMatchObject({ state: "cancelled" });
  expect(await stateOf(skipped)).toMatchObject({ state: "dead" });
});

test("cancelling waiting deliveries includes those behind others of their keys, but not a head that is retried", async () => {
  const destination = await newDestination({ ordering: "key" });
  const [a = 0] = await post(3, "a");
  const [b = 0] = await post(2, "b");
  const [retried, waiting] = [await end(destination, a, "retrying"), await end(destination, b, "waiting")];
  const { json } = await call("POST", `/v1/destinations/${destination}/cancel-waiting`);
  expect(json).toEqual({ cancelled: 4, in_flight: 0, next_cursor: null });
  expect(await stateOf(retried)).toMatchObject({ state: "retrying" });
  expect(await stateOf(waiting)).toMatchObject({ state: "cancelled" });
  expect(await stateOf(deliveryId(a + 2, destination))).toMatchObject({ state: "cancelled" });
});

test("cancelling waiting deliveries continues from its cursor, with only the selected ones", async () => {
  const destination = await newDestination({ ordering: "destination" });
  for (let posted = 0; posted < 2_300; posted += 100) await post(100, "a", "wanted");
  const [other = 0] = await post(1, "a", "other");
  const path = `/v1/destinations/${destination}/cancel-waiting`;
  let [cancelled, calls] = [0, 0];
  for (let cursor: string | null | undefined; cursor !== null; calls++) {
    const { json } = await call("POST", path, { event_types: ["wanted"], ...(cursor && { cursor }) });
    cancelled += json.cancelled;
    cursor = json.next_cursor;
  }
  expect(cancelled).toBe(2_299);
  expect(calls).toBe(2);
  expect(await stateOf(deliveryId(other, destination))).toMatchObject({ state: "queued", reason: "order" });
  await execute("DELETE FROM bundles");
});
