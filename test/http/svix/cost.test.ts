/** The cost of a message through the Svix API compared with an event of the native one, by the figures that D1 reports. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { meteredD1 } from "../../support/meter.ts";

beforeEach(emptyDatabase);

test("a message costs the lookup of its application, and otherwise what an event costs", async () => {
  const meter = meteredD1(env.DB);
  const services = { db: meter.db };
  const [native, svix] = [testApi({ services }), testApi({ services, create: createSvixApi })];
  const app = (await svix.call("POST", "/api/v1/app", { name: "Acme", uid: "acme" })).json.id;
  await svix.call("POST", "/api/v1/app/acme/endpoint", { url: "https://example.com/in" });
  const event = (key?: string) =>
    native.call(
      "POST",
      "/v1/events",
      { type: "order.paid", data: { total: 1 }, tenant: app },
      key ? { "idempotency-key": key } : {},
    );
  const message = (more = {}) =>
    svix.call("POST", "/api/v1/app/acme/msg", { eventType: "order.paid", payload: { total: 1 }, ...more });
  // Routing reads the tenant's destinations once.
  await event();
  await message();
  const costOf = async (post: () => Promise<{ status: number }>) => {
    meter.used();
    expect((await post()).status).toBe(202);
    const { roundTrips, rowsRead, rowsWritten } = meter.used();
    return { roundTrips, rowsRead, rowsWritten };
  };
  const costs = {
    event: await costOf(() => event()),
    "event with an idempotency key": await costOf(() => event("one")),
    message: await costOf(() => message()),
    "message with an eventId": await costOf(() => message({ eventId: "order-1" })),
  };
  console.log(`cost of a message beside an event: ${JSON.stringify(costs)}`);
  const { event: plain, message: theirs } = costs;
  expect(theirs.rowsWritten).toBe(plain.rowsWritten);
  expect(theirs.rowsRead).toBeLessThanOrEqual(plain.rowsRead + 4);
  expect(theirs.roundTrips).toBe(plain.roundTrips + 1);
  expect(costs["message with an eventId"].rowsWritten).toBe(
    costs["event with an idempotency key"].rowsWritten,
  );
});
