/** Workers whose clocks differ. */
import { expect, test } from "vitest";
import { virtualWorld } from "../support/virtual-world.ts";

const MINUTE_MS = 60_000;

test.each([
  ["behind", -10_000],
  ["ahead", 10_000],
])("a destination gets no request for as long as it asked a worker whose clock is %s", async (_, skewMs) => {
  let isSkewed = true;
  const world = virtualWorld({
    isolates: { count: 1 },
    travel: { twice: 0, late: 0 },
    wrap: (services) => (isSkewed ? { ...services, now: () => services.now() + skewMs } : services),
  });
  const shop = world.destination({ maxConcurrency: 4 });
  world.script(shop, { status: 429, headers: { "retry-after": "30" } }, 204);
  void world.post();
  await world.run(2_000);
  isSkewed = false;
  void world.post(10);
  expect(await world.runUntil(() => world.open() === 0, 5 * MINUTE_MS)).toBe(true);
  const [first, second] = world.requestsTo(shop);
  const quietMs = (second?.at ?? 0) - (first?.endedAt ?? 0);
  expect(quietMs).toBeGreaterThanOrEqual(30_000);
  expect(quietMs).toBeLessThan(36_000);
  expect(world.broken()).toEqual([]);
});
