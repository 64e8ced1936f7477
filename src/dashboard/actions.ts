/** What is done at the press of one button. Each is one call of the API, and then the page again. */
import type { Hono } from "hono";
import { deliveryKey, eventId } from "../id.ts";
import { isoTime } from "../iso-time.ts";
import type { DashboardContext, DashboardEnv } from "./context.ts";
import { showDestination } from "./destination.tsx";
import { numberIn, textIn } from "./form-fields.ts";
import type { CallApi } from "./inside.ts";
import { showRefusal } from "./nothing.tsx";
import { type Done, doneAt } from "./notices.tsx";

const DAY_MS = 24 * 60 * 60_000;

export function registerActions(app: Hono<DashboardEnv>, callApi: CallApi): void {
  const destination = "/dashboard/destinations/:id";

  async function press(c: DashboardContext, apiPath: string, then: string, what: Done, body?: unknown) {
    const answer = await callApi(c, "POST", apiPath, body);
    return answer.ok ? c.redirect(doneAt(then, what), 303) : showRefusal(c, answer, then);
  }

  for (const [verb, what] of [
    ["pause", "paused"],
    ["resume", "resumed"],
    ["clear-hold", "hold-cleared"],
  ] as const) {
    app.post(`${destination}/${verb}`, (c) => {
      const id = c.req.param("id");
      return press(c, `/v1/destinations/${id}/${verb}`, `/dashboard/destinations/${id}`, what);
    });
  }

  app.post(`${destination}/replay`, async (c) => {
    const id = c.req.param("id");
    const form = await c.req.parseBody();
    const now = c.get("services").now();
    const days = Number(textIn(form, "days") ?? 30);
    const answer = await callApi(c, "POST", "/v1/replays", {
      destination_id: id,
      since: isoTime(now - days * DAY_MS),
      until: isoTime(now),
      include: textIn(form, "include") ?? "dead",
      rate_per_minute: numberIn(form, "rate_per_minute") ?? 100,
    });
    if (!answer.ok) return showDestination(c, id, { refused: answer });
    return c.redirect(doneAt(`/dashboard/destinations/${id}`, "replaying", "#replays"), 303);
  });

  for (const [verb, what] of [
    ["pause", "replay-paused"],
    ["resume", "replay-resumed"],
    ["cancel", "replay-cancelled"],
  ] as const) {
    app.post(`${destination}/replays/:replay/${verb}`, (c) => {
      const { id, replay } = c.req.param();
      return press(c, `/v1/replays/${replay}/${verb}`, `/dashboard/destinations/${id}`, what);
    });
  }

  app.post("/dashboard/deliveries/:id/retry", (c) => {
    const id = c.req.param("id");
    const key = deliveryKey(id);
    const then = key ? `/dashboard/events/${eventId(key.eventId)}` : "/dashboard";
    return press(c, `/v1/deliveries/${id}/retry`, then, "retried");
  });
}
