/** Every URL of the corpus in a row that was edited by hand: the guard checks each send, not only each write. */
import { describe, expect, test } from "vitest";
import { refused } from "../support/targets.ts";
import { newDestination, newWorld, storedRows } from "../support/world.ts";

describe.each(Object.entries(refused))("%s", (_what, urls) => {
  test("never gets a request, however the URL came into the row", async () => {
    const world = await newWorld();
    await Promise.all(urls.map((url) => newDestination({ url })));
    const messages = await world.post();
    expect(await world.consume(messages)).toEqual(urls.map(() => "acked"));
    expect(world.receiver.calls).toEqual([]);
    const ends = (await storedRows()).map(({ state, reason, attempts }) => ({ state, reason, attempts }));
    expect(ends).toEqual(urls.map(() => ({ state: "dead", reason: "forbidden_target", attempts: 0 })));
  });
});

test("the deployment itself never gets a request, under any of its own hosts", async () => {
  const world = await newWorld();
  Object.assign(world.services.config, { ownHosts: ["hooks.example.com", "breakwater.example.com"] });
  const urls = ["https://breakwater.example.com/v1/events", "https://hooks.example.com:8443/"];
  await Promise.all([...urls, "https://example.com/"].map((url) => newDestination({ url })));
  await world.consume(await world.post());
  expect(world.receiver.calls.map(({ url }) => url)).toEqual(["https://example.com/"]);
  const dead = (await storedRows()).filter(({ state }) => state === "dead");
  expect(dead.map(({ reason }) => reason)).toEqual(["forbidden_target", "forbidden_target"]);
});
