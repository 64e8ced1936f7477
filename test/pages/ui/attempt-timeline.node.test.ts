import { expect, it } from "vitest";
import type { DeliveryJson } from "../../../src/features/deliveries/schema.ts";
import { timelineOf } from "../../../src/pages/ui/delivery-panel.tsx";
import { lastResponseText, resultText } from "../../../src/pages/ui/status-text.ts";

const NOW = Date.parse("2026-11-21T09:00:00Z");
const at = (ms: number) => new Date(NOW + ms).toISOString();

const delivery: DeliveryJson = {
  id: "dlv_1",
  event_id: "evt_1",
  destination_id: "dst_1",
  state: "retrying",
  attempts: 2,
  next_attempt_at: at(60_000),
  give_up_at: at(72 * 3_600_000),
  log: [
    { at: at(-40_000), status: 503, latency_ms: 10 },
    { at: at(-20_000), latency_ms: 10, error: "timeout" },
  ],
};

it("a timeline places attempts, now, the next attempt and the end in order, within its bounds", () => {
  const { marks } = timelineOf(delivery, NOW - 41_000, NOW);
  expect(marks.map(({ kind }) => kind)).toEqual(["accepted", "failed", "failed", "now", "next", "given_up"]);
  const places = marks.map(({ x }) => x);
  expect(places).toEqual(places.toSorted((a, b) => a - b));
  expect([places[0], Math.max(...places)]).toEqual([0, 98]);
});

it("a timeline of an ended delivery shows only its attempts, over at least ten seconds", () => {
  const ended: DeliveryJson = {
    ...delivery,
    state: "delivered",
    log: [{ at: at(-40_900), status: 204, latency_ms: 5 }],
  };
  const { marks, ticks } = timelineOf(ended, NOW - 41_000, NOW);
  expect(marks.map(({ kind }) => kind)).toEqual(["accepted", "succeeded"]);
  expect(ticks.map(({ label }) => label)).toEqual(["1 s", "10 s"]);
});

it("a timeline has no mark for a next attempt at an unknown time", () => {
  const { next_attempt_at: _, ...rest } = delivery;
  const { marks } = timelineOf({ ...rest, state: "waiting", reason: "paused", log: [] }, NOW - 1000, NOW);
  expect(marks.map(({ kind }) => kind)).toEqual(["accepted", "now", "given_up"]);
});

it("a timeline places an overdue attempt at now", () => {
  const late = timelineOf({ ...delivery, next_attempt_at: at(-5000) }, NOW - 41_000, NOW);
  const place = (kind: string) => late.marks.find((mark) => mark.kind === kind)?.x;
  expect(place("next")).toBe(place("now"));
});

it.each([
  [{ status: 503 }, "HTTP 503"],
  [{ error: "timeout" }, "Timeout"],
  [{ error: "dns", status: 530 }, "Host name not resolved (HTTP 530)"],
  [{ error: "challenged", status: 403 }, "Challenged by a firewall (HTTP 403)"],
] as const)("shows the result of an attempt with %j as %s", (entry, text) => {
  expect(resultText(entry)).toBe(text);
});

it.each([
  [{}, "–"],
  [{ last_status: 204 }, 204],
  [{ last_status: 503, last_error: "http_503" }, 503],
  [{ last_error: "timeout" }, "timeout"],
  [{ last_status: 530, last_error: "dns" }, "host name not resolved"],
] as const)("lists the last response of a delivery with %j as %s", (delivery, text) => {
  expect(lastResponseText(delivery)).toBe(text);
});
