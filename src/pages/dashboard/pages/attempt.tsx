/** The page of one attempt: its request and its answer, whole where they have been kept. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { getAttempt } from "../../../features/deliveries/attempts.ts";
import type { AttemptJson } from "../../../features/deliveries/schema.ts";
import { deliveryKey, eventId } from "../../../ids.ts";
import { isSuccess, resultText } from "../../ui/delivery-panel.tsx";
import { answerFile, bytesOf, headerLines, requestText } from "../../ui/exchange.ts";
import { durationOf, momentOf } from "../../ui/format.ts";
import { Copyable, StateLabel } from "../../ui/parts.tsx";
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
  none: "No more of this attempt is kept than here. The request is as it would be made now.",
  missing:
    "The whole answer could not be kept, or is not kept yet: this is its beginning. The request is as it would be made now.",
  unavailable:
    "What is kept of this attempt cannot be read at the moment: this is the beginning of the answer, and the request as it would be made now.",
} as const;

const AttemptPage: FC<{ attempt: AttemptJson; now: number }> = ({ attempt, now }) => {
  const { delivery_id: delivery, archive, note } = attempt;
  const event = deliveryKey(delivery)?.eventId ?? 0;
  return (
    <>
      <section>
        <p class="crumb">
          <a href={`/dashboard/events/${eventId(event)}#${delivery}`}>Event</a>
        </p>
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
      <section aria-labelledby="answer-head">
        <div class="head">
          <h2 id="answer-head">Response</h2>
        </div>
        <Answer attempt={attempt} />
      </section>
      <section aria-labelledby="request-head">
        <div class="head">
          <h2 id="request-head">Request</h2>
          <span class="soft small">Secrets and signatures are masked</span>
        </div>
        <Request attempt={attempt} />
      </section>
    </>
  );
};

const Answer: FC<{ attempt: AttemptJson }> = ({ attempt }) => {
  const { response } = attempt;
  if (response === null) return <p class="hint">There was none, or nothing of it is kept.</p>;
  const { headers, encoding, body, is_whole: isWhole } = response;
  return (
    <>
      {headers !== null && <pre tabindex={0}>{headerLines(headers)}</pre>}
      {body === "" && <p class="hint">The body is empty.</p>}
      {body !== "" && !isWhole && <p class="hint">The beginning of the body; no more of it is here.</p>}
      {body !== "" && encoding === "utf-8" && (
        <Copyable id="answer" label="The body of the response" text={body} />
      )}
      {body !== "" && encoding === "base64" && <p>{binaryText(bytesOf(response))}</p>}
      {body !== "" && (
        <p>
          <a href={`${attemptPath(attempt)}/answer`}>Save the body</a>
        </p>
      )}
    </>
  );
};

const Request: FC<{ attempt: AttemptJson }> = ({ attempt: { request } }) => {
  if (request === null) return <p class="hint">The destination is deleted: its requests cannot be shown.</p>;
  const { url, headers, body, encoding } = request;
  const isText = body !== null && encoding === "utf-8";
  return (
    <>
      <Copyable
        id="request"
        label="The request"
        text={requestText({ url, headers, body: isText ? body : "" })}
      />
      {body === null && <p>The event's content has been erased, or is damaged: the body cannot be shown.</p>}
      {body !== null && !isText && <p>{binaryText(bytesOf({ body, encoding }))}</p>}
    </>
  );
};

function binaryText({ byteLength }: Uint8Array): string {
  return `The body is binary: ${byteLength} bytes.`;
}
