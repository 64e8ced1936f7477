/** Actions of the buttons on the pages of endpoints and deliveries. Each calls one service, and then redirects. */
import { retryDeliveries, retryDelivery } from "../../../features/deliveries/repairs.ts";
import { isRepeatedRotation, rotateSecret, secretRotation } from "../../../features/destinations/secrets.ts";
import {
  pauseDestination,
  removeDestination,
  resumeDestination,
} from "../../../features/destinations/service.ts";
import { newReplay } from "../../../features/replays/schema.ts";
import { cancelReplay, startReplay } from "../../../features/replays/service.ts";
import { deliveryKey } from "../../../ids.ts";
import { isoTime } from "../../../time.ts";
import { numberIn, textIn } from "../../ui/format.ts";
import { attempt, attemptWith } from "../../ui/services.ts";
import { actInPortal, portalOutcomeAt, showPortalNotFound, showRefused } from "../layout.tsx";
import type { PortalStyle } from "../look.ts";
import { fieldFaultsOf } from "../problems.ts";
import { callerInPortal, type Portal } from "../session.ts";
import { may } from "../surface.ts";
import { showEndpoint } from "./endpoint.tsx";
import { showEndpointSecret } from "./endpoint-form.tsx";

const ENDPOINT = "/portal/endpoints/:id";

export function registerEndpointActions(app: Portal): void {
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
      return showEndpoint(c, id, { faults: { overlap_hours: t.faults.overlap_hours }, typed: form });
    const body = {
      overlap_s: Math.round(hours * 3600),
      // A form that does not name the secret to replace must not replace the current one.
      secret_version: numberIn(form, "secret_version") ?? 0,
    };
    const rotated = await attemptWith(callerInPortal(c), secretRotation, body, (caller, rotation) =>
      rotateSecret(caller, { ...rotation, id }),
    );
    if (rotated.kind === "ok") return showEndpointSecret(c, rotated.value, "rotated");
    if (isRepeatedRotation(rotated))
      return c.redirect(portalOutcomeAt(path, "rotated-before", "#secret-head"), 303);
    if (rotated.kind === "conflict" && rotated.retryAfterS !== undefined) {
      const fault = t.secret.tooMany(f.duration(rotated.retryAfterS * 1000));
      return showEndpoint(c, id, { faults: { overlap_hours: fault }, typed: form });
    }
    return showRefused(c, rotated, path);
  });

  app.post("/portal/deliveries/:id/resend", may("resend"), (c) => {
    const id = c.req.param("id");
    return actInPortal(c, (caller) => retryDelivery(caller, id), [`/portal/deliveries/${id}`, "resent"]);
  });

  app.post(`${ENDPOINT}/resend`, may("resend"), async (c) => {
    const id = c.req.param("id");
    const { delivery: given = [] } = await c.req.parseBody({ all: true });
    const ids = [given].flat().filter((one) => typeof one === "string");
    const selected = [...new Set(ids)].slice(0, MOST_SELECTED);
    // A page sends deliveries of its own endpoint.
    const own = selected.filter((one) => deliveryKey(one)?.destinationId === id);
    if (own.length === 0)
      return c.redirect(portalOutcomeAt(`/portal/endpoints/${id}`, "none-selected", "#deliveries"), 303);
    const retried = await attempt(callerInPortal(c), retryDeliveries, own);
    if (retried.kind !== "ok") return showRefused(c, retried, `/portal/endpoints/${id}`);
    const done = retried.value.filter(({ result }) => result.kind === "ok").length;
    return showEndpoint(c, id, { notice: noticeOf(c.get("look"), done, selected.length) });
  });

  app.post(`${ENDPOINT}/replay`, may("resend"), async (c) => {
    const id = c.req.param("id");
    const form = await c.req.parseBody();
    const look = c.get("look");
    const since = timeIn(textIn(form, "since"));
    if (since === undefined)
      return showEndpoint(c, id, { faults: { since: look.t.faults.since }, typed: form });
    const body = {
      destination_id: id,
      since,
      until: isoTime(c.get("services").now()),
      include: textIn(form, "include") ?? "dead",
    };
    const begun = await attemptWith(callerInPortal(c), newReplay, body, startReplay);
    if (begun.kind === "ok")
      return c.redirect(portalOutcomeAt(`/portal/endpoints/${id}`, "replaying", "#replays"), 303);
    if (begun.kind === "not_found") return showPortalNotFound(c);
    const faults = begun.kind === "conflict" ? { since: look.t.resend.underWay } : fieldFaultsOf(look, begun);
    const fault = faults.since ?? faults.until ?? faults.form ?? look.t.refused.general;
    return showEndpoint(c, id, { faults: { since: fault }, typed: form });
  });

  app.post(`${ENDPOINT}/replays/:replay/cancel`, may("resend"), (c) => {
    const { id, replay } = c.req.param();
    const back = `/portal/endpoints/${id}`;
    return actInPortal(c, (caller) => cancelReplay(caller, replay), [back, "replay-cancelled", "#replays"]);
  });
}

/** As many as a page of the table has. */
const MOST_SELECTED = 25;

function noticeOf({ t, f }: PortalStyle, done: number, all: number): string {
  const some = t.resentSome(f.count(done), f.count(all));
  return done === all ? some : `${some} ${t.resentNot}`;
}

/** The value of a field of the type datetime-local, as UTC; undefined when it is not a time. */
function timeIn(text: string | undefined): string | undefined {
  if (text === undefined || !/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/.test(text)) return undefined;
  const at = Date.parse(`${text}Z`);
  return Number.isNaN(at) ? undefined : isoTime(at);
}
