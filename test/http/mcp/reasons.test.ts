/**
 * A scripted agent finds out why a delivery has not arrived, for every reason, in at most four calls; and sees nothing of
 * another tenant, whose events have the same words.
 */
import { beforeEach, describe, expect, test } from "vitest";
import {
  attemptErrors,
  cancelReasons,
  deadReasons,
  deliveryReasons,
  pauseReasons,
  waitingReasons,
} from "../../../src/core/reasons.ts";
import { scopes } from "../../../src/core/scopes.ts";
import { remedyOf } from "../../../src/http/mcp/explain.ts";
import { eventNumber } from "../../../src/ids.ts";
import { agentWith } from "../../support/agent.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";

const WORD = "inv_4711";
const CANARY = "kanarienvogel";
const MOST_CALLS = 4;
const { call } = testApi();

beforeEach(emptyDatabase);

async function destinationOf(tenant: string, settings: object = {}): Promise<string> {
  const { json } = await call("POST", "/v1/destinations", {
    url: `https://${tenant}.example/hook`,
    tenant,
    ...settings,
  });
  return json.id;
}

async function posted(tenant: string, options: object = {}) {
  const data = { invoice: WORD, of: tenant };
  const { json } = await call("POST", "/v1/events", { type: "invoice.paid", data, tenant, ...options });
  return json as { id: string; deliveries: { destination_id: string }[] };
}

/** The columns of a delivery's row for a reason. */
function rowOf(reason: string): object {
  const isIn = (list: readonly string[]) => list.includes(reason);
  if (isIn(waitingReasons)) return { state: "waiting", reason, attempts: 1 };
  if (isIn(deadReasons)) return { state: "dead", reason, attempts: 3, last_error: "http_503", ended_at: NOW };
  if (isIn(cancelReasons)) return { state: "cancelled", reason, attempts: 0, ended_at: NOW };
  if (reason === "in_flight") return { state: "in_flight", attempts: 0, next_attempt_at: NOW + 30_000 };
  return { state: "retrying", reason, attempts: 1, last_error: reason, next_attempt_at: NOW + 30_000 };
}

const insertDelivery = (destination: string, event: string, of: object) =>
  insertRow("deliveries", {
    ...{ destination_id: destination, event_id: eventNumber(event), give_up_at: NOW + 86_400_000, log: [] },
    ...of,
  });

/** Finds out why an event with this word has not arrived, as a script: no step depends on what a text says. */
async function diagnosed(use: ReturnType<typeof agentWith>["use"]) {
  let calls = 0;
  const seen: string[] = [];
  const step = async (name: string, input: object) => {
    calls += 1;
    const { isError, value } = await use(name, input);
    expect(isError, JSON.stringify(value)).toBe(false);
    seen.push(JSON.stringify(value));
    return value;
  };
  const { results } = await step("search", { q: WORD });
  const [event] = results;
  const [delivery] = event.deliveries ?? [];
  if (delivery) return { ...(await step("explain_delivery", { delivery_id: delivery.id })), calls, seen };
  const { destinations } = await step("list_destinations", {});
  const previewed = await step("preview_filter", { destination_id: destinations[0].id });
  const { reason } = previewed.events.find((one: { event_id: string }) => one.event_id === event.id);
  return { reason, calls, seen };
}

const agent = () => agentWith({ principal: { key: "key_1", scopes: ["read"], tenant: "acme" } });

/** Another tenant with the same words, whose name and ids may not appear. */
async function rival() {
  const id = await destinationOf(CANARY, { description: CANARY });
  const { id: event } = await posted(CANARY);
  return [CANARY, id, event.slice(4)];
}

const others = ["http_400", "http_404", "http_410", "http_429", "http_500", "http_503", "http_599"];

describe("an agent finds out why a delivery has not arrived, in at most four calls", () => {
  test.each([...deliveryReasons, ...others])("%s", async (reason) => {
    const marks = await rival();
    const destination = await destinationOf("acme");
    const isLater = reason === "scheduled";
    const { id } = await posted("acme", isLater ? { deliver_at: new Date(NOW + 60_000).toISOString() } : {});
    if (!isLater) await insertDelivery(destination, id, rowOf(reason));
    const found = await diagnosed(agent().use);
    expect(found.calls).toBeLessThanOrEqual(MOST_CALLS);
    expect(found.reason).toBe(reason);
    expect(found.meaning).toBe(remedyOf(reason).meaning);
    expect(found.meaning?.length).toBeGreaterThan(10);
    expect(found.remedy?.length).toBeGreaterThan(5);
    expect(found.summary.length).toBeGreaterThan(5);
    if (deadReasons.some((one) => one === reason))
      expect(found.last_failure).toMatchObject({ cause: "http_503", ...remedyOf("http_500") });
    for (const mark of marks) expect(found.seen.join("\n")).not.toContain(mark);
  });

  test.each(attemptErrors)("a retry after %s", async (error) => {
    const destination = await destinationOf("acme");
    const { id } = await posted("acme");
    await insertDelivery(destination, id, {
      state: "retrying",
      reason: error,
      attempts: 1,
      last_error: error,
      next_attempt_at: NOW + 1,
    });
    expect(await diagnosed(agent().use)).toMatchObject({
      state: "retrying",
      reason: error,
      ...remedyOf(error),
    });
  });

  test.each(pauseReasons)("a pause that is %s", async (pause) => {
    const destination = await destinationOf("acme");
    const { id } = await posted("acme");
    await insertDelivery(destination, id, rowOf("paused"));
    const { db } = testApi().services;
    await db.prepare("UPDATE destinations SET status = 'paused', status_reason = ?1").bind(pause).run();
    const found = await diagnosed(agent().use);
    expect(found).toMatchObject({
      reason: "paused",
      destination: { status: "paused", paused_because: pause },
    });
  });

  test("what the gate says now, if the delivery's row is older", async () => {
    const destination = await destinationOf("acme");
    const { id } = await posted("acme");
    await insertDelivery(destination, id, rowOf("concurrency"));
    const refusal = { reason: "circuit_open", until: NOW + 42_000 } as const;
    const view = () => ({ refusal, circuit: "open" as const, circuitUntil: NOW + 42_000, trips: 2 });
    const { use } = agentWith({ principal: { scopes, tenant: "acme" }, view });
    expect(await diagnosed(use)).toMatchObject({
      reason: "circuit_open",
      waiting_until: new Date(NOW + 42_000).toISOString(),
      destination: { circuit: "open", waiting: { concurrency: 1 } },
    });
  });
});

describe("an agent finds out why no destination took an event, in at most four calls", () => {
  test.each<[string, object, object]>([
    ["type", { event_types: ["order.*"] }, {}],
    ["channel", { channels: ["eu"] }, { channels: ["us"] }],
    ["filter", { filter: { invoice: "another" } }, {}],
  ])("%s", async (reason, settings, options) => {
    const marks = await rival();
    await destinationOf("acme", settings);
    await posted("acme", options);
    const found = await diagnosed(agent().use);
    expect(found.reason).toBe(reason);
    expect(found.calls).toBeLessThanOrEqual(MOST_CALLS);
    for (const mark of marks) expect(found.seen.join("\n")).not.toContain(mark);
  });
});
