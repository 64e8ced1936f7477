/** Every URL of the corpus in a row that was edited by hand: the guard checks each send, not only each write. */
import { describe, expect, test } from "vitest";
import { refused } from "../support/targets.ts";
import { newDestination, newWorld, storedRows } from "../support/world.ts";

describe.each(Object.entries(refused))("%s", (_what, urls) => {
  test("is never sent to, however the URL came into the row", async () => {
    const world = await newWorld();
    await Promise.all(urls.map((url) => newDestination({ url })));
    const messages = await world.post();
    expect(await world.consume(messages)).toEqual(urls.map(() => "acked"));
    expect(world.receiver.calls).toEqual([]);
    const ends = (await storedRows()).map(({ state, reason, attempts }) => ({ state, reason, attempts }));
    expect(ends).toEqual(urls.map(() => ({ state: "dead", reason: "forbidden_target", attempts: 0 })));
  });
});
