/** Actions of the buttons on an endpoint's page. Each calls one service, and then redirects or shows a page of its own. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { isRepeatedRotation, rotateSecret, secretRotation } from "../../../features/destinations/secrets.ts";
import {
  getDestination,
  pauseDestination,
  removeDestination,
  resumeDestination,
  type TestReport,
  testDestination,
} from "../../../features/destinations/service.ts";
import { getTypesWithExamples } from "../../../features/event-types/service.ts";
import { requestText, responseText } from "../../ui/exchange.ts";
import { numberIn, textIn } from "../../ui/format.ts";
import { ButtonLink, Crumb } from "../../ui/parts.tsx";
import { attempt, attemptWith } from "../../ui/services.ts";
import { TestForm } from "../../ui/test-form.tsx";
import { showPortalNotFound, showPortalPage, showPortalRefusal, showRefused } from "../layout.tsx";
import type { Look } from "../look.ts";
import { may } from "../may.ts";
import { Copy, portalOutcomeAt } from "../parts.tsx";
import { callerInPortal, type PortalContext, type PortalEnv } from "../session.ts";
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
      return done.kind === "ok"
        ? c.redirect(portalOutcomeAt(path, outcome), 303)
        : showRefused(c, done, path);
    });
  }

  app.post(`${ENDPOINT}/delete`, may("delete_endpoint"), async (c) => {
    const id = c.req.param("id");
    const caller = callerInPortal(c);
    const removed = await attempt(caller, () => removeDestination(caller, id));
    return removed.kind === "ok"
      ? c.redirect(portalOutcomeAt("/portal", "deleted"), 303)
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
      return c.redirect(portalOutcomeAt(path, "rotated-before", "#secret-head"), 303);
    if (rotated.kind === "conflict" && rotated.retryAfterS !== undefined) {
      const fault = t.secret.tooMany(f.duration(rotated.retryAfterS * 1000));
      return showEndpoint(c, id, { faults: { overlap_hours: fault }, status: 422 });
    }
    return showRefused(c, rotated, path);
  });

  app.get(`${ENDPOINT}/test`, may("send_test"), async (c) => {
    const found = await getDestination(callerInPortal(c), c.req.param("id"));
    return found.kind === "ok" ? showTest(c) : showPortalNotFound(c);
  });

  app.post(`${ENDPOINT}/test`, may("send_test"), async (c) => {
    const id = c.req.param("id");
    const type = textIn(await c.req.parseBody(), "type");
    const caller = callerInPortal(c);
    const tested = await attempt(caller, () => testDestination(caller, { id, type }));
    if (tested.kind === "ok") return showTest(c, { report: tested.value, type });
    const path = `/portal/endpoints/${id}`;
    return tested.kind === "invalid"
      ? showPortalRefusal(c, c.get("look").t.test.noExample, `${path}/test`, 422)
      : showRefused(c, tested, path);
  });
}

type Tested = Readonly<{ report: TestReport; type: string | undefined }>;

async function showTest(c: PortalContext, tested?: Tested) {
  const look = c.get("look");
  const path = `/portal/endpoints/${c.req.param("id")}`;
  const listed = await getTypesWithExamples(callerInPortal(c), undefined);
  const types = listed.kind === "ok" ? listed.value : [];
  return showPortalPage(
    c,
    { title: look.t.test.title, place: "endpoints" },
    <TestPage look={look} {...tested} types={types} path={path} />,
  );
}

type TestPageProps = Readonly<{ look: Look; path: string; types: readonly string[] }> & Partial<Tested>;

const TestPage: FC<TestPageProps> = ({ look, path, types, report, type }) => {
  const { t, f } = look;
  const response = report && responseText(report);
  return (
    <>
      <section>
        <Crumb href={path}>{t.test.back}</Crumb>
        <h1>{report ? headline(look, report) : t.test.title}</h1>
        <p class="lede">
          {report && `${t.test.took(f.duration(report.latency_ms))} `}
          {t.test.what}
        </p>
      </section>
      <TestForm
        path={path}
        types={types}
        chosen={type}
        label={t.test.type}
        verb={report ? t.test.again : t.test.send}
      >
        <ButtonLink href={path}>{t.test.back}</ButtonLink>
      </TestForm>
      {report?.location !== undefined && (
        <Part look={look} id="location" title={t.test.redirect} text={report.location} />
      )}
      {response !== undefined && <Part look={look} id="response" title={t.test.response} text={response} />}
      {report && <Part look={look} id="sent" title={t.test.request} text={requestText(report.sent)} />}
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
