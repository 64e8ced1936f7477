/** The page of one attempt: its request beside its answer, whole if they have been archived. */
import type { Context, Env, Hono } from "hono";
import type { FC } from "hono/jsx";
import { getAttempt } from "../../features/deliveries/attempts.ts";
import type { AttemptJson } from "../../features/deliveries/schema.ts";
import { deliveryKey, eventId } from "../../ids.ts";
import { isSuccess } from "./delivery-panel.tsx";
import { answerFile, bytesOf, headerLines, requestText } from "./exchange.ts";
import { indented } from "./format.ts";
import { usePage } from "./page.tsx";
import { Copyable, Crumb, Section, StateLabel } from "./parts.tsx";
import type { Surface } from "./surface.ts";

/** Registers the page, and the body of the answer as a file. */
export function registerAttempt<E extends Env>(app: Hono<E>, surface: Surface<E>): void {
  const { deliveries, callerOf, showPage, showMissing, viewOf } = surface;

  app.get(`${deliveries}/:id/attempts/:at`, async (c) => {
    const attempt = await attemptOf(c);
    if (attempt === undefined) return showMissing(c);
    const { may, resultText, t, f, deliveryAt } = viewOf(c);
    const { delivery_id: id, archive, note, at, latency_ms } = attempt;
    const frame = { title: `${resultText(attempt)} · ${id}` };
    if (!may("see_payload")) return showPage(c, frame, <p class="soft">{t.exchange.hidden}</p>);
    const { back, after, of, archive: archiveTexts, request, response } = t.exchange;
    const event_id = eventId(deliveryKey(id)?.eventId ?? 0);
    return showPage(
      c,
      frame,
      <>
        <section>
          <Crumb href={deliveryAt({ id, event_id }, true)}>{back}</Crumb>
          <h1>
            <StateLabel tone={isSuccess(attempt) ? "good" : "bad"}>{resultText(attempt)}</StateLabel>
          </h1>
          <p class="lede">
            <time datetime={at}>{`${f.moment(Date.parse(at))} UTC`}</time>
            {` ${after(f.duration(latency_ms))}`}
            {of && (
              <>
                {of}
                <code>{id}</code>
              </>
            )}
          </p>
          {note !== undefined && <p class="soft break">{note}</p>}
        </section>
        {archive !== "kept" && <p class="notice">{archiveTexts[archive]}</p>}
        <div class="columns">
          <Section id="request-head" title={request} of="column">
            <Request attempt={attempt} />
          </Section>
          <Section id="answer-head" title={response} of="column">
            <Answer attempt={attempt} path={`${attemptAt(`${deliveries}/${id}`, at)}/answer`} />
          </Section>
        </div>
      </>,
    );
  });

  app.get(`${deliveries}/:id/attempts/:at/answer`, async (c) => {
    const answer = (await attemptOf(c))?.response;
    return answer ? answerFile(answer) : showMissing(c);
  });

  async function attemptOf(c: Context<E>): Promise<AttemptJson | undefined> {
    const { id = "", at = "" } = c.req.param() as Record<string, string>;
    const found = await getAttempt(callerOf(c), { delivery: id, at });
    return found.kind === "ok" ? found.value : undefined;
  }
}

/** @param path of the delivery */
export function attemptAt(path: string, at: string): string {
  return `${path}/attempts/${encodeURIComponent(at)}`;
}

const Request: FC<{ attempt: AttemptJson }> = ({ attempt: { request, archive } }) => {
  const { f, t } = usePage();
  const texts = t.exchange;
  if (request === null) return <p class="hint">{texts.noRequest}</p>;
  const { url, headers, body, encoding } = request;
  const isText = body !== null && encoding === "utf-8";
  const text = requestText({ url, headers, body: isText ? body : "" });
  return (
    <>
      <p class="hint">{archive === "kept" ? texts.masked : texts.requestHint}</p>
      <Copyable id="request" label={texts.request} text={text} />
      {body === null && <p>{texts.noBody}</p>}
      {body !== null && !isText && <p>{texts.binary(f.count(bytesOf({ body, encoding }).byteLength))}</p>}
    </>
  );
};

const Answer: FC<{ attempt: AttemptJson; path: string }> = ({ attempt: { response }, path }) => {
  const { f, t } = usePage();
  const texts = t.exchange;
  if (response === null) return <p class="hint">{texts.noAnswer}</p>;
  const { headers, encoding, body, is_whole: isWhole } = response;
  const head = headers !== null && <pre tabindex={0}>{headerLines(headers)}</pre>;
  if (body === "")
    return (
      <>
        {head}
        <p class="hint">{texts.empty}</p>
      </>
    );
  return (
    <>
      {head}
      {!isWhole && <p class="hint">{texts.cut}</p>}
      {encoding === "utf-8" ? (
        <Copyable id="answer" label={texts.response} text={indented(body)} />
      ) : (
        <p>{texts.binary(f.count(bytesOf(response).byteLength))}</p>
      )}
      <p>
        <a href={path}>{texts.download}</a>
      </p>
    </>
  );
};
