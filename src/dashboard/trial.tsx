/** A test event: sent at once, and told of in full on a page of its own. Nothing of it is stored. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { DashboardContext, DashboardEnv } from "./context.ts";
import { causeText } from "./delivery-words.ts";
import { spanOf } from "./figures.ts";
import type { CallApi } from "./inside.ts";
import { showPage } from "./layout.tsx";
import { showRefusal } from "./nothing.tsx";
import { Copyable } from "./parts.tsx";

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
