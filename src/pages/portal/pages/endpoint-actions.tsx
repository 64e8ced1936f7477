/** What the buttons on an endpoint's page do. Each calls one service, and then redirects or shows a page of its own. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { isRepeatedRotation, rotateSecret, secretRotation } from "../../../features/destinations/secrets.ts";
import {
  pauseDestination,
  removeDestination,
  resumeDestination,
  type TestReport,
  testDestination,
} from "../../../features/destinations/service.ts";
import { requestText } from "../../ui/exchange.ts";
import { numberIn } from "../../ui/format.ts";
import { attempt, attemptWith } from "../../ui/services.ts";
import { showPage, showRefused } from "../layout.tsx";
import type { Look } from "../look.ts";
import { may } from "../may.ts";
import { Copy, outcomeAt } from "../parts.tsx";
import { callerInPortal, type PortalEnv } from "../session.ts";
import { reasonText } from "../state-text.ts";
import { showEndpoint } from "./endpoint.tsx";
import { showEndpointSecret } from "./endpoint-form.tsx";

const ENDPOINT = "/portal/endpoints/:id";

export function registerEndpointActions(app: Hono<PortalEnv>): void {
  for (const [verb, action, outcome, act] of [
    ["pause", "pause_endpoint", "paused", pauseDestination],
    ["resume", "resume_endpoint", "resumed", resumeDestination],
  ] as const) {
    app.post(`${ENDPOINT}/${verb}`, may(action), async (c) => {
      const id = c.req.param("id");
      const path = `/portal/endpoints/${id}`;
      const caller = callerInPortal(c);
      const done = await attempt(caller, () => act(caller, id));
      return done.kind === "ok" ? c.redirect(outcomeAt(path, outcome), 303) : showRefused(c, done, path);
    });
  }

  app.post(`${ENDPOINT}/delete`, may("delete_endpoint"), async (c) => {
    const id = c.req.param("id");
    const caller = callerInPortal(c);
    const removed = await attempt(caller, () => removeDestination(caller, id));
    return removed.kind === "ok"
      ? c.redirect(outcomeAt("/portal", "deleted"), 303)
      : showRefused(c, removed, `/portal/endpoints/${id}`);
  });

  app.post(`${ENDPOINT}/rotate`, may("rotate_secret"), async (c) => {
    const id = c.req.param("id");
    const path = `/portal/endpoints/${id}`;
    const form = await c.req.parseBody();
    const { t, f } = c.get("look");
    const hours = numberIn(form, "overlap_hours") ?? 24;
    if (typeof hours !== "number" || hours < 0 || hours > 168)
      return showEndpoint(c, id, { faults: { overlap_hours: t.faults.overlap_hours }, status: 422 });
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
      return c.redirect(outcomeAt(path, "rotated-before", "#secret-head"), 303);
    if (rotated.kind === "conflict" && rotated.retryAfterS !== undefined) {
      const fault = t.secret.tooMany(f.duration(rotated.retryAfterS * 1000));
      return showEndpoint(c, id, { faults: { overlap_hours: fault }, status: 422 });
    }
    return showRefused(c, rotated, path);
  });

  app.post(`${ENDPOINT}/test`, may("send_test"), async (c) => {
    const id = c.req.param("id");
    const path = `/portal/endpoints/${id}`;
    const caller = callerInPortal(c);
    const tested = await attempt(caller, () => testDestination(caller, id));
    if (tested.kind !== "ok") return showRefused(c, tested, path);
    const look = c.get("look");
    return showPage(
      c,
      { title: look.t.test.title, place: "endpoints" },
      <TestPage look={look} report={tested.value} path={path} />,
    );
  });
}

const TestPage: FC<{ look: Look; report: TestReport; path: string }> = ({ look, report, path }) => {
  const { t, f } = look;
  const { response, location, sent } = report;
  return (
    <>
      <section>
        <p class="crumb">
          <a href={path}>{t.test.back}</a>
        </p>
        <h1>{headline(look, report)}</h1>
        <p class="lede">{t.test.took(f.duration(report.latency_ms))}</p>
      </section>
      <section class="actions" aria-label={t.test.title}>
        <form method="post" action={`${path}/test`}>
          <button type="submit">{t.test.again}</button>
        </form>
        <a class="button" href={path}>
          {t.test.back}
        </a>
      </section>
      {location !== undefined && <Part look={look} id="location" title={t.test.redirect} text={location} />}
      {response !== undefined && <Part look={look} id="response" title={t.test.response} text={response} />}
      <Part look={look} id="sent" title={t.test.request} text={requestText(sent)} />
    </>
  );
};

const Part: FC<{ look: Look; id: string; title: string; text: string }> = ({ look, id, title, text }) => (
  <section aria-labelledby={`${id}-head`}>
    <div class="head">
      <h2 id={`${id}-head`}>{title}</h2>
    </div>
    <Copy look={look} id={id} label={title} text={text} />
  </section>
);

function headline(look: Look, { status, error }: TestReport): string {
  const { t } = look;
  if (status === undefined || error !== undefined)
    return t.test.noAnswer(reasonText(look, error ?? "network"));
  return status >= 200 && status < 300 ? t.test.accepted(String(status)) : t.test.rejected(String(status));
}
