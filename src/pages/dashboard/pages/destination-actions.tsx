/**
 * Actions of the buttons and forms on the pages of destinations and events. Each calls a service, and then answers with a
 * redirect back to the page; a test event has a page of its own.
 */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
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
  type TestReport,
  testDestination,
  updateDestination,
} from "../../../features/destinations/service.ts";
import { readChange } from "../../../features/destinations/validate.ts";
import { getTypesWithExamples } from "../../../features/event-types/service.ts";
import { newReplay } from "../../../features/replays/schema.ts";
import { cancelReplay, pauseReplay, resumeReplay, startReplay } from "../../../features/replays/service.ts";
import { deliveryKey, eventId } from "../../../ids.ts";
import { isoTime } from "../../../time.ts";
import { requestText, responseText } from "../../ui/exchange.ts";
import { durationOf, numberIn, textIn } from "../../ui/format.ts";
import { ButtonLink, Copyable, Crumb, outcomeAt } from "../../ui/parts.tsx";
import { attempt, attemptRead, attemptWith } from "../../ui/services.ts";
import { causeHint, causeText } from "../../ui/status-text.ts";
import { TestForm } from "../../ui/test-form.tsx";
import { actAndReturn, showPage, showRefusal } from "../components/layout.tsx";
import { limitsIn } from "../destination-input.ts";
import { callerOnPage, type DashboardContext, type DashboardEnv } from "../session.ts";
import { showDestination } from "./destination.tsx";
import { showNewSecret } from "./new-destination.tsx";

const DESTINATION = "/dashboard/destinations/:id";
/** Calls, of a few thousand deliveries each, that one press of the button makes. */
const CANCEL_CALLS = 5;

export function registerActions(app: Hono<DashboardEnv>): void {
  for (const [verb, outcome, act] of [
    ["pause", "paused", pauseDestination],
    ["resume", "resumed", resumeDestination],
    ["clear-hold", "hold-cleared", clearHold],
  ] as const)
    app.post(`${DESTINATION}/${verb}`, (c) => {
      const id = c.req.param("id");
      return actAndReturn(c, (caller) => act(caller, id), `/dashboard/destinations/${id}`, outcome);
    });

  for (const [verb, outcome, act] of [
    ["pause", "replay-paused", pauseReplay],
    ["resume", "replay-resumed", resumeReplay],
    ["cancel", "replay-cancelled", cancelReplay],
  ] as const)
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
      const key = deliveryKey(id);
      const back = key ? `/dashboard/events/${eventId(key.eventId)}` : "/dashboard";
      return actAndReturn(c, (caller) => act(caller, id), back, outcome);
    });

  app.post("/dashboard/deliveries/:id/try-now", async (c) => {
    const id = c.req.param("id");
    const key = deliveryKey(id);
    const back = key ? `/dashboard/events/${eventId(key.eventId)}` : "/dashboard";
    const caller = callerOnPage(c);
    const tried = await attempt(caller, () => tryDeliveryNow(caller, id));
    return tried.kind === "ok"
      ? c.redirect(outcomeAt(back, tried.value.isProbe ? "tried-now-probe" : "tried-now"), 303)
      : showRefusal(c, tried, back);
  });

  app.post(`${DESTINATION}/cancel-waiting`, async (c) => {
    const destination = c.req.param("id");
    const back = `/dashboard/destinations/${destination}`;
    const caller = callerOnPage(c);
    let cursor: WaitingPosition | undefined;
    for (let calls = 0; calls < CANCEL_CALLS; calls++) {
      const cancelled = await attempt(caller, () => cancelWaiting(caller, { destination, cursor }));
      if (cancelled.kind !== "ok") return showRefusal(c, cancelled, back);
      cursor = cancelled.value.next;
      if (cursor === undefined) break;
    }
    const outcome = cursor === undefined ? "waiting-cancelled" : "waiting-cancelled-partly";
    return c.redirect(outcomeAt(back, outcome), 303);
  });
}

