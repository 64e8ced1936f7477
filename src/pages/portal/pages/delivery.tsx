/** The page of one delivery: its state and the reason for it, every attempt with request and answer, and the event. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { EventRequest } from "../../../delivery/http.ts";
import { attemptsAreKept, headOf, sentNow } from "../../../features/deliveries/attempts.ts";
import { retryDelivery } from "../../../features/deliveries/repairs.ts";
import type { DeliveryJson } from "../../../features/deliveries/schema.ts";
import { type DeliveryInFull, getDeliveryInFull } from "../../../features/deliveries/service.ts";
import { attemptAt } from "../../ui/attempt-page.tsx";
import { AttemptTimeline, isSuccess, numbered, timelineOf } from "../../ui/delivery-panel.tsx";
import { nameOf } from "../../ui/destination-table.tsx";
import { EventBody } from "../../ui/event-body.tsx";
import { EventLabels } from "../../ui/event-labels.tsx";
import { requestText } from "../../ui/exchange.ts";
import { indented } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import { Ago, Banner, Crumb, Fold, Press, Section, StateLabel } from "../../ui/parts.tsx";
import { attemptsMade } from "../../ui/status-text.ts";
import { showPortalNotFound, showPortalPage } from "../layout.tsx";
import { useLook } from "../look.ts";
import { PortalOutcomeNotice } from "../parts.tsx";
import { callerInPortal, type PortalEnv } from "../session.ts";

export function registerPortalDelivery(app: Hono<PortalEnv>): void {
  app.get("/portal/deliveries/:id", async (c) => {
    const services = c.get("services");
    const found = await getDeliveryInFull(callerInPortal(c), c.req.param("id"));
    if (found.kind !== "ok") return showPortalNotFound(c);
    const { event, delivery, destination } = found.value;
    const sent = destination && (await sentNow(services, event, destination));
    return showPortalPage(
      c,
      { title: `${event.type} ${delivery.event_id}`, place: "endpoints", live: true },
      <DeliveryView
        {...found.value}
        sent={sent}
        areKept={attemptsAreKept(services)}
        outcome={c.req.query("done")}
      />,
    );
  });
}

type ViewProps = DeliveryInFull &
  Readonly<{
    /** Whether more of an attempt may be kept than the delivery's log has. */
    areKept: ReturnType<typeof attemptsAreKept>;
    /** The request that the destination would be sent now. */
    sent: EventRequest | undefined;
    outcome: string | undefined;
  }>;

const ENDED = ["delivered", "dead", "cancelled"];

const DeliveryView: FC<ViewProps> = (props) => {
  const { delivery, event, destination, outcome } = props;
  const { now, may, mayCall, deliveryText } = usePage();
  const { t, f } = useLook();
  const { tone, label, text } = deliveryText(delivery, event.acceptedAt);
  const isEnded = ENDED.includes(delivery.state);
  const mayResend = isEnded && mayCall(retryDelivery) && destination !== undefined;
  return (
    <>
      <section>
        {destination ? (
          <Crumb href={`/portal/endpoints/${destination.id}`}>{nameOf(destination)}</Crumb>
        ) : (
          <Crumb href="/portal">{t.endpoint.crumb}</Crumb>
        )}
        <h1>{event.type}</h1>
        <p class="lede">
          <code>{delivery.event_id}</code>
          {` · ${t.delivery.acceptedAt("")}`}
          <Ago at={event.acceptedAt} />
          {!isEnded && ` · ${t.delivery.giveUpAt(f.exact(Date.parse(delivery.give_up_at)))}`}
        </p>
        <EventLabels event={event} class="sub small soft" />
      </section>
      <PortalOutcomeNotice name={outcome} />
      <Banner label={t.log.state} tone={tone} title={<strong>{label}</strong>}>
        <p class="break">{text}</p>
        {delivery.transform_fault !== undefined && <p class="break">{delivery.transform_fault}</p>}
      </Banner>
      {mayResend && event.isErased && <p class="soft">{t.delivery.notAgain}</p>}
      {mayResend && !event.isErased && (
        <section class="actions" aria-label={t.delivery.resend}>
          <Press action={`/portal/deliveries/${delivery.id}/resend`} label={t.delivery.resend} />
        </section>
      )}
      <Section id="attempts" title={t.delivery.attempts}>
        <AttemptTimeline
          timeline={timelineOf(delivery, event.acceptedAt, now, t.units)}
          label={t.delivery.chart(f.count(attemptsMade(delivery)))}
          titles={t.delivery.marks}
        />
        {delivery.log.length === 0 ? <p class="empty">{t.delivery.noAttempts}</p> : <Attempts {...props} />}
      </Section>
      <Section id="payload" title={t.body.text}>
        {may("see_payload") ? <EventBody event={event} /> : <p class="soft">{t.exchange.hidden}</p>}
      </Section>
    </>
  );
};

/** A receiver may repeat in its answer what it was sent: who may not see that sees no answers. */
const Attempts: FC<ViewProps> = ({ delivery, event, destination, areKept, sent }) => {
  const { t, f } = useLook();
  const { may, resultText } = usePage();
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
  const { delivery: t, exchange } = useLook().t;
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
