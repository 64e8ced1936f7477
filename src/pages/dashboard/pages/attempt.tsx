/** The page of one attempt: its request and its answer, whole where they have been kept. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { getAttempt } from "../../../features/deliveries/attempts.ts";
import type { AttemptJson } from "../../../features/deliveries/schema.ts";
import { deliveryKey, eventId } from "../../../ids.ts";
import { isSuccess, resultText } from "../../ui/delivery-panel.tsx";
import { answerFile } from "../../ui/exchange.ts";
import { type ExchangeTexts, ExchangeView } from "../../ui/exchange-view.tsx";
import { durationOf, momentOf, plural } from "../../ui/format.ts";
import { Crumb, StateLabel } from "../../ui/parts.tsx";
import { showNotFound, showPage } from "../components/layout.tsx";
import { callerWithinTenant, type DashboardContext, type DashboardEnv } from "../session.ts";

const ATTEMPT = "/dashboard/deliveries/:id/attempts/:at";

export function registerAttemptPage(app: Hono<DashboardEnv>): void {
  app.get(ATTEMPT, async (c) => {
    const attempt = await attemptOf(c);
    if (attempt === undefined) return showNotFound(c);
    const title = `${resultText(attempt)} · ${attempt.delivery_id}`;
    return showPage(c, { title }, <AttemptPage attempt={attempt} now={c.get("services").now()} />);
  });

  app.get(`${ATTEMPT}/answer`, async (c) => {
    const answer = (await attemptOf(c))?.response;
    return answer ? answerFile(answer) : showNotFound(c);
  });
}

async function attemptOf(c: DashboardContext): Promise<AttemptJson | undefined> {
  const { id = "", at = "" } = c.req.param();
  const found = await getAttempt(callerWithinTenant(c), { delivery: id, at });
  return found.kind === "ok" ? found.value : undefined;
}

/** Where the page of an attempt is. */
function attemptPath({ delivery_id: delivery, at }: AttemptJson): string {
  return `/dashboard/deliveries/${delivery}/attempts/${encodeURIComponent(at)}`;
}

const archiveTexts = {
  none: "Nothing more of this attempt is stored. The request is shown as it would be made now.",
  missing:
    "The whole response is not stored, or not yet: this is its beginning. The request is shown as it would be made now.",
  unavailable:
    "The stored request and response cannot be read at the moment. This is the beginning of the response, and the request as it would be made now.",
} as const;

const AttemptPage: FC<{ attempt: AttemptJson; now: number }> = ({ attempt, now }) => {
  const { delivery_id: delivery, archive, note } = attempt;
  const event = deliveryKey(delivery)?.eventId ?? 0;
  return (
    <>
      <section>
        <Crumb href={`/dashboard/events/${eventId(event)}#${delivery}`}>Event</Crumb>
        <h1>
          <StateLabel tone={isSuccess(attempt) ? "good" : "bad"}>{resultText(attempt)}</StateLabel>
        </h1>
        <p class="lede">
          <time datetime={attempt.at}>{momentOf(Date.parse(attempt.at), now)}</time>
          {` after ${durationOf(attempt.latency_ms)}, of `}
          <code>{delivery}</code>
        </p>
        {note !== undefined && <p class="soft break">{note}</p>}
      </section>
      {archive !== "kept" && <p class="notice">{archiveTexts[archive]}</p>}
      <ExchangeView attempt={attempt} texts={texts} answerPath={`${attemptPath(attempt)}/answer`} />
    </>
  );
};

const texts: ExchangeTexts = {
  copy: "Copy",
  request: "Request",
  requestHint: "Secrets and signatures are masked.",
  noRequest: "The destination is deleted: its requests cannot be shown.",
  noBody: "The event's content has been erased, or is damaged: the body cannot be shown.",
  response: "Response",
  noAnswer: "There was no response, or none of it is stored.",
  cut: "Only the beginning of the body is stored.",
  empty: "The body is empty.",
  download: "Save the body",
  more: (lines) => plural(lines, "more line"),
  binary: (bytes) => `The body is binary: ${plural(bytes, "byte")}.`,
};