/** The forms on a destination's page. When one is refused, the page is shown with the reason. */
export function registerForms(app: Hono<DashboardEnv>): void {
  app.post(`${DESTINATION}/limits`, async (c) => {
    const id = c.req.param("id");
    const form = await c.req.parseBody();
    const caller = callerOnPage(c);
    const requestUrl = c.req.url;
    const read = readChange(caller.services, limitsIn(form), requestUrl);
    const updated = await attemptRead(caller, read, (change) =>
      updateDestination(caller, { id, change, requestUrl }),
    );
    if (updated.kind !== "ok") return showDestination(c, id, { refused: updated, typed: form });
    return c.redirect(outcomeAt(`/dashboard/destinations/${id}`, "limits", "#limits"), 303);
  });

  app.post(`${DESTINATION}/rotate`, async (c) => {
    const id = c.req.param("id");
    const form = await c.req.parseBody();
    const hours = numberIn(form, "overlap_hours");
    const caller = callerOnPage(c);
    const typed = {
      overlap_s: typeof hours === "number" ? Math.round(hours * 3600) : hours,
      // A form that does not name the secret to replace must not replace the current one.
      secret_version: numberIn(form, "secret_version") ?? 0,
      signature: textIn(form, "signature"),
    };
    const rotated = await attemptWith(caller, secretRotation, typed, (rotation) =>
      rotateSecret(caller, { ...rotation, id }),
    );
    if (rotated.kind === "ok") return showNewSecret(c, rotated.value, "rotated");
    // Without permission to rotate the page has no such form, so nothing typed is lost.
    if (rotated.kind === "forbidden") return showRefusal(c, rotated, `/dashboard/destinations/${id}`);
    return isRepeatedRotation(rotated)
      ? c.redirect(outcomeAt(`/dashboard/destinations/${id}`, "rotated-before", "#secret-head"), 303)
      : showDestination(c, id, { refused: rotated });
  });

  app.post(`${DESTINATION}/replay`, async (c) => {
    const id = c.req.param("id");
    const form = await c.req.parseBody();
    const now = c.get("services").now();
    const days = Number(textIn(form, "days") ?? 30);
    const include = textIn(form, "include") ?? "dead";
    const caller = callerOnPage(c);
    const asked = {
      destination_id: id,
      since: isoTime(now - days * DAY_MS),
      until: isoTime(now),
      include,
      ...(include === "missing" && { matching: textIn(form, "matching") !== "false" }),
      rate_per_minute: numberIn(form, "rate_per_minute") ?? 100,
    };
    const started = await attemptWith(caller, newReplay, asked, (input) => startReplay(caller, input));
    if (started.kind !== "ok") return showDestination(c, id, { refused: started });
    return c.redirect(outcomeAt(`/dashboard/destinations/${id}`, "replaying", "#replays"), 303);
  });
}

/** Chooses a test event, sends it, and shows what it did at once: nothing of it is stored. */
export function registerTestEvent(app: Hono<DashboardEnv>): void {
  app.get(`${DESTINATION}/test`, async (c) => {
    const found = await getDestination(callerOnPage(c), c.req.param("id"));
    return found.kind === "ok" ? showTest(c) : showRefusal(c, found, "/dashboard");
  });

  app.post(`${DESTINATION}/test`, async (c) => {
    const id = c.req.param("id");
    const type = textIn(await c.req.parseBody(), "type");
    const caller = callerOnPage(c);
    const tested = await attempt(caller, () => testDestination(caller, { id, type }));
    if (tested.kind !== "ok") return showRefusal(c, tested, `/dashboard/destinations/${id}`);
    return showTest(c, { report: tested.value, type });
  });
}

type Tested = Readonly<{ report: TestReport; type: string | undefined }>;

async function showTest(c: DashboardContext, tested?: Tested) {
  const path = `/dashboard/destinations/${c.req.param("id")}`;
  const listed = await getTypesWithExamples(callerOnPage(c), undefined);
  const types = listed.kind === "ok" ? listed.value : [];
  return showPage(c, { title: "Test event" }, <TestEventPage {...tested} types={types} path={path} />);
}

type TestPageProps = Readonly<{ path: string; types: readonly string[] }> & Partial<Tested>;

const TestEventPage: FC<TestPageProps> = ({ path, types, report, type }) => (
  <>
    <section>
      <Crumb href={path}>Destination</Crumb>
      <h1>{report ? headline(report) : "Send a test event"}</h1>
      <p class="lede">
        {`${report ? `It took ${durationOf(report.latency_ms)}. ` : ""}A test event is signed like any other event, but it is not stored, not retried and not counted.`}
      </p>
      {causeHint(report?.error) !== undefined && <p>{causeHint(report?.error)}</p>}
    </section>
    <TestForm
      path={path}
      types={types}
      chosen={type}
      label="Event type"
      verb={report ? "Send another test event" : "Send test event"}
    >
      <ButtonLink href={path}>Back to the destination</ButtonLink>
    </TestForm>
    {types.length === 0 && (
      <p class="soft small">
        Event types with an example can be chosen here. <a href="/dashboard/event-types">Add an example</a> to
        a type.
      </p>
    )}
    {report && <Exchanges report={report} />}
  </>
);

const Exchanges: FC<{ report: TestReport }> = ({ report }) => {
  const response = responseText(report);
  return (
    <>
      {report.location !== undefined && (
        <Exchange id="location" title="Redirect, not followed" text={report.location} />
      )}
      {response !== undefined && <Exchange id="response" title="Response" text={response} />}
      <Exchange id="sent" title="Request" text={requestText(report.sent)} />
    </>
  );
};

const Exchange: FC<{ id: string; title: string; text: string }> = ({ id, title, text }) => (
  <section aria-labelledby={`${id}-head`}>
    <div class="head">
      <h2 id={`${id}-head`}>{title}</h2>
    </div>
    <Copyable id={id} label={`${title}: the text`} text={text} />
  </section>
);

function headline({ status, error }: TestReport): string {
  if (error === "challenged") return `Not delivered: ${causeText(error)}`;
  if (status === undefined || error !== undefined) return `No response: ${causeText(error ?? "network")}`;
  return `The receiver ${status >= 200 && status < 300 ? "accepted" : "rejected"} it: HTTP ${status}`;
}
