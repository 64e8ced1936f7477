/** What is done at the press of one button. Each is one call of the API, and then the page again. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { deliveryKey, eventId } from "../../ids.ts";
import { isoTime } from "../../time.ts";
import { breaker, type Form, limits, numberIn, textIn } from "../components/forms.tsx";
import { showPage } from "../components/layout.tsx";
import { Copyable, type Done, doneAt } from "../components/parts.tsx";
import { spanOf } from "../format.ts";
import type { CallApi } from "../internal-client.ts";
import type { DashboardContext, DashboardEnv } from "../session.ts";
import { causeText } from "../status-text.ts";
import { showDestination } from "./destination.tsx";
import { showRefusal } from "./error-pages.tsx";

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

// §§ Saving a destination's limits.

export function registerLimits(app: Hono<DashboardEnv>, callApi: CallApi): void {
  app.post("/dashboard/destinations/:id/limits", async (c) => {
    const id = c.req.param("id");
    const form = await c.req.parseBody();
    const answer = await callApi(c, "PATCH", `/v1/destinations/${id}`, changeIn(form));
    if (!answer.ok) return showDestination(c, id, { refused: answer, typed: form });
    return c.redirect(doneAt(`/dashboard/destinations/${id}`, "limits", "#limits"), 303);
  });
}

function changeIn(form: Form) {
  const pick = (fields: typeof limits | typeof breaker) =>
    Object.fromEntries(fields.map(([name]) => [name, numberIn(form, name)]));
  return { ...pick(limits), breaker: pick(breaker) };
}

// §§ A test event: sent at once, and told of in full on a page of its own. Nothing of it is stored.

/** As the API tells of it. */
type Trial = Readonly<{
  status?: number;
  error?: string;
  latency_ms: number;
  response?: string;
  location?: string;
  sent: Readonly<{ url: string; headers: Readonly<Record<string, string>>; body: string }>;
}>;

export function registerTestEvent(app: Hono<DashboardEnv>, callApi: CallApi): void {
  app.post("/dashboard/destinations/:id/test", async (c) => {
    const id = c.req.param("id");
    const back = `/dashboard/destinations/${id}`;
    const answer = await callApi(c, "POST", `/v1/destinations/${id}/test`);
    return answer.ok ? showTrial(c, answer.json as Trial, back) : showRefusal(c, answer, back);
  });
}

function showTrial(c: DashboardContext, trial: Trial, path: string) {
  return showPage(c, { title: "Test event" }, <TrialPage trial={trial} path={path} />);
}

const TrialPage: FC<{ trial: Trial; path: string }> = ({ trial, path }) => (
  <>
    <section>
      <p class="crumb">
        <a href={path}>The destination</a>
      </p>
      <h1>{headline(trial)}</h1>
      <p class="lede">
        {`After ${spanOf(trial.latency_ms)}. It was a test: signed like any event, but it is no delivery, is not tried again and counts for nothing.`}
      </p>
    </section>
    <section class="actions" aria-label="Actions">
      <form method="post" action={`${path}/test`}>
        <button type="submit">Test once more</button>
      </form>
      <a class="button" href={path}>
        Back to the destination
      </a>
    </section>
    {trial.location !== undefined && (
      <Told id="location" title="It would have led to" text={trial.location} />
    )}
    {trial.response !== undefined && (
      <Told id="response" title="The answer began with" text={trial.response} />
    )}
    <Told id="sent" title="What was sent" text={requestOf(trial.sent)} />
  </>
);

const Told: FC<{ id: string; title: string; text: string }> = ({ id, title, text }) => (
  <section aria-labelledby={`${id}-head`}>
    <div class="head">
      <h2 id={`${id}-head`}>{title}</h2>
    </div>
    <Copyable id={id} label={`${title}: the text`} text={text} />
  </section>
);

function headline({ status, error }: Trial): string {
  if (status === undefined) return `No answer came: ${causeText(error ?? "network")}.`;
  return status >= 200 && status < 300
    ? `The receiver took it: HTTP ${status}.`
    : `The receiver refused it: HTTP ${status}.`;
}

/** As it would look on the wire. */
function requestOf({ url, headers, body }: Trial["sent"]): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return [`POST ${url}`, ...lines, "", body].join("\n");
}
