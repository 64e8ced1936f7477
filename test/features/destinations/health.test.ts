import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { metric } from "../../support/attempt-metrics.ts";
import { steady as settings } from "../../support/gate-arbitraries.ts";
import { gateOf } from "../../support/world.ts";

beforeEach(emptyDatabase);

async function destination(call: ReturnType<typeof testApi>["call"]): Promise<string> {
  const { json } = await call("POST", "/v1/destinations", { url: "https://example.com/hook" });
  return json.id;
}

const wait = (id: string, event: number, reason: string) =>
  env.DB.prepare(
    "INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at) VALUES (?, ?, 'waiting', ?, ?)",
  )
    .bind(id, event, reason, NOW + 1)
    .run();

/** The given number of retries that fail, in one lease. */
async function fail(id: string, retries: number): Promise<void> {
  const deliveries = Array.from({ length: retries }, (_, i) => i + 1);
  const { grant } = await gateOf(id).admit(
    { lane: "retry", deliveries, connections: 6, startWithinMs: 1_000 },
    settings,
  );
  const failed = metric({ attempt: 2, result: "5xx", end: "again" });
  const sign = { at: Date.now(), health: "unhealthy", backsOff: true, metric: failed } as const;
  const signals = deliveries.map(() => sign);
  await gateOf(id).settle({ lease: grant?.id ?? "", signals, left: 0 }, settings);
}

describe("GET /v1/destinations/:id/health", () => {
  it("shows the gate's state and the number of waiting deliveries by reason", async () => {
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
      concurrency_window: 1,
      in_flight: 0,
      max_concurrency: 10,
      rate_tokens: 100,
      refusal: null,
      waiting: { rate: 2, slow: 1 },
      last_15_minutes: { first_attempts: 0, retries: 0, retry_ratio: 0, storm: false },
      transitions: [],
    });
  });

  it("shows an open circuit, a hold and a storm, their ends, and the transitions that led to them", async () => {
    const { call } = testApi({ services: { gates: env.GATES } });
    const id = await destination(call);
    await fail(id, 120);
    const until = Date.now() + 3_600_000;
    await gateOf(id).hold(until);
    const { json } = await call("GET", `/v1/destinations/${id}/health`);
    const heldUntil = new Date(until).toISOString();
    expect(json).toMatchObject({
      circuit: "open",
      trips: 1,
      held_until: heldUntil,
      concurrency_window: 1,
      in_flight: 0,
      refusal: { reason: "hold", until: heldUntil },
      last_15_minutes: { first_attempts: 0, retries: 120, failures: 120, retry_ratio: 120, storm: true },
      transitions: [{ kind: "circuit_opened" }, { kind: "held" }],
    });
    expect(Date.parse(json.circuit_until)).toBeGreaterThan(Date.now());
  });

  it("shows a paused destination as blocked, without an end", async () => {
    const { call } = testApi({ services: { gates: env.GATES } });
    const id = await destination(call);
    await call("POST", `/v1/destinations/${id}/pause`);
    const { json } = await call("GET", `/v1/destinations/${id}/health`);
    expect(json).toMatchObject({ status: "paused", refusal: { reason: "paused", until: null } });
  });

  it("shows a pause with its reason while it lasts, and its end", async () => {
    let now = NOW;
    const { call } = testApi({ services: { gates: env.GATES, now: () => now } });
    const id = await destination(call);
    await env.DB.prepare(
      "UPDATE destinations SET status = 'paused', status_reason = 'gone', status_changed_at = ?1",
    )
      .bind(NOW - 5000)
      .run();
    const transitions = async () => (await call("GET", `/v1/destinations/${id}/health`)).json.transitions;
    const paused = { at: new Date(NOW - 5000).toISOString(), kind: "paused", reason: "gone" };
    expect(await transitions()).toEqual([paused]);
    await call("POST", `/v1/destinations/${id}/resume`);
    expect(await transitions()).toEqual([paused, { at: expect.any(String), kind: "resumed" }]);
    now = Date.now() + 60_000;
    await call("POST", `/v1/destinations/${id}/pause`);
    const seen = await transitions();
    expect(seen.map(({ kind }: { kind: string }) => kind)).toEqual(["paused", "resumed", "paused"]);
    expect(seen[2]).toEqual({ at: new Date(now).toISOString(), kind: "paused", reason: "manual" });
  });

  it("is 503 when the gate cannot be reached", async () => {
    const away = { idFromName: (name: string) => name, get: () => ({ view: () => Promise.reject("away") }) };
    const { call } = testApi({ services: { gates: away as unknown as typeof env.GATES } });
    const { status } = await call("GET", `/v1/destinations/${await destination(call)}/health`);
    expect(status).toBe(503);
  });

  it("is 404 for an unknown destination", async () => {
    const { call } = testApi();
    const { status } = await call("GET", "/v1/destinations/dst_00000000000000000000/health");
    expect(status).toBe(404);
  });
});

describe("POST /v1/destinations/:id/clear-hold", () => {
  it("ends a hold, and changes nothing when it is repeated", async () => {
    const { call } = testApi({ services: { gates: env.GATES } });
    const id = await destination(call);
    await gateOf(id).hold(Date.now() + 3_600_000);
    const once = await call("POST", `/v1/destinations/${id}/clear-hold`);
    expect(once).toMatchObject({
      status: 200,
      json: { destination_id: id, held_until: null, refusal: null },
    });
    const twice = await call("POST", `/v1/destinations/${id}/clear-hold`);
    expect(twice).toMatchObject({ status: 200, json: { transitions: once.json.transitions } });
  });

  it("does not change a pause", async () => {
    const { call } = testApi({ services: { gates: env.GATES } });
    const id = await destination(call);
    await call("POST", `/v1/destinations/${id}/pause`);
    const { json } = await call("POST", `/v1/destinations/${id}/clear-hold`);
    expect(json).toMatchObject({ status: "paused", refusal: { reason: "paused" } });
  });

  it("is 503 with Retry-After while the gate cannot be reached, and 404 for an unknown destination", async () => {
    const away = {
      idFromName: (name: string) => name,
      get: () => ({ clearHold: () => Promise.reject("away") }),
    };
    const { call } = testApi({ services: { gates: away as unknown as typeof env.GATES } });
    const { status, headers } = await call("POST", `/v1/destinations/${await destination(call)}/clear-hold`);
    expect([status, headers.get("retry-after")]).toEqual([503, "5"]);
    const nobody = await call("POST", "/v1/destinations/dst_00000000000000000000/clear-hold");
    expect(nobody.status).toBe(404);
  });
});
