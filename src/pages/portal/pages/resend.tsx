/** Sending again: one delivery, those that are selected, or many since a time, as a replay. */
import type { Hono } from "hono";
import { retryDeliveries, retryDelivery } from "../../../features/deliveries/repairs.ts";
import { newReplay } from "../../../features/replays/schema.ts";
import { cancelReplay, startReplay } from "../../../features/replays/service.ts";
import { deliveryKey } from "../../../ids.ts";
import { isoTime } from "../../../time.ts";
import { textIn } from "../../ui/format.ts";
import { attempt, attemptWith } from "../../ui/services.ts";
import { actInPortal, showPortalNotFound, showRefused } from "../layout.tsx";
import type { Look } from "../look.ts";
import { may } from "../may.ts";
import { portalOutcomeAt } from "../parts.tsx";
import { fieldFaultsOf } from "../problems.ts";
import { callerInPortal, type PortalEnv } from "../session.ts";
import { showEndpoint } from "./endpoint.tsx";

const ENDPOINT = "/portal/endpoints/:id";
/** As many as a page of the table has. */
const MOST_SELECTED = 25;

export function registerResend(app: Hono<PortalEnv>): void {
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
    const caller = callerInPortal(c);
    const retried = await attempt(caller, () => retryDeliveries(caller, own));
    if (retried.kind !== "ok") return showRefused(c, retried, `/portal/endpoints/${id}`);
    const done = retried.value.filter(({ result }) => result.kind === "ok").length;
    return showEndpoint(c, id, { notice: noticeOf(c.get("look"), done, selected.length) });
  });

  app.post(`${ENDPOINT}/replay`, may("resend"), async (c) => {
    const id = c.req.param("id");
    const form = await c.req.parseBody();
    const look = c.get("look");
    const since = timeIn(textIn(form, "since"));
    if (since === undefined) return showEndpoint(c, id, { faults: { since: look.t.faults.since } });
    const body = {
      destination_id: id,
      since,
      until: isoTime(c.get("services").now()),
      include: textIn(form, "include") ?? "dead",
    };
    const caller = callerInPortal(c);
    const begun = await attemptWith(caller, newReplay, body, (input) => startReplay(caller, input));
    if (begun.kind === "ok")
      return c.redirect(portalOutcomeAt(`/portal/endpoints/${id}`, "replaying", "#replays"), 303);
    if (begun.kind === "not_found") return showPortalNotFound(c);
    const faults = begun.kind === "conflict" ? { since: look.t.resend.underWay } : fieldFaultsOf(look, begun);
    const fault = faults.since ?? faults.until ?? faults.form ?? look.t.refused.general;
    return showEndpoint(c, id, { faults: { since: fault } });
  });

  app.post(`${ENDPOINT}/replays/:replay/cancel`, may("resend"), (c) => {
    const { id, replay } = c.req.param();
    const back = `/portal/endpoints/${id}`;
    return actInPortal(c, (caller) => cancelReplay(caller, replay), [back, "replay-cancelled", "#replays"]);
  });
}

function noticeOf({ t, f }: Look, done: number, all: number): string {
  const some = t.resentSome(f.count(done), f.count(all));
  return done === all ? some : `${some} ${t.resentNot}`;
}

/** The value of a field of the type datetime-local, as UTC; undefined when it is no time. */
function timeIn(text: string | undefined): string | undefined {
  if (text === undefined || !/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/.test(text)) return undefined;
  const at = Date.parse(`${text}Z`);
  return Number.isNaN(at) ? undefined : isoTime(at);
}
