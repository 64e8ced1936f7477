/** /metrics and /v1/stats over real gates, after deliveries that succeeded and that failed. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import type { Principal } from "../../../src/core/principal.ts";
import { createApp } from "../../../src/http/app.ts";

import { addToCount } from "../../../src/store/stats.ts";
import { parsePrometheusText } from "../../support/prometheus-text.ts";
import { execute, newDestination, newWorld, TENANT, urlOf, type World } from "../../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
  await execute("DELETE FROM counts");
});

const reader: Principal = { scopes: ["read"] };

async function get(path: string, principal: Principal | undefined = reader) {
  const app = createApp({
    services: () => ({ ...world.services, db: env.DB }),
    authenticate: async () => principal,
  });
  const ctx = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} };
  return app.request(
    path,
    { headers: { authorization: "Bearer key" } },
    env,
    ctx as unknown as ExecutionContext,
  );
}

async function stats(query = "", principal?: Principal) {
  const response = await get(`/v1/stats${query}`, principal);
  return { status: response.status, json: (await response.json()) as Record<string, unknown> };
}

async function scraped() {
  const response = await get("/metrics");
  const { types, samples } = parsePrometheusText(await response.text());
  const value = (name: string, labels: Record<string, string> = {}) =>
    samples.find(
      (sample) =>
        sample.name === `breakwater_${name}` &&
        Object.entries(labels).every(([label, wanted]) => sample.labels[label] === wanted),
    )?.value;
  return { types, samples, value, response };
}

/** One destination accepts three events at once; another refuses one, accepts it later, and rejects one permanently. */
async function someTraffic() {
  const fine = await newDestination();
  await world.consume(await world.post(3));
  const shaky = await newDestination({ eventTypes: ["shaky"] });
  world.receiver.script(urlOf(shaky), 503);
  const [message] = (await world.post(1, { type: "shaky" })).filter(
    ({ destinationId }) => destinationId === shaky,
  );
  world.clock.pass(2_000);
  await world.consume([message]);
  world.clock.pass(60_000);
  world.receiver.script(urlOf(shaky), 204);
  await world.consume([message]);
  const gone = (await world.post(1, { type: "shaky" })).filter(
    ({ destinationId }) => destinationId === shaky,
  );
  world.receiver.script(urlOf(shaky), 400);
  await world.consume(gone);
  await world.settled();
  return { fine, shaky };
}

