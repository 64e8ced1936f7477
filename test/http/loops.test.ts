/** Attempts of the deployment that come back to it as events, whatever name of it they were sent to. */
import { beforeEach, describe, expect, test } from "vitest";
import { createSvixApi } from "../../src/http/svix/app.ts";
import { countRows, emptyDatabase, testApi } from "../support/api.ts";
import { testConfig } from "../support/config.ts";
import { keysOf } from "../support/vault.ts";
import { newDestination, newWorld } from "../support/world.ts";

const MARKER = "webhook-deployment";
const EVENT = { type: "order.paid", data: {} };
const KEYS = ["k1", "k2"].map((id, i) => `${id}:${Buffer.alloc(32, i + 7).toString("base64")}`);

beforeEach(async () => {
  await emptyDatabase();
});

/** The marker that an attempt of a deployment with this configuration carries. */
async function markerSent(config = testConfig()): Promise<string> {
  const world = await newWorld();
  Object.assign(world.services, { config });
  await newDestination();
  await world.consume(await world.post());
  const marker = world.receiver.calls[0]?.headers.get(MARKER) ?? "";
  await emptyDatabase();
  return marker;
}

describe("an event that is posted with the marker of the deployment's own attempts", () => {
  test.each([
    ["alone", "/v1/events", EVENT],
    ["in a batch", "/v1/events/batch", { events: [EVENT] }],
    ["as content", "/v1/events?type=order.paid", "a,b"],
  ])("is refused %s, is not stored, and the refusal names the header", async (_, path, body) => {
    const { call, log } = testApi();
    const headers = {
      [MARKER]: await markerSent(),
      "content-type": path.includes("?") ? "text/csv" : "application/json",
    };
    const { status, json } = await call("POST", path, body, headers);
    expect([status, json.detail]).toEqual([403, expect.stringContaining(MARKER)]);
    expect(log).toContainEqual(expect.objectContaining({ what: "loop_refused" }));
    expect(await countRows("events")).toBe(0);
  });

  test("is refused as a message of the Svix API", async () => {
    const { call } = testApi({ create: createSvixApi });
    await call("POST", "/api/v1/app", { name: "Acme", uid: "acme" });
    const message = { eventType: "order.paid", payload: {} };
    const headers = { [MARKER]: await markerSent() };
    await call("POST", "/api/v1/app", { name: "Acme", uid: "acme" });
    expect((await call("POST", "/api/v1/app/acme/msg", message, headers)).status).toBe(403);
    expect((await call("POST", "/api/v1/app/acme/msg", message)).status).toBe(202);
  });

  test("is refused beside other values of the header, and with a master key that has been replaced", async () => {
    const config = testConfig({ masterKeys: keysOf(KEYS.join()) });
    const former = await markerSent(testConfig({ masterKeys: keysOf(KEYS[1] ?? "") }));
    const { call } = testApi({ services: { config } });
    const headers = { [MARKER]: `something, ${former}` };
    expect((await call("POST", "/v1/events", EVENT, headers)).status).toBe(403);
  });

  test("is accepted with another deployment's marker, or with an invented one", async () => {
    const other = await markerSent(testConfig({ masterKeys: keysOf(KEYS.join()) }));
    const { call } = testApi();
    expect(other).not.toBe(await markerSent());
    for (const marker of [other, "v1", ""])
      expect((await call("POST", "/v1/events", EVENT, { [MARKER]: marker })).status).toBe(202);
  });
});
