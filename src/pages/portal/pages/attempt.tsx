/** The page of one attempt: its request and its answer, whole where they have been kept. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { allows } from "../../../core/portal-access.ts";
import { getAttempt } from "../../../features/deliveries/attempts.ts";
import type { AttemptJson } from "../../../features/deliveries/schema.ts";
import { isSuccess } from "../../ui/delivery-panel.tsx";
import { answerFile } from "../../ui/exchange.ts";
import { ExchangeView } from "../../ui/exchange-view.tsx";
import { Crumb, StateLabel } from "../../ui/parts.tsx";
import { showPortalNotFound, showPortalPage } from "../layout.tsx";
import type { Look } from "../look.ts";
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
        <Crumb href={`/portal/deliveries/${delivery}`}>{t.attempt.back}</Crumb>
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
      <ExchangeView
        attempt={attempt}
        answerPath={`${attemptPath(delivery, attempt.at)}/answer`}
        texts={{
          ...t.attempt,
          copy: t.copy,
          more: (lines) => t.moreLines(f.count(lines)),
          request: t.delivery.request,
          requestHint: archive === "kept" ? t.attempt.masked : t.delivery.requestHint,
          response: t.delivery.response,
          empty: t.delivery.responseEmpty,
          binary: (bytes) => t.attempt.binary(f.count(bytes)),
        }}
      />
    </>
  );
};
