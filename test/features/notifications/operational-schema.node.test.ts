/** Operational events match the document: every field, no other, and no secret. */
import { describe, expect, test } from "vitest";
import type { SettleResult } from "../../../src/core/settle.ts";
import {
  alertEvent,
  deadEvent,
  heldEvent,
  lagEvent,
  type OperationalEvent,
  stallEvent,
  statusEvent,
  thresholdEvent,
} from "../../../src/features/notifications/operational-events.ts";
import { operationalEvents } from "../../../src/features/notifications/webhooks.ts";
import { createApp } from "../../../src/http/app.ts";
import { documentOf } from "../../../src/http/openapi/document.ts";

const AT = Date.parse("2026-11-21T09:00:00.000Z");
const destination = {
  id: "dst_one",
  tenant: "acme",
  url: "https://u:pw@hooks.example:8443/T0/token?key=s3cret",
};
const traffic = { first: 3, retries: 20, failures: 20, retryRatio: 20 / 3, storm: false };
const figures = { circuitUntil: AT + 30_000, trips: 1, heldUntil: null, traffic };
const news: SettleResult = { events: [], alerts: [], digestDue: false, at: AT, figures };

const all: readonly OperationalEvent[] = [
  ...(["circuit_opened", "circuit_closed", "storm_detected", "recovered"] as const).map((notice) =>
    alertEvent(destination, notice, news),
  ),
  statusEvent({ ...destination, status: "paused", reason: "gone", changedAt: AT }),
  statusEvent({ ...destination, status: "active", reason: null, changedAt: AT }),
  deadEvent(destination, { dead: 12, since: AT }, AT),
  heldEvent(destination, 4711, AT),
  ...[false, true].map((isEnd) =>
    lagEvent(destination, { consumer: "billing", lagMs: 90_061_000, fetchedAt: null, isEnd, since: AT }, AT),
  ),
  stallEvent(AT - 400_000, AT),
  thresholdEvent(
    { threshold: "retry_rate", value: 0.2, limit: 0.1, window: "1h", destinations: ["dst_one"] },
    AT,
  ),
];

describe.each(all.map((event) => [event.type, event] as const))("%s", (type, { data, key }) => {
  test("has the documented data, and no more", () => {
    expect(operationalEvents[type].data.parse(data)).toEqual(data);
  });

  test("contains only the host of a URL", () => {
    expect(JSON.stringify(data) + key).not.toMatch(/s3cret|token|pw@/);
  });
});

test("every type is a webhook in the document, and has a distinct key", () => {
  const { webhooks } = documentOf(createApp()) as unknown as { webhooks: Record<string, unknown> };
  expect(Object.keys(webhooks).sort()).toEqual([...new Set(all.map(({ type }) => type))].sort());
  expect(new Set(all.map(({ key }) => key)).size).toBe(all.length);
});