describe("/metrics", () => {
  test("counts every attempt by destination and result, by number, and by duration", async () => {
    const { fine, shaky } = await someTraffic();
    const { value, types, response } = await scraped();
    expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(types.get("breakwater_attempts_total")).toBe("counter");
    expect(value("attempts_total", { destination: fine, result: "2xx" })).toBe(3);
    expect(value("attempts_total", { destination: shaky, result: "5xx" })).toBe(1);
    expect(value("attempts_total", { destination: shaky, result: "2xx" })).toBe(1);
    expect(value("attempts_total", { destination: shaky, result: "4xx" })).toBe(1);
    expect(value("attempts_by_number_total", { destination: shaky, number: "2" })).toBe(1);
    expect(value("dead_total", { destination: shaky })).toBe(1);
    expect(value("delivered_total", { destination: shaky })).toBe(1);
    expect(value("attempt_duration_seconds_count", { destination: fine })).toBe(3);
    expect(value("queue_delay_seconds_bucket", { destination: shaky, le: "1" })).toBe(1);
    expect(value("queue_delay_seconds_bucket", { destination: shaky, le: "+Inf" })).toBe(3);
    expect(value("circuit_state", { destination: fine })).toBe(0);
  });

  test("shows the figures that have thresholds, for each window", async () => {
    await someTraffic();
    const { value } = await scraped();
    for (const window of ["15m", "1h", "24h"]) {
      expect(value("first_attempts", { window })).toBe(5);
      expect(value("retry_rate", { window })).toBeCloseTo(1 / 5);
      expect(value("dead_letter_rate", { window })).toBeCloseTo(1 / 5);
      expect(value("second_attempt_success_rate", { window })).toBe(1);
      expect(value("mean_attempts_to_success", { window })).toBeCloseTo(5 / 4);
      expect(value("non_2xx_rate", { window })).toBeCloseTo(2 / 6);
      expect(value("timeout_rate", { window })).toBe(0);
      // The clock stands still while a receiver answers here: no attempt takes any time.
      expect(value("latency_seconds", { window, quantile: "0.95" })).toBe(0);
      expect(value("start_delay_seconds", { window, quantile: "0.95" })).toBeGreaterThan(1);
    }
  });

  test("omits rates without traffic", async () => {
    await newDestination();
    const { value, types } = await scraped();
    expect(types.has("breakwater_retry_rate")).toBe(true);
    expect(value("retry_rate")).toBeUndefined();
    expect(value("first_attempts", { window: "1h" })).toBe(0);
  });

  test("shows waiting and retrying deliveries by destination, and those that have been retried for a day", async () => {
    const [one, other] = [await newDestination(), await newDestination()];
    const messages = await world.post(3);
    const of = (id: string) => messages.filter(({ destinationId }) => destinationId === id);
    await execute("UPDATE destinations SET status = 'paused' WHERE id = ?", one);
    world.receiver.script(urlOf(other), 503);
    await world.consume([...of(one), ...of(other).slice(0, 1)]);
    const { value } = await scraped();
    expect(value("waiting_deliveries", { destination: one })).toBe(3);
    expect(value("retrying_deliveries", { destination: one })).toBe(0);
    expect(value("retrying_deliveries", { destination: other })).toBe(1);
    expect(value("paused", { destination: one })).toBe(1);
    expect(value("retrying_for_a_day")).toBe(0);
    world.clock.pass(24 * 3_600_000 + 1);
    const later = await scraped();
    // The deliveries that wait there were never attempted.
    expect(later.value("retrying_for_a_day")).toBe(1);
    expect(later.value("oldest_due_seconds")).toBeGreaterThan(80_000);
  });

  test("counts a day of retries from the first attempt, not from the acceptance", async () => {
    const destination = await newDestination();
    world.receiver.script(urlOf(destination), 503);
    const [held, other] = await world.post(2);
    if (!held || !other) throw new Error("Both events are for the destination");
    world.clock.pass(3 * 24 * 3_600_000);
    await world.consume([held]);
    expect((await scraped()).value("retrying_for_a_day")).toBe(0);
    await execute("UPDATE deliveries SET state = 'waiting'");
    expect((await scraped()).value("retrying_for_a_day")).toBe(0);
    world.clock.pass(24 * 3_600_000 + 1);
    expect((await scraped()).value("retrying_for_a_day")).toBe(1);
  });

  test("shows the health of the sweep and the database, repeated requests and dead letters", async () => {
    const { shaky } = await someTraffic();
    await execute("INSERT INTO sweeps (id, heartbeat_at) VALUES (1, ?1)", world.clock.now() - 90_000);
    await addToCount(env.DB, "deduplicated", 3);
    await addToCount(env.DB, "keyed", 7);
    const { value } = await scraped();
    expect(value("sweep_heartbeat_age_seconds")).toBe(90);
    expect(value("deduplicated_total")).toBe(3);
    expect(value("keyed_requests_total")).toBe(10);
    expect(value("dead_letters", { destination: shaky })).toBe(1);
    expect(value("database_bytes", { database: "DB" })).toBeGreaterThan(10_000);
    expect(value("database_headroom_bytes")).toBe(10_000_000_000 - (value("database_bytes") ?? 0));
    expect(value("destinations")).toBe(2);
    expect(value("destinations_left_out")).toBe(0);
  });

  test("continues when a gate cannot be reached, and counts it", async () => {
    const { fine, shaky } = await someTraffic();
    world.gates.before((_, destination) => {
      if (destination === shaky) throw new Error("away");
    });
    const { value } = await scraped();
    expect(value("gates_unreachable")).toBe(1);
    expect(value("attempts_total", { destination: shaky })).toBeUndefined();
    expect(value("attempts_total", { destination: fine, result: "2xx" })).toBe(3);
    expect(value("waiting_deliveries", { destination: shaky })).toBe(0);
  });

  test("calls at most a hundred gates, those of active destinations; labels grow no further", async () => {
    for (let i = 0; i < 120; i++)
      await newDestination({ tenant: "many", id: `dst_${String(i).padStart(20, "0")}` });
    const last = "dst_zzzzzzzzzzzzzzzzzzzz";
    await newDestination({ id: last });
    await world.consume(await world.post(1));
    world.gates.called();
    const { value, samples } = await scraped();
    expect(world.gates.called().length).toBeLessThanOrEqual(100);
    expect(value("attempts_total", { destination: last, result: "2xx" })).toBe(1);
    expect(value("destinations")).toBe(121);
    expect(new Set(samples.map(({ labels }) => labels.destination)).size).toBeLessThanOrEqual(101);
    expect(value("destinations_left_out")).toBeGreaterThanOrEqual(21);
  });

  test("needs a key with the scope read that is bound to no tenant", async () => {
    expect((await get("/metrics", { scopes: ["events:write"] })).status).toBe(403);
    expect((await get("/metrics", { scopes: ["read"], tenant: TENANT })).status).toBe(403);
    const app = createApp({ services: () => ({ ...world.services, db: env.DB }) });
    const ctx = { waitUntil: () => {} } as unknown as ExecutionContext;
    expect((await app.request("/metrics", {}, env, ctx)).status).toBe(401);
  });
});

