/** Actions of the buttons on an endpoint's page. Each calls one service, and then redirects. */
import type { Hono } from "hono";
import { isRepeatedRotation, rotateSecret, secretRotation } from "../../../features/destinations/secrets.ts";
import {
  pauseDestination,
  removeDestination,
  resumeDestination,
} from "../../../features/destinations/service.ts";
import { numberIn } from "../../ui/format.ts";
import { attemptWith } from "../../ui/services.ts";
import { actInPortal, showRefused } from "../layout.tsx";
import { may } from "../may.ts";
import { portalOutcomeAt } from "../parts.tsx";
import { callerInPortal, type PortalEnv } from "../session.ts";
import { showEndpoint } from "./endpoint.tsx";
import { showEndpointSecret } from "./endpoint-form.tsx";

const ENDPOINT = "/portal/endpoints/:id";

export function registerEndpointActions(app: Hono<PortalEnv>): void {
  for (const [verb, action, outcome, act] of [
    ["pause", "pause_endpoint", "paused", pauseDestination],
    ["resume", "resume_endpoint", "resumed", resumeDestination],
  ] as const)
    app.post(`${ENDPOINT}/${verb}`, may(action), (c) => {
      const id = c.req.param("id");
      return actInPortal(c, (caller) => act(caller, id), [`/portal/endpoints/${id}`, outcome]);
    });

  app.post(`${ENDPOINT}/delete`, may("delete_endpoint"), (c) => {
    const id = c.req.param("id");
    const back = `/portal/endpoints/${id}`;
    return actInPortal(c, (caller) => removeDestination(caller, id), ["/portal", "deleted"], back);
  });

  app.post(`${ENDPOINT}/rotate`, may("rotate_secret"), async (c) => {
    const id = c.req.param("id");
    const path = `/portal/endpoints/${id}`;
    const form = await c.req.parseBody();
    const { t, f } = c.get("look");
    const hours = numberIn(form, "overlap_hours") ?? 24;
    if (typeof hours !== "number" || hours < 0 || hours > 168)
      return showEndpoint(c, id, { faults: { overlap_hours: t.faults.overlap_hours } });
    const body = {
      overlap_s: Math.round(hours * 3600),
      // A form that does not name the secret to replace must not replace the current one.
      secret_version: numberIn(form, "secret_version") ?? 0,
    };
    const caller = callerInPortal(c);
    const rotated = await attemptWith(caller, secretRotation, body, (rotation) =>
      rotateSecret(caller, { ...rotation, id }),
    );
    if (rotated.kind === "ok") return showEndpointSecret(c, rotated.value, "rotated");
    if (isRepeatedRotation(rotated))
      return c.redirect(portalOutcomeAt(path, "rotated-before", "#secret-head"), 303);
    if (rotated.kind === "conflict" && rotated.retryAfterS !== undefined) {
      const fault = t.secret.tooMany(f.duration(rotated.retryAfterS * 1000));
      return showEndpoint(c, id, { faults: { overlap_hours: fault } });
    }
    return showRefused(c, rotated, path);
  });
}
