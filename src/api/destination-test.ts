/** Sending a destination a test event, and showing what came of it. */
import { createRoute, z } from "@hono/zod-openapi";
import { type TestResult, sendTestEvent } from "../delivery/trial.ts";
import { claimTestAtGate } from "../gate/gate-client.ts";
import { findDestination } from "../store/destinations.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { noSuch, problem, problemResponses } from "./problems.ts";
import { idParam, jsonAnswer } from "./route-parts.ts";

const testSchema = z
  .object({
    status: z.int().optional().openapi({ description: "Absent when there was no answer." }),
    error: z.string().optional().openapi({
      description: "`timeout`, `connection_lost` (it may have arrived), `refused`, `dns` or `network`.",
    }),
    latency_ms: z.number(),
    response: z.string().optional().openapi({ description: "The beginning of a refusal's body." }),
    location: z.string().optional().openapi({ description: "Where a redirect would have led." }),
    sent: z.object({
      url: z.string(),
      headers: z.record(z.string(), z.string()).openapi({
        description: "With the values of the destination's own headers left out.",
      }),
      body: z.string(),
    }),
  })
  .openapi("DestinationTest");

const testDestination = createRoute({
  method: "post",
  path: "/v1/destinations/{id}/test",
  summary: "Send a destination a test event",
  tags: ["Destinations"],
  description:
    "Sends a signed event of the type `breakwater.test`, at once, even to one that is paused. It is no delivery, " +
    "and changes nothing. Once in five seconds.",
  middleware: [requires("admin")],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(testSchema, "What was sent, and what came of it."),
    ...problemResponses(401, 403, 404, 409, 429, 503),
  },
});

export function registerDestinationTest(api: Api): void {
  api.openapi(testDestination, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const destination = await findDestination(services.db, id, c.get("principal").tenant);
    if (destination === undefined) return noSuch("destination", id);
    const until = await claimTestAtGate(services, id);
    if (until === undefined) return problem(503, "The destination's gate cannot be reached at the moment");
    if (until !== null) return tooSoon(until - services.now());
    const trial = await sendTestEvent(services, destination);
    if (trial.kind === "not_made") return problem(409, trial.fault);
    return c.json(trialView(destination.url, trial), 200);
  });
}

function tooSoon(waitMs: number) {
  const seconds = String(Math.max(1, Math.ceil(waitMs / 1000)));
  return problem(429, `The destination has just been tested; again in ${seconds} s`, undefined, {
    "retry-after": seconds,
  });
}

function trialView(url: string, { call, sent }: Extract<TestResult, { kind: "made" }>) {
  const { exchange, startedAt, endedAt, excerpt, location } = call;
  return {
    ...(exchange.kind === "response" ? { status: exchange.status } : { error: exchange.kind }),
    latency_ms: endedAt - startedAt,
    ...(excerpt && { response: excerpt }),
    ...(location && { location: location.slice(0, 200) }),
    sent: { url, headers: { ...sent.headers }, body: sent.body },
  };
}
