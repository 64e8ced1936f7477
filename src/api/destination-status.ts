/** Pausing a destination and letting it go on. Both may be repeated: the answer is the destination. */
import { createRoute } from "@hono/zod-openapi";
import { resumeGate, ringGate } from "../gate/gate-client.ts";
import type { Destination } from "../store/destination-settings.ts";
import { changeDestination, findDestination } from "../store/destinations.ts";
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

const pause = createRoute({ ...common, path: "/v1/destinations/{id}/pause" });
const resume = createRoute({ ...common, path: "/v1/destinations/{id}/resume" });

const paused = { status: "paused", statusReason: "manual" } as const;
const active = { status: "active", statusReason: null } as const;

export function registerDestinationStatus(api: Api): void {
  api.openapi(pause, async (c) => {
    const { db, now } = c.get("services");
    const [{ id }, { tenant }] = [c.req.valid("param"), c.get("principal")];
    const row = await changeDestination(db, id, { ...paused, updatedAt: now() }, tenant);
    return row ? c.json(destinationView(row, c.get("principal")), 200) : noSuch("destination", id);
  });

  api.openapi(resume, async (c) => {
    const services = c.get("services");
    const [{ id }, { tenant }] = [c.req.valid("param"), c.get("principal")];
    const before = await findDestination(services.db, id, tenant);
    const row = await changeDestination(services.db, id, { ...active, updatedAt: services.now() }, tenant);
    if (before === undefined || row === undefined) return noSuch("destination", id);
    services.background(openDoor(before)(services, id));
    return c.json(destinationView(row, c.get("principal")), 200);
  });
}

/** Only a pause that is lifted starts from one again; a repeated resume must not throttle what runs well. */
function openDoor({ status }: Destination) {
  return status === "paused" ? resumeGate : ringGate;
}
