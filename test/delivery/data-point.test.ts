/** The data point of each attempt for Analytics Engine, on which no delivery depends. */
import { beforeEach, expect, test } from "vitest";
import { deliveryId } from "../../src/ids.ts";
import { newDestination, newWorld, SECRET, storedRows, TENANT, urlOf, type World } from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

/** A dataset that accepts so many points from an invocation, and then throws as the platform does. */
function dataset(most = 250) {
  const points: AnalyticsEngineDataPoint[] = [];
  const writeDataPoint = (point: AnalyticsEngineDataPoint) => {
    if (points.length >= most) throw new Error("Analytics Engine write limit exceeded.");
    points.push(point);
  };
  Object.assign(world.services, { attempts: { writeDataPoint } });
  return points;
}

test("each attempt is one point, with the columns that are documented", async () => {
  const points = dataset();
  const destination = await newDestination();
  world.receiver.script(urlOf(destination), 503);
  const [message] = await world.post(1, { type: "invoice.paid" });
  world.clock.pass(1_200);
  await world.consume([message]);
  const id = deliveryId(message?.eventId ?? 0, destination);
  expect(points).toEqual([
    {
      indexes: [destination],
      blobs: [TENANT, "invoice.paid", "5xx", "retrying", "http_503", id],
      doubles: [1, 503, expect.any(Number), 1_200],
    },
  ]);

  world.clock.pass(120_000);
  world.receiver.script(urlOf(destination), 204);
  await world.consume([message]);
  expect(points[1]).toMatchObject({
    blobs: [TENANT, "invoice.paid", "2xx", "delivered", null, id],
    doubles: [2, 204, expect.any(Number), expect.any(Number)],
  });
});

test("the point of an attempt without a response has the status 0", async () => {
  const points = dataset();
  const destination = await newDestination();
  world.receiver.script(urlOf(destination), new TypeError("fetch failed"));
  await world.consume(await world.post());
  expect(points).toMatchObject([
    { blobs: [TENANT, "order.paid", "network", "retrying", "network", expect.any(String)] },
  ]);
  expect(points[0]?.doubles?.slice(0, 2)).toEqual([1, 0]);
});

test("a point holds nothing of the payload, of the URL, of headers or of secrets", async () => {
  const points = dataset();
  const destination = await newDestination({
    url: "https://hooks.example/in/t0k3n?key=s3cr3t",
    headers: { "x-api-key": "h3ad3r" },
  });
  await world.consume(await world.post(1, { data: { card: "p4yl04d" } }));
  const written = JSON.stringify(points);
  expect(written).toContain(destination);
  for (const hidden of ["hooks.example", "t0k3n", "s3cr3t", "h3ad3r", "p4yl04d", SECRET])
    expect(written).not.toContain(hidden);
});

test("attempts beyond the limit of data points are still made, recorded and acknowledged, and logged as uncounted", async () => {
  const points = dataset(2);
  Object.assign(world.services.config, { logAttempts: "all" });
  await newDestination();
  const results = await world.consume(await world.post(5));
  expect(points).toHaveLength(2);
  expect(results.every((fate) => fate === "acked")).toBe(true);
  expect((await storedRows()).map(({ state }) => state)).toEqual(Array(5).fill("delivered"));
  const uncounted = world.logged("attempt").map((line) => line.uncounted);
  expect(uncounted).toEqual([
    undefined,
    undefined,
    ...Array(3).fill("Error: Analytics Engine write limit exceeded."),
  ]);
  expect(world.logged("delivered")).toMatchObject([{ deliveries: 5, uncounted: 3 }]);
});
