/** The page of one attempt: its request and its answer, whole where they have been kept. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { allows } from "../../../core/portal-access.ts";
import { getAttempt } from "../../../features/deliveries/attempts.ts";
import type { AttemptJson } from "../../../features/deliveries/schema.ts";
import { isSuccess } from "../../ui/delivery-panel.tsx";
import { answerFile, bytesOf, headerLines, requestText } from "../../ui/exchange.ts";
import { StateLabel } from "../../ui/parts.tsx";
import { showPortalNotFound, showPortalPage } from "../layout.tsx";
import type { Look } from "../look.ts";
import { Copy, SectionHead } from "../parts.tsx";
import { callerInPortal, type PortalContext, type PortalEnv } from "../session.ts";
import { portalResultText } from "../state-text.ts";

const ATTEMPT = "/portal/deliveries/:id/attempts/:at";

export function registerPortalAttempt(app: Hono<PortalEnv>): void {
  app.get(ATTEMPT, async (c) => {
    const look = c.get("look");
    const attempt = await attemptOf(c);
    if (attempt === undefined) return showPortalNotFound(c);
    return showPortalPage(
      c,
      { title: portalResultText(look, attempt), place: "endpoints" },
      allows(c.get("visitor").access, "see_payload") ? (
        <AttemptView look={look} attempt={attempt} />
      ) : (
        <p class="soft">{look.t.delivery.payloadHidden}</p>
      ),
    );
  });

  app.get(`${ATTEMPT}/answer`, async (c) => {
    const answer = (await attemptOf(c))?.response;
    return answer ? answerFile(answer) : showPortalNotFound(c);
  });
}

async function attemptOf(c: PortalContext): Promise<AttemptJson | undefined> {
  const { id = "", at = "" } = c.req.param();
  const found = await getAttempt(callerInPortal(c), { delivery: id, at });
  return found.kind === "ok" ? found.value : undefined;
}

/** Where the page of an attempt is. */
export function attemptPath(delivery: string, at: string): string {
  return `/portal/deliveries/${delivery}/attempts/${encodeURIComponent(at)}`;
}

type Props = Readonly<{ look: Look; attempt: AttemptJson }>;

const AttemptView: FC<Props> = ({ look, attempt }) => {
  const { t, f } = look;
  const { delivery_id: delivery, archive, note } = attempt;
  return (
    <>
      <section>
        <p class="crumb">
          <a href={`/portal/deliveries/${delivery}`}>{t.attempt.back}</a>
        </p>
        <h1>
          <StateLabel tone={isSuccess(attempt) ? "good" : "bad"}>
            {portalResultText(look, attempt)}
          </StateLabel>
        </h1>
        <p class="lede">
          <time datetime={attempt.at}>{`${f.moment(Date.parse(attempt.at))} UTC`}</time>
          {` ${t.delivery.after(f.duration(attempt.latency_ms))}`}
        </p>
        {note !== undefined && <p class="soft break">{note}</p>}
      </section>
      {archive !== "kept" && <p class="notice">{t.attempt.archive[archive]}</p>}
      <section aria-labelledby="answer-head">
        <SectionHead id="answer-head" title={t.delivery.response} />
        <Answer look={look} attempt={attempt} />
      </section>
      <section aria-labelledby="request-head">
        <SectionHead id="request-head" title={t.delivery.request} />
        <Request look={look} attempt={attempt} />
      </section>
    </>
  );
};

const Answer: FC<Props> = ({ look, attempt: { response, delivery_id, at } }) => {
  const { t, f } = look;
  if (response === null) return <p class="hint">{t.attempt.noAnswer}</p>;
  const { headers, encoding, body, is_whole: isWhole } = response;
  return (
    <>
      {headers !== null && <pre tabindex={0}>{headerLines(headers)}</pre>}
      {body !== "" && !isWhole && <p class="hint">{t.attempt.cut}</p>}
      {body === "" && <p class="hint">{t.delivery.responseEmpty}</p>}
      {body !== "" &&
        (encoding === "utf-8" ? (
          <Copy look={look} id="answer" label={t.delivery.response} text={body} />
        ) : (
          <p>{t.attempt.binary(f.count(bytesOf(response).byteLength))}</p>
        ))}
      {body !== "" && (
        <p>
          <a href={`${attemptPath(delivery_id, at)}/answer`}>{t.attempt.download}</a>
        </p>
      )}
    </>
  );
};

const Request: FC<Props> = ({ look, attempt: { request, archive } }) => {
  const { t, f } = look;
  if (request === null) return <p class="hint">{t.attempt.noRequest}</p>;
  const { url, headers, body, encoding } = request;
  const isText = body !== null && encoding === "utf-8";
  return (
    <>
      <p class="hint">{archive === "kept" ? t.attempt.masked : t.delivery.requestHint}</p>
      <Copy
        look={look}
        id="request"
        label={t.delivery.request}
        text={requestText({ url, headers, body: isText ? body : "" })}
      />
      {body === null && <p>{t.attempt.noBody}</p>}
      {body !== null && !isText && <p>{t.attempt.binary(f.count(bytesOf({ body, encoding }).byteLength))}</p>}
    </>
  );
};
