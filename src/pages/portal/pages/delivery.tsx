/** The page of one delivery: its state and the reason for it, every attempt with request and answer, and the event. */
import type { FC } from "hono/jsx";
import type { EventRequest } from "../../../delivery/http.ts";
import { attemptsAreKept, headOf, sentNow } from "../../../features/deliveries/attempts.ts";
import { retryDelivery } from "../../../features/deliveries/repairs.ts";
import type { DeliveryJson } from "../../../features/deliveries/schema.ts";
import { type DeliveryInFull, getDeliveryInFull } from "../../../features/deliveries/service.ts";
import { attemptAt } from "../../ui/attempt-page.tsx";
import { AttemptTimeline, isSuccess, numbered } from "../../ui/delivery-panel.tsx";
import { nameOf } from "../../ui/destination-table.tsx";
import { EventBody, EventLabels } from "../../ui/event-parts.tsx";
import { requestText } from "../../ui/exchange.ts";
import { indented } from "../../ui/format.ts";
import { Ago, Banner, Fold, OutcomeNotice, Press, Section, StateLabel, Top } from "../../ui/parts.tsx";
import { attemptsMade } from "../../ui/status-text.ts";
import { showPortalNotFound, showPortalPage } from "../layout.tsx";
import { usePortal } from "../look.ts";
import { callerInPortal, type Portal } from "../session.ts";
import { portalView } from "../view.ts";

const ENDED = ["delivered", "dead", "cancelled"];

export function registerPortalDelivery(app: Portal): void {
  app.get("/portal/deliveries/:id", async (c) => {
    const services = c.get("services");
    const found = await getDeliveryInFull(callerInPortal(c), c.req.param("id"));
    if (found.kind !== "ok") return showPortalNotFound(c);
    const { event, delivery, destination } = found.value;
    const sent = destination && (await sentNow(services, event, destination));
    const { t, f, may, mayCall, deliveryText } = portalView(c);
    const { tone, label, text } = deliveryText(delivery, event.acceptedAt);
    const isEnded = ENDED.includes(delivery.state);
    const mayResend = isEnded && mayCall(retryDelivery) && destination !== undefined;
    const crumb = destination
      ? ([`/portal/endpoints/${destination.id}`, nameOf(destination)] as const)
      : (["/portal", t.endpoints] as const);
    const lede = (
      <>
        <code>{delivery.event_id}</code>
        {` · ${t.delivery.acceptedAt("")}`}
        <Ago at={event.acceptedAt} />
        {!isEnded && ` · ${t.delivery.giveUpAt(f.exact(Date.parse(delivery.give_up_at)))}`}
      </>
    );
    return showPortalPage(
      c,
      { title: `${event.type} ${delivery.event_id}`, place: "endpoints", live: true },
      <>
        <Top crumb={crumb} title={event.type} lede={lede}>
          <EventLabels event={event} class="sub small soft" />
        </Top>
        <OutcomeNotice name={c.req.query("done")} />
        <Banner label={t.log.state} tone={tone} title={<strong>{label}</strong>}>
          <p class="break">{text}</p>
          {delivery.transform_fault !== undefined && <p class="break">{delivery.transform_fault}</p>}
        </Banner>
        {mayResend && event.isErased && <p class="soft">{t.delivery.notAgain}</p>}
        {mayResend && !event.isErased && (
          <section class="actions" aria-label={t.resend.begin}>
            <Press action={`/portal/deliveries/${delivery.id}/resend`} label={t.resend.begin} />
          </section>
        )}
        <Section id="attempts" title={t.log.attempts}>
          <AttemptTimeline
            delivery={delivery}
            acceptedAt={event.acceptedAt}
            label={t.delivery.chart(f.count(attemptsMade(delivery)))}
          />
          {delivery.log.length === 0 ? (
            <p class="empty">{t.delivery.noAttempts}</p>
          ) : (
            <Attempts {...found.value} sent={sent} areKept={attemptsAreKept(services)} />
          )}
        </Section>
        <Section id="payload" title={t.body.text}>
          {may("see_payload") ? <EventBody event={event} /> : <p class="soft">{t.exchange.hidden}</p>}
        </Section>
      </>,
    );
  });
}

type AttemptsProps = DeliveryInFull &
  Readonly<{
    /** Whether the archive may have more of an attempt than the delivery's log. */
    areKept: ReturnType<typeof attemptsAreKept>;
    /** The request that would be sent to the destination now. */
    sent: EventRequest | undefined;
  }>;

/** A receiver may repeat in its answer what it was sent: a visitor who may not see requests sees no answers. */
const Attempts: FC<AttemptsProps> = ({ delivery, event, destination, areKept, sent }) => {
  const { t, f, may, resultText } = usePortal();
  const request = (at: number, number: number | undefined) =>
    destination && sent && requestText({ ...headOf(event, destination, sent, { at, number }), body: "" });
  return (
    <ol class="log" reversed>
      {numbered(delivery.log, delivery.attempts).map(({ entry, number }) => (
        <li>
          <time datetime={entry.at}>{f.moment(Date.parse(entry.at))}</time>
          <div class="break">
            {number !== undefined && <strong>{`${t.delivery.attempt(f.count(number))}: `}</strong>}
            <StateLabel tone={isSuccess(entry) ? "good" : "bad"}>{resultText(entry)}</StateLabel>
            <span class="soft">{` ${t.exchange.after(f.duration(entry.latency_ms))}`}</span>
            {may("see_payload") && <Answer entry={entry} />}
            {may("see_payload") && areKept(entry) && (
              <p>
                <a href={attemptAt(`/portal/deliveries/${delivery.id}`, entry.at)}>{t.delivery.whole}</a>
              </p>
            )}
            {destination && sent && (
              <Fold title={t.exchange.request}>
                <p class="hint">{t.exchange.requestHint}</p>
                <pre tabindex={0}>{request(Date.parse(entry.at), number)}</pre>
              </Fold>
            )}
          </div>
        </li>
      ))}
    </ol>
  );
};

const Answer: FC<{ entry: DeliveryJson["log"][number] }> = ({ entry }) => {
  const { delivery: t, exchange } = usePortal().t;
  if (entry.status === undefined) return null;
  if (entry.response !== undefined && entry.response !== "")
    return (
      <Fold title={exchange.response}>
        <p class="hint">{t.beginning}</p>
        <pre tabindex={0}>{indented(entry.response)}</pre>
      </Fold>
    );
  return <p class="hint">{isSuccess(entry) ? t.responseNone : exchange.empty}</p>;
};
