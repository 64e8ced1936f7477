import { expect, it } from "vitest";
import { deliveryText } from "../../../src/pages/ui/status-text.ts";

const NOW = Date.parse("2026-11-21T09:00:00Z");
const inMs = (ms: number) => new Date(NOW + ms).toISOString();

type Delivery = Parameters<typeof deliveryText>[0];

const fresh: Delivery = { state: "queued", attempts: 0, give_up_at: inMs(72 * 3_600_000) };

it.each<[Partial<Delivery>, string]>([
  [{}, "busy | Queued | Queued for the first attempt"],
  [{ reason: "order" }, "busy | Queued | Waiting for an earlier event with the same key"],
  [
    { reason: "order_held" },
    "warn | Queued | Waiting until an earlier event with the same key, which is dead, is retried or skipped",
  ],
  [
    { state: "waiting", reason: "circuit_open", waiting_until: inMs(42_000) },
    "warn | Waiting | Waiting because the destination's circuit is open, for another 42 s",
  ],
  [
    { state: "waiting", reason: "hold", waiting_until: inMs(90_000) },
    "warn | Waiting | Waiting because the destination is on hold: the receiver sent Retry-After, for another 1 min 30 s",
  ],
  [
    { state: "waiting", reason: "paused" },
    "warn | Waiting | Waiting because the destination is paused, until you resume it",
  ],
  [
    { state: "waiting", reason: "rate", waiting_until: inMs(-1) },
    "busy | Waiting | Waiting because the destination is rate limited",
  ],
  [
    { state: "waiting", reason: "something_new", waiting_until: inMs(1_000) },
    "busy | Waiting | Waiting (something new), for another 1 s",
  ],
  [
    { state: "retrying", reason: "http_503", attempts: 3, next_attempt_at: inMs(65_000) },
    "busy | Retrying | Attempt 4 in 1 min 5 s; the last one failed: HTTP 503",
  ],
  [
    { state: "retrying", reason: "http_503", attempts: 1, log: [{}, {}, {}], next_attempt_at: inMs(65_000) },
    "busy | Retrying | Attempt 4 in 1 min 5 s; the last one failed: HTTP 503",
  ],
  [
    { state: "retrying", reason: "timeout", attempts: 1, next_attempt_at: inMs(-500) },
    "busy | Retrying | Attempt 2 due now; the last one failed: timeout",
  ],
  [
    { state: "retrying", reason: "challenged", attempts: 1, next_attempt_at: inMs(-500) },
    "busy | Retrying | Attempt 2 due now; the last one failed: challenged by a firewall. Allow the sender in the receiver's WAF: skip challenges for the webhook's path.",
  ],
  [
    { state: "retrying", reason: "in_flight", attempts: 0, next_attempt_at: inMs(9_000) },
    "busy | Retrying | Sent; no response yet",
  ],
  [
    { state: "delivered", attempts: 1, delivered_at: inMs(-58_800) },
    "good | Delivered | Delivered at the first attempt, 1 s after it was accepted",
  ],
  [
    { state: "delivered", attempts: 1, log: [{}, {}, {}], delivered_at: inMs(-58_800) },
    "good | Delivered | Sent again, and delivered at attempt 3, 1 s after it was accepted",
  ],
  [
    { state: "delivered", attempts: 4, delivered_at: inMs(0) },
    "good | Delivered | Delivered at attempt 4, 1 min after it was accepted",
  ],
  [{ state: "dead", reason: "exhausted", attempts: 16 }, "bad | Dead | Given up: all 16 attempts failed"],
  [{ state: "dead", reason: "exhausted", attempts: 1 }, "bad | Dead | Given up: the only attempt failed"],
  [
    { state: "dead", reason: "exhausted", attempts: 1, log: [{}, {}] },
    "bad | Dead | Given up: the only attempt since it was sent again failed",
  ],
  [
    { state: "dead", reason: "exhausted", attempts: 3, log: [{}, {}, {}, {}] },
    "bad | Dead | Given up: all 3 attempts since it was sent again failed",
  ],
  [
    { state: "dead", reason: "expired", attempts: 0, log: [{}] },
    "bad | Dead | Given up: it expired after 0 attempts since it was sent again",
  ],
  [{ state: "dead", reason: "gone", attempts: 1 }, "bad | Dead | Given up: the receiver answered 410 Gone"],
  [{ state: "dead", reason: "expired", attempts: 1 }, "bad | Dead | Given up: it expired after 1 attempt"],
  [
    { state: "dead", reason: "new_reason", attempts: 2 },
    "bad | Dead | Given up: new reason after 2 attempts",
  ],
  [
    { state: "cancelled", reason: "destination_deleted" },
    "quiet | Cancelled | Cancelled: the destination was deleted",
  ],
  [
    { state: "cancelled", reason: "erased" },
    "quiet | Cancelled | Cancelled: the content of the event was erased",
  ],
])("the text of %j says what comes next or why it waits", (delivery, expected) => {
  const { tone, label, text } = deliveryText({ ...fresh, ...delivery }, NOW - 60_000, NOW);
  expect(`${tone} | ${label} | ${text}`).toBe(expected);
});
