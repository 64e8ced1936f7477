/** How a destination is doing: the state of its gate, what waits and why, and what has happened of late. */
import { createRoute, z } from "@hono/zod-openapi";
import { withPause } from "../../core/gate-state.ts";
import type { GateView } from "../../core/gate-view.ts";
import {
  type Destination,
  findDestination,
  gateSettingsOf,
  limitsOf,
  pauseOf,
  statusOf,
} from "../../db/destinations.ts";
import { waitingByReason } from "../../db/waiting.ts";
import { clearHoldAtGate, viewGate } from "../../gate/client.ts";
import { trafficView } from "../../notifications/operational-events.ts";
import type { Services } from "../../services.ts";
import { isoTime } from "../../time.ts";
import { requires } from "../auth.ts";
import type { Api } from "../context.ts";
import { idParam, jsonAnswer } from "../parameters.ts";
import { noSuch, problem, problemResponses } from "../problems.ts";

/** Waiting deliveries counted at most: beyond that, a number is no longer what a person needs. */
const COUNTED = 10_000;

const time = z.iso.datetime();

const healthSchema = z
  .object({
    destination_id: z.string(),
    status: z.enum(["active", "paused"]),
    status_reason: z.string().nullable(),
    circuit: z.enum(["closed", "open", "half_open"]),
    circuit_until: time.nullable().openapi({ description: "When an open circuit lets a probe in." }),
    trips: z.number().openapi({ description: "Openings in a row; each doubles the cool-down." }),
    held_until: time.nullable().openapi({ description: "The receiver asked for quiet until then." }),
    window: z.number().openapi({ description: "Attempts allowed at once at the moment." }),
    in_flight: z.number(),
    max_concurrency: z.number(),
    rate_per_second: z.number().openapi({
      description: "Attempts a second: the destination's own, or less where its 429s ask for less.",
    }),
    rate_tokens: z.number().openapi({ description: "Attempts that the rate allows at this moment." }),
    latency_ms: z.number().openapi({ description: "What an attempt takes of late, a moving average." }),
    door: z
      .object({ reason: z.string(), until: time.nullable() })
      .nullable()
      .openapi({ description: "Why a waiting delivery would not be let in now; null when it would be." }),
    waiting: z.record(z.string(), z.number()).openapi({
      description: `Waiting deliveries by the reason they were turned away for, ${COUNTED} at most.`,
    }),
    last_15_minutes: z.object({
      first_attempts: z.number(),
      retries: z.number(),
      failures: z.number(),
      retry_ratio: z.number(),
      storm: z.boolean().openapi({
        description: "More than five retries for each first attempt, and more than a hundred of them.",
      }),
    }),
    transitions: z.array(
      z.object({
        at: time,
        what: z.string(),
        times: z.int().optional().openapi({ description: "How often in a row; once when absent." }),
        until: time.optional().openapi({ description: "The end of a hold." }),
        reason: z
          .string()
          .optional()
          .openapi({ description: "Why it was paused, as `status_reason` has it." }),
      }),
    ),
  })
  .openapi("DestinationHealth");

const getHealth = createRoute({
  method: "get",
  path: "/v1/destinations/{id}/health",
  summary: "Show how a destination is doing",
  description: "What its gate does at this moment, why, and until when.",
  tags: ["Destinations"],
  middleware: [requires("read")],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(healthSchema, "The destination's health at this moment."),
    ...problemResponses(401, 403, 404, 429, 503),
  },
});

const clearHold = createRoute({
  method: "post",
  path: "/v1/destinations/{id}/clear-hold",
  summary: "End a receiver's hold",
  description:
    "A Retry-After holds the whole destination until then. When its owner says that it may be asked sooner, this ends the hold: what waits is delivered, beginning with one attempt at a time. May be repeated; without a hold nothing changes. An open circuit and a pause stay as they are.",
  tags: ["Destinations"],
  middleware: [requires("admin")],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(healthSchema, "The destination's health after that."),
    ...problemResponses(401, 403, 404, 503),
  },
});

const UNREACHABLE = "The destination's gate cannot be reached at the moment";
const SOON = { "retry-after": "5" };

export function registerDestinationHealth(api: Api): void {
  api.openapi(getHealth, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const row = await findDestination(services.db, id, c.get("principal").tenant);
    if (row === undefined) return noSuch("destination", id);
    const health = await healthNow(services, row);
    return health ? c.json(health, 200) : problem(503, UNREACHABLE, undefined, SOON);
  });

  api.openapi(clearHold, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const row = await findDestination(services.db, id, c.get("principal").tenant);
    if (row === undefined) return noSuch("destination", id);
    const cleared = await clearHoldAtGate(services, id);
    const health = cleared ? await healthNow(services, row) : undefined;
    return health ? c.json(health, 200) : problem(503, UNREACHABLE, undefined, SOON);
  });
}

/** Undefined when the gate cannot be reached. */
async function healthNow(services: Services, row: Destination) {
  const [view, waiting] = await Promise.all([
    viewGate(services, row.id, gateSettingsOf(row)),
    waitingByReason(services, row.id, COUNTED),
  ]);
  return view && healthView(row, view, waiting);
}

function healthView(row: Destination, view: GateView, waiting: Record<string, number>) {
  const { traffic, refusal } = view;
  return {
    destination_id: row.id,
    status: statusOf(row),
    status_reason: row.statusReason,
    circuit: view.circuit,
    circuit_until: isoTime(view.circuitUntil),
    trips: view.trips,
    held_until: isoTime(view.heldUntil),
    window: view.window,
    in_flight: view.inFlight,
    max_concurrency: limitsOf(row).max_concurrency,
    rate_per_second: Math.round(view.ratePerSecond * 100) / 100,
    rate_tokens: view.rateTokens,
    latency_ms: view.tookMs,
    door: refusal && { reason: refusal.reason, until: isoTime(refusal.until) },
    waiting,
    last_15_minutes: { ...trafficView(traffic), storm: traffic.storm },
    transitions: historyOf(row, view).map(happeningView),
  };
}

/** What has happened to the door, the present pause included: of that one the gate learns when it is over. */
export function historyOf(row: Destination, { history }: Pick<GateView, "history">): GateView["history"] {
  const pause = pauseOf(row);
  return pause ? withPause(history, pause) : history;
}

function happeningView({ at, what, times, until, reason }: GateView["history"][number]) {
  return {
    at: isoTime(at),
    what,
    ...(times !== undefined && { times }),
    ...(until !== undefined && { until: isoTime(until) }),
    ...(reason !== undefined && { reason }),
  };
}
