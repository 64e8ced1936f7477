/** The health of a destination: the state of its gate, how many deliveries wait and why, and its latest transitions. */
import { z } from "@hono/zod-openapi";
import { type HistoryKind, withPause } from "../../core/gate-state.ts";
import type { GateView } from "../../core/gate-view.ts";
import { type PauseReason, pauseReasons, refusalReasons } from "../../core/reasons.ts";
import { ok } from "../../core/result.ts";
import { atGate, clearHoldAtGate } from "../../gate/client.ts";
import type { Services } from "../../services.ts";
import { type Destination, gateSettingsOf, limitsOf, pauseOf, statusOf } from "../../store/destination.ts";
import { waitingByReason } from "../../store/waiting.ts";
import { isoTime } from "../../time.ts";
import { trafficView } from "../notifications/operational-events.ts";
import { documented, time } from "../parameters.ts";
import { destinationService, GATE_UNREACHABLE } from "./one.ts";

/** The most waiting deliveries that are counted: beyond that, the exact number does not matter. */
const MAX_COUNTED = 10_000;

const transitionKinds = [
  "circuit_opened",
  "circuit_closed",
  "held",
  "hold_cleared",
  "paused",
  "resumed",
] as const satisfies readonly HistoryKind[];

const transition = z.object({
  at: time,
  kind: z.enum(transitionKinds),
  times: z.int().optional().describe("How often in a row, where more than once."),
  until: time.optional().describe("The end of a hold."),
  reason: z.enum(pauseReasons).optional().describe("Why the destination was paused, as in `status_reason`."),
});

export const healthSchema = documented("DestinationHealth", {
  destination_id: z.string(),
  status: z.enum(["active", "paused"]),
  status_reason: z.enum(pauseReasons).nullable(),
  circuit: z.enum(["closed", "open", "half_open"]),
  circuit_until: time.nullable().describe("When an open circuit admits a probe."),
  trips: z.number().describe("How often in a row the circuit opened; each time doubles the cool-down."),
  held_until: time
    .nullable()
    .describe("The end of the hold that the receiver requested, with `Retry-After` or its rate limits."),
  concurrency_window: z.number().describe("Concurrent attempts allowed now, up to `max_concurrency`."),
  in_flight: z.number().describe("Attempts under way."),
  max_concurrency: z.number(),
  rate_per_second: z
    .number()
    .describe("Attempts allowed in a second: the destination's rate, or less after 429 responses."),
  rate_tokens: z.number().describe("Attempts that the rate allows at once now."),
  latency_ms: z.number().describe("The duration of recent attempts, as a moving average."),
  refusal: z
    .object({ reason: z.enum(refusalReasons), until: time.nullable() })
    .nullable()
    .describe("Why the gate would not admit a waiting delivery now, and until when; null if it would."),
  waiting: z
    .record(z.string(), z.number())
    .describe(`The number of waiting deliveries by \`reason\`, counted up to ${MAX_COUNTED}.`),
  last_15_minutes: z.object({
    first_attempts: z.number(),
    retries: z.number(),
    failures: z.number(),
    retry_ratio: z.number().describe("Retries for each first attempt."),
    storm: z
      .boolean()
      .describe("Whether there were more than five retries for each first attempt, and more than a hundred."),
  }),
  transitions: z.array(transition).describe("The latest changes of state, the oldest first."),
});

/** The present activity of the destination's gate, why, and until when. */
export const getDestinationHealth = destinationService({ scope: "read" }, ({ services }, destination) =>
  healthAt(services, destination),
);

/** Ends the hold that the receiver requested. An open circuit and a pause stay. */
export const clearHold = destinationService(
  { scope: "admin", role: "repair" },
  async ({ services }, destination) => {
    const isCleared = await clearHoldAtGate(services, destination.id);
    return isCleared ? healthAt(services, destination) : GATE_UNREACHABLE;
  },
);

async function healthAt(services: Services, row: Destination) {
  const [view, waiting] = await Promise.all([
    atGate(services, row.id, "view", gateSettingsOf(row)),
    waitingByReason(services, row.id, MAX_COUNTED),
  ]);
  return view ? ok(healthView(row, view, waiting)) : GATE_UNREACHABLE;
}

function healthView(row: Destination, view: GateView, waiting: Record<string, number>) {
  const { traffic, refusal } = view;
  return {
    destination_id: row.id,
    status: statusOf(row),
    status_reason: row.statusReason as PauseReason | null,
    circuit: view.circuit,
    circuit_until: isoTime(view.circuitUntil),
    trips: view.trips,
    held_until: isoTime(view.heldUntil),
    concurrency_window: view.window,
    in_flight: view.inFlight,
    max_concurrency: limitsOf(row).max_concurrency,
    rate_per_second: Math.round(view.ratePerSecond * 100) / 100,
    rate_tokens: view.rateTokens,
    latency_ms: view.tookMs,
    refusal: refusal && { reason: refusal.reason, until: isoTime(refusal.until) },
    waiting,
    last_15_minutes: { ...trafficView(traffic), storm: traffic.storm },
    transitions: historyOf(row, view).map(transitionView),
  };
}

/** The gate's history, with the pause that lasts: the gate itself records a pause only when it ends. */
export function historyOf(row: Destination, { history }: Pick<GateView, "history">): GateView["history"] {
  const pause = pauseOf(row);
  return pause ? withPause(history, pause) : history;
}

function transitionView({ at, what, times, until, reason }: GateView["history"][number]) {
  return {
    at: isoTime(at),
    kind: what,
    ...(times !== undefined && { times }),
    ...(until !== undefined && { until: isoTime(until) }),
    ...(reason !== undefined && { reason: reason as PauseReason }),
  };
}