describe("/v1/stats", () => {
  test("sums up the window, with a series that adds up to it", async () => {
    const { shaky } = await someTraffic();
    const { status, json } = await stats("?window=15m");
    expect(status).toBe(200);
    expect(json).toMatchObject({
      window: "15m",
      attempts: 6,
      first_attempts: 5,
      delivered: 4,
      dead: 1,
      retry_rate: 0.2,
      mean_attempts_to_success: 1.25,
      results: { "2xx": 4, "5xx": 1, "4xx": 1, timeout: 0 },
      attempt_distribution: { "1": 5, "2": 1 },
      deduplicated: 0,
      keyed_requests: 0,
      coverage: { total: 2, queried: 2, sampled: null, unreachable: 0 },
    });
    const series = json.series as { at: string; attempts: number }[];
    expect(series).toHaveLength(15);
    expect(series.reduce((sum, { attempts }) => sum + attempts, 0)).toBe(6);
    expect(json.destinations).toContainEqual(
      expect.objectContaining({ destination_id: shaky, attempts: 3, circuit: "closed", storm: false }),
    );
  });

  test("covers the last hour unless another window is requested, and nothing older", async () => {
    await someTraffic();
    world.clock.pass(2 * 3_600_000);
    expect((await stats()).json).toMatchObject({ window: "1h", attempts: 0, retry_rate: null });
    expect((await stats("?window=24h")).json).toMatchObject({ attempts: 6 });
    expect((await stats("?window=7d")).json).toMatchObject({ attempts: 6 });
  });

  test("can cover one destination, or one tenant", async () => {
    const { fine } = await someTraffic();
    await newDestination({ tenant: "other" });
    const ofOne = await stats(`?destination_id=${fine}`);
    expect(ofOne.json).toMatchObject({ attempts: 3, deduplicated: null, keyed_requests: null });
    expect((await stats("?tenant=other")).json).toMatchObject({ attempts: 0, coverage: { total: 1 } });
  });

  test("shows a bound key only its tenant", async () => {
    const { fine } = await someTraffic();
    const bound: Principal = { scopes: ["read"], tenant: "other" };
    expect((await stats("", bound)).json).toMatchObject({
      attempts: 0,
      deduplicated: null,
      destinations: [],
    });
    expect((await stats(`?tenant=${TENANT}`, bound)).status).toBe(403);
    expect((await stats(`?destination_id=${fine}`, bound)).status).toBe(404);
  });

  test.each([
    ["?window=2h", 422, "window"],
    ["?window=", 422, "window"],
    ["?tenant=", 422, "tenant"],
    ["?destination=dst_x", 422, "destination"],
  ])("refuses %s, and names the field", async (query, status, field) => {
    const answer = await stats(query);
    expect(answer.status).toBe(status);
    expect(answer.json.errors).toMatchObject([{ field }]);
  });

  test("is 404 for an unknown destination", async () => {
    expect((await stats("?destination_id=dst_00000000000000000000")).status).toBe(404);
  });
});
