/** Actions of the buttons and forms on the pages of destinations and events. Each calls a service, and then redirects back. */
import { DAY_MS } from "../../../core/retention.ts";
import { skipDelivery } from "../../../features/deliveries/ordering.ts";
import {
  cancelOneDelivery,
  cancelWaiting,
  retryDelivery,
  tryDeliveryNow,
} from "../../../features/deliveries/repairs.ts";
import type { WaitingPosition } from "../../../features/deliveries/schema.ts";
import { clearHold } from "../../../features/destinations/health.ts";
import { isRepeatedRotation, rotateSecret, secretRotation } from "../../../features/destinations/secrets.ts";
import {
  getDestination,
  pauseDestination,
  resumeDestination,
  updateDestination,
} from "../../../features/destinations/service.ts";
import { newReplay } from "../../../features/replays/schema.ts";
import { cancelReplay, pauseReplay, resumeReplay, startReplay } from "../../../features/replays/service.ts";
import { deliveryKey, eventId } from "../../../ids.ts";
import { isoTime } from "../../../time.ts";
import { numberIn, textIn } from "../../ui/format.ts";
import { changedMeanwhile, saveDestination } from "../../ui/services.ts";
import { actAndReturn, showNotFound, showRefusal } from "../components/layout.tsx";
import { limitsIn } from "../destination-input.ts";
import { outcomeAt } from "../outcomes.ts";
import { callerOnPage, callService, callWith, type Dashboard, mayCall } from "../session.ts";
import { showDestination } from "./destination.tsx";
import { showNewSecret } from "./edit-destination.tsx";

const DESTINATION = "/dashboard/destinations/:id";
/** Calls, of a few thousand deliveries each, that one press of the button makes. */
const CANCEL_CALLS = 5;

/** The actions of a replay's buttons, and the message about each. */
export const replayVerbs = [
  ["pause", "replay-paused", pauseReplay],
  ["resume", "replay-resumed", resumeReplay],
  ["cancel", "replay-cancelled", cancelReplay],
] as const;

export function registerActions(app: Dashboard): void {
  for (const [verb, outcome, act] of [
    ["pause", "paused", pauseDestination],
    ["resume", "resumed", resumeDestination],
    ["clear-hold", "hold-cleared", clearHold],
  ] as const)
    app.post(`${DESTINATION}/${verb}`, (c) => {
      const id = c.req.param("id");
      return actAndReturn(c, (caller) => act(caller, id), `/dashboard/destinations/${id}`, outcome);
    });

  for (const [verb, outcome, act] of replayVerbs)
    app.post(`${DESTINATION}/replays/:replay/${verb}`, (c) => {
      const { id, replay } = c.req.param();
      return actAndReturn(c, (caller) => act(caller, replay), `/dashboard/destinations/${id}`, outcome);
    });

  for (const [verb, outcome, act] of [
    ["retry", "retried", retryDelivery],
    ["cancel", "delivery-cancelled", cancelOneDelivery],
    ["skip", "delivery-skipped", skipDelivery],
  ] as const)
    app.post(`/dashboard/deliveries/:id/${verb}`, (c) => {
      const id = c.req.param("id");
      return actAndReturn(c, (caller) => act(caller, id), eventAt(id), outcome);
    });

  app.post("/dashboard/deliveries/:id/try-now", async (c) => {
    const id = c.req.param("id");
    const tried = await callService(c, tryDeliveryNow, id);
    if (tried.kind !== "ok") return showRefusal(c, tried, eventAt(id));
    return c.redirect(outcomeAt(eventAt(id), tried.value.isProbe ? "tried-now-probe" : "tried-now"), 303);
  });

  app.post(`${DESTINATION}/cancel-waiting`, async (c) => {
    const destination = c.req.param("id");
    const back = `/dashboard/destinations/${destination}`;
    let cursor: WaitingPosition | undefined;
    for (let calls = 0; calls < CANCEL_CALLS; calls++) {
      const cancelled = await callService(c, cancelWaiting, { destination, cursor });
      if (cancelled.kind !== "ok") return showRefusal(c, cancelled, back);
      cursor = cancelled.value.next;
      if (cursor === undefined) break;
    }
    const outcome = cursor === undefined ? "waiting-cancelled" : "waiting-cancelled-partly";
    return c.redirect(outcomeAt(back, outcome), 303);
  });

  app.post(`${DESTINATION}/limits`, async (c) => {
    const id = c.req.param("id");
    const typed = await c.req.parseBody();
    const found = await callService(c, getDestination, id);
    if (found.kind !== "ok") return showNotFound(c);
    const updatedAt = isoTime(found.value.updatedAt);
    const changed = mayCall(c, updateDestination) && changedMeanwhile(typed, updatedAt, "destination");
    if (changed) return showDestination(c, id, { of: "limits", refused: changed, typed });
    const change = { id, input: limitsIn(typed), requestUrl: c.req.url };
    const updated = await saveDestination(callerOnPage(c), change);
    if (updated.kind !== "ok") return showDestination(c, id, { of: "limits", refused: updated, typed });
    return c.redirect(outcomeAt(`/dashboard/destinations/${id}`, "limits", "#limits"), 303);
  });

  app.post(`${DESTINATION}/rotate`, async (c) => {
    const id = c.req.param("id");
    const form = await c.req.parseBody();
    const hours = numberIn(form, "overlap_hours");
    const typed = {
      overlap_s: typeof hours === "number" ? Math.round(hours * 3600) : hours,
      // A form that does not name the secret to replace must not replace the current one.
      secret_version: numberIn(form, "secret_version") ?? 0,
      signature: textIn(form, "signature"),
    };
    const rotated = await callWith(c, secretRotation, typed, (caller, rotation) =>
      rotateSecret(caller, { ...rotation, id }),
    );
    if (rotated.kind === "ok") return showNewSecret(c, rotated.value, "rotated");
    // Without permission to rotate the page has no such form, so nothing typed is lost.
    if (rotated.kind === "forbidden") return showRefusal(c, rotated, `/dashboard/destinations/${id}`);
    return isRepeatedRotation(rotated)
      ? c.redirect(outcomeAt(`/dashboard/destinations/${id}`, "rotated-before", "#secret-head"), 303)
      : showDestination(c, id, { of: "rotation", refused: rotated, typed: form });
  });

  app.post(`${DESTINATION}/replay`, async (c) => {
    const id = c.req.param("id");
    const form = await c.req.parseBody();
    const now = c.get("services").now();
    const days = textIn(form, "days") ?? "30";
    const since = now - Number(days) * DAY_MS;
    const include = textIn(form, "include") ?? "dead";
    const asked = {
      destination_id: id,
      // Days that are no number would be a time in 1970, and everything would be sent again.
      since: since >= 0 ? isoTime(since) : days,
      until: isoTime(now),
      include,
      ...(include === "missing" && { matching: textIn(form, "matching") !== "false" }),
      rate_per_minute: numberIn(form, "rate_per_minute") ?? 100,
    };
    const started = await callWith(c, newReplay, asked, startReplay);
    if (started.kind !== "ok") return showDestination(c, id, { of: "replay", refused: started, typed: form });
    return c.redirect(outcomeAt(`/dashboard/destinations/${id}`, "replaying", "#replays"), 303);
  });
}
function eventAt(delivery: string): string {
  const key = deliveryKey(delivery);
  return key ? `/dashboard/events/${eventId(key.eventId)}` : "/dashboard";
}
