/** Sending again: one delivery, those that are selected, or many since a time, as a replay. */
import type { Hono } from "hono";
import { apiPath } from "../../../http/internal-path.ts";
import { deliveryKey } from "../../../ids.ts";
import { isoTime } from "../../../time.ts";
import { textIn } from "../../ui/format.ts";
import { type CallApi, may } from "../call-api.ts";
import { showNotFound, showRefused } from "../layout.tsx";
import type { Look } from "../look.ts";
import { outcomeAt } from "../parts.tsx";
import { faultsOf } from "../problems.ts";
import type { PortalEnv } from "../session.ts";
import { showEndpoint } from "./endpoint.tsx";

const ENDPOINT = "/portal/endpoints/:id";
/** As many as a page of the table has. */
const MOST_SELECTED = 25;

export function registerResend(app: Hono<PortalEnv>, callApi: CallApi): void {
  app.post("/portal/deliveries/:id/resend", may("resend"), async (c) => {
    const id = c.req.param("id");
    const path = `/portal/deliveries/${id}`;
    const call = { method: "POST", path: apiPath`/v1/deliveries/${id}/retry` };
    const result = await callApi(c, call);
    return result.ok ? c.redirect(outcomeAt(path, "resent"), 303) : showRefused(c, result, path);
  });

  app.post(`${ENDPOINT}/resend`, may("resend"), async (c) => {
    const id = c.req.param("id");
    const { delivery: given = [] } = await c.req.parseBody({ all: true });
    const ids = [given].flat().filter((one) => typeof one === "string");
    const selected = [...new Set(ids)].slice(0, MOST_SELECTED);
    // A page sends deliveries of its own endpoint.
    const own = selected.filter((one) => deliveryKey(one)?.destinationId === id);
    if (own.length === 0)
      return c.redirect(outcomeAt(`/portal/endpoints/${id}`, "none-selected", "#deliveries"), 303);
    const body = { delivery_ids: own };
    const result = await callApi(c, { method: "POST", path: apiPath`/v1/deliveries/retry`, body });
    if (!result.ok) return showRefused(c, result, `/portal/endpoints/${id}`);
    const each = result.json.data as readonly Readonly<{ delivery?: unknown }>[];
    const done = each.filter(({ delivery }) => delivery !== undefined).length;
    return showEndpoint(c, id, { notice: noticeOf(c.get("look"), done, selected.length) });
  });

  app.post(`${ENDPOINT}/replay`, may("resend"), async (c) => {
    const id = c.req.param("id");
    const form = await c.req.parseBody();
    const look = c.get("look");
    const since = timeIn(textIn(form, "since"));
    if (since === undefined)
      return showEndpoint(c, id, { faults: { since: look.t.faults.since }, status: 422 });
    const body = {
      destination_id: id,
      since,
      until: isoTime(c.get("services").now()),
      include: textIn(form, "include") ?? "dead",
    };
    const result = await callApi(c, { method: "POST", path: apiPath`/v1/replays`, body });
    if (result.ok) return c.redirect(outcomeAt(`/portal/endpoints/${id}`, "replaying", "#replays"), 303);
    if (result.status === 404) return showNotFound(c);
    const faults = result.status === 409 ? { since: look.t.resend.underWay } : faultsOf(look, result);
    const fault = faults.since ?? faults.until ?? faults.form ?? look.t.refused.general;
    return showEndpoint(c, id, { faults: { since: fault }, status: 422 });
  });

  app.post(`${ENDPOINT}/replays/:replay/cancel`, may("resend"), async (c) => {
    const { id, replay } = c.req.param();
    const path = `/portal/endpoints/${id}`;
    const result = await callApi(c, { method: "POST", path: apiPath`/v1/replays/${replay}/cancel` });
    return result.ok
      ? c.redirect(outcomeAt(path, "replay-cancelled", "#replays"), 303)
      : showRefused(c, result, path);
  });
}

function noticeOf({ t, f }: Look, done: number, all: number): string {
  const some = t.resentSome(f.count(done), f.count(all));
  return done === all ? some : `${some} ${t.resentNot}`;
}

/** What a field of the type datetime-local has, as UTC; undefined when it is no time. */
function timeIn(text: string | undefined): string | undefined {
  if (text === undefined || !/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/.test(text)) return undefined;
  const at = Date.parse(`${text}Z`);
  return Number.isNaN(at) ? undefined : isoTime(at);
}
