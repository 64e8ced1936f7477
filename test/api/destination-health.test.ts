import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { emptyDatabase, NOW, testApi } from "../support/api.ts";

beforeEach(emptyDatabase);

async function destination(call: ReturnType<typeof testApi>["call"]): Promise<string> {
  const { json } = await call("POST", "/v1/destinations", { url: "https://example.com/hook" });
  return json.id;
}

const wait = (id: string, event: number, because: string) =>
  env.DB.prepare(
    "INSERT INTO deliveries (destination_id, event_id, state, because, give_up_at) VALUES (?, ?, 'waiting', ?, ?)",
  )
    .bind(id, event, because, NOW + 1)
    .run();

describe("GET /v1/destinations/:id/health", () => {
  it("shows the gate as it stands and what waits, by reason", async () => {
    const { call } = testApi({ services: { gates: env.GATES } });
    const id = await destination(call);
    await wait(id, 1, "rate");
    await wait(id, 2, "rate");
    await wait(id, 3, "slow");
    const { status, json } = await call("GET", `/v1/destinations/${id}/health`);
    expect(status).toBe(200);
    expect(json).toMatchObject({
      destination_id: id,
      status: "active",
      circuit: "closed",
      window: 1,
      in_flight: 0,
      max_concurrency: 10,
      rate_tokens: 200,
      door: null,
      waiting: { rate: 2, slow: 1 },
      last_15_minutes: { first_attempts: 0, retries: 0, retry_ratio: 0, storm: false },
      transitions: [],
    });
  });

  it("says that a paused destination lets nothing in, until a person decides", async () => {
    const { call } = testApi({ services: { gates: env.GATES } });
    const id = await destination(call);
    await call("POST", `/v1/destinations/${id}/pause`);
    const { json } = await call("GET", `/v1/destinations/${id}/health`);
    expect(json).toMatchObject({ status: "paused", door: { reason: "paused", until: null } });
  });

  it("is 503 when the gate cannot be reached", async () => {
    const away = { idFromName: (name: string) => name, get: () => ({ view: () => Promise.reject("away") }) };
    const { call } = testApi({ services: { gates: away as unknown as typeof env.GATES } });
    const { status } = await call("GET", `/v1/destinations/${await destination(call)}/health`);
    expect(status).toBe(503);
  });

  it("is 404 for a destination that is not there", async () => {
    const { call } = testApi();
    const { status } = await call("GET", "/v1/destinations/dst_00000000000000000000/health");
    expect(status).toBe(404);
  });
});
