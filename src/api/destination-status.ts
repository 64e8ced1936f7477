/** Pausing a destination and letting it go on. Both may be repeated: the answer is the destination. */
import { createRoute } from "@hono/zod-openapi";
import { publishTurned } from "../delivery/tell-status.ts";
import { resumeAtGate, scheduleDrainAtGate } from "../gate/gate-client.ts";
import { pauseOf } from "../store/destination-settings.ts";
import { findDestination, turnDestination } from "../store/destinations.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { destinationSchema } from "./destination-schema.ts";
import { destinationView } from "./destination-view.ts";
import { noSuch, problemResponses } from "./problems.ts";
import { idParam, jsonAnswer } from "./route-parts.ts";

const common = {
  method: "post" as const,
  tags: ["Destinations"],
  middleware: [requires("admin")],
  request: { params: idParam },
  responses: { 200: jsonAnswer(destinationSchema, "The destination."), ...problemResponses(401, 403, 404) },
};

const pause = createRoute({
  ...common,
  path: "/v1/destinations/{id}/pause",
  summary: "Pause a destination",
  description:
    "Its events are held until their age limits. One that is paused stays as it is, for its reason.",
});
const resume = createRoute({
  ...common,
  path: "/v1/destinations/{id}/resume",
  summary: "Let a paused destination go on",
  description: "What has been held is delivered, beginning with one attempt at a time.",
});

const paused = { status: "paused", statusReason: "manual" } as const;
const active = { status: "active", statusReason: null } as const;

export function registerDestinationStatus(api: Api): void {
  api.openapi(pause, async (c) => {
    const services = c.get("services");
    const [{ id }, { tenant }] = [c.req.valid("param"), c.get("principal")];
    const now = services.now();
    const turned = await turnDestination(services.db, id, paused, tenant, now);
    if (turned) services.background(publishTurned(services, id, now));
    const row = turned ?? (await findDestination(services.db, id, tenant));
    return row ? c.json(destinationView(row, c.get("principal")), 200) : noSuch("destination", id);
  });

  api.openapi(resume, async (c) => {
    const services = c.get("services");
    const [{ id }, { tenant }] = [c.req.valid("param"), c.get("principal")];
    const now = services.now();
    const before = await findDestination(services.db, id, tenant);
    const pause = before && pauseOf(before);
    const turned = await turnDestination(services.db, id, active, tenant, now);
    const row = turned ?? (await findDestination(services.db, id, tenant));
    if (row === undefined) return noSuch("destination", id);
    if (turned) services.background(publishTurned(services, id, now));
    // Only a pause that is lifted starts from one again; a repeat must not throttle what runs well.
    services.background(turned ? resumeAtGate(services, id, pause) : scheduleDrainAtGate(services, id));
    return c.json(destinationView(row, c.get("principal")), 200);
  });
}
