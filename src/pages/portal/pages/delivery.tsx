/** The page of one delivery: its state and the reason for it, every attempt with request and answer, and the event. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { allows, type PortalAccess } from "../../../core/portal-access.ts";
import { type EventRequest, readable, textOf } from "../../../delivery/http.ts";
import { attemptsAreKept, headOf, sentNow } from "../../../features/deliveries/attempts.ts";
import type { DeliveryJson } from "../../../features/deliveries/schema.ts";
import { type DeliveryInFull, getDeliveryInFull } from "../../../features/deliveries/service.ts";
import type { Destination } from "../../../store/destination.ts";
import type { StoredEvent } from "../../../store/planned-deliveries.ts";
import { AttemptTimeline, isSuccess, numbered, timelineOf } from "../../ui/delivery-panel.tsx";
import { nameOf } from "../../ui/destination-table.tsx";
import { requestText } from "../../ui/exchange.ts";
import { indented } from "../../ui/format.ts";
import { StateLabel } from "../../ui/parts.tsx";
import { showPortalNotFound, showPortalPage } from "../layout.tsx";
import type { Look } from "../look.ts";
import { Copy, PortalAgo, PortalEventLabels, PortalOutcomeNotice, SectionHead } from "../parts.tsx";
import { callerInPortal, type PortalEnv } from "../session.ts";
import { portalDeliveryText, portalResultText } from "../state-text.ts";
import { attemptPath } from "./attempt.tsx";

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
        look={c.get("look")}
        access={c.get("visitor").access}
        areKept={attemptsAreKept(services)}
        now={services.now()}
        outcome={c.req.query("done")}
      />,
    );
  });
}

type Props = DeliveryInFull &
  Readonly<{
    look: Look;
    access: PortalAccess;
    /** Whether more of an attempt may be kept than the delivery's log has. */
    areKept: ReturnType<typeof attemptsAreKept>;
    /** The request that the destination would be sent now. */
    sent: EventRequest | undefined;
    now: number;
    outcome: string | undefined;
  }>;

const ENDED = ["delivered", "dead", "cancelled"];

const DeliveryView: FC<Props> = (props) => {
  const { look, access, delivery, event, destination, areKept, sent, now, outcome } = props;
  const { t, f } = look;
  const { tone, label, text } = portalDeliveryText(look, delivery, now);
  const mayResend = allows(access, "resend") && destination !== undefined;
  const isEnded = ENDED.includes(delivery.state);
  return (
    <>
      <section>
        <p class="crumb">
          {destination ? (
            <a href={`/portal/endpoints/${destination.id}`}>{nameOf(destination)}</a>
          ) : (
            <a href="/portal">{t.endpoint.crumb}</a>
          )}
        </p>
        <h1 class="break">{event.type}</h1>
        <p class="lede">
          <code>{delivery.event_id}</code>
          {` · ${t.delivery.acceptedAt("")}`}
          <PortalAgo look={look} at={event.acceptedAt} now={now} />
          {!isEnded && ` · ${t.delivery.giveUpAt(`${f.moment(Date.parse(delivery.give_up_at))} UTC`)}`}
        </p>
        <PortalEventLabels look={look} access={access} event={event} />
      </section>
      <PortalOutcomeNotice look={look} name={outcome} />
      <section class={`status tone-${tone}`} aria-label={t.log.state}>
        <p>
          <strong>{label}</strong>
        </p>
        <p class="break">{text}</p>
        {delivery.transform_fault !== undefined && <p class="break">{delivery.transform_fault}</p>}
      </section>
      {mayResend && isEnded && event.isErased && <p class="soft">{t.delivery.notAgain}</p>}
      {mayResend && isEnded && !event.isErased && (
        <section class="actions" aria-label={t.delivery.resend}>
          <form method="post" action={`/portal/deliveries/${delivery.id}/resend`}>
            <button type="submit">{t.delivery.resend}</button>
          </form>
        </section>
      )}
      <section aria-labelledby="attempts">
        <SectionHead id="attempts" title={t.delivery.attempts} />
        <AttemptTimeline
          timeline={timelineOf(delivery, event.acceptedAt, now, t.units)}
          label={t.delivery.chart(f.count(delivery.attempts))}
          titles={t.delivery.marks}
        />
        {delivery.log.length === 0 ? (
          <p class="empty">{t.delivery.noAttempts}</p>
        ) : (
          <Attempts
            look={look}
            delivery={delivery}
            event={event}
            destination={destination}
            sent={sent}
            areKept={(entry) => allows(access, "see_payload") && areKept(entry)}
            maySeeAnswers={allows(access, "see_payload")}
          />
        )}
      </section>
      <section aria-labelledby="payload">
        <SectionHead id="payload" title={t.delivery.payload} />
        {allows(access, "see_payload") ? (
          <Payload look={look} event={event} />
        ) : (
          <p class="soft">{t.delivery.payloadHidden}</p>
        )}
      </section>
    </>
  );
};

type AttemptsProps = Pick<Props, "look" | "delivery" | "event" | "destination" | "areKept" | "sent"> &
  Readonly<{
    /** A receiver may repeat in its answer what it was sent. */
    maySeeAnswers: boolean;
  }>;

const Attempts: FC<AttemptsProps> = ({
  look,
  delivery: { id, log, attempts },
  event,
  destination,
  areKept,
  sent,
  maySeeAnswers,
}) => (
  <ol class="log" reversed>
    {numbered(log, attempts).map(({ entry, number }) => (
      <li>
        <time datetime={entry.at}>{`${look.f.moment(Date.parse(entry.at))}`}</time>
        <div class="break">
          {number !== undefined && <strong>{`${look.t.delivery.attempt(look.f.count(number))}: `}</strong>}
          <StateLabel tone={isSuccess(entry) ? "good" : "bad"}>{portalResultText(look, entry)}</StateLabel>
          <span class="soft">{` ${look.t.delivery.after(look.f.duration(entry.latency_ms))}`}</span>
          {maySeeAnswers && <Answer look={look} entry={entry} />}
          {areKept(entry) && (
            <p>
              <a href={attemptPath(id, entry.at)}>{look.t.attempt.whole}</a>
            </p>
          )}
          {destination && sent && (
            <details>
              <summary>{look.t.delivery.request}</summary>
              <p class="hint">{look.t.delivery.requestHint}</p>
              <pre tabindex={0}>
                {requestOf(destination, event, sent, { at: Date.parse(entry.at), number })}
              </pre>
            </details>
          )}
        </div>
      </li>
    ))}
  </ol>
);

type Entry = DeliveryJson["log"][number];

const Answer: FC<{ look: Look; entry: Entry }> = ({ look: { t }, entry }) => {
  if (entry.status === undefined) return null;
  if (entry.response !== undefined && entry.response !== "")
    return (
      <details>
        <summary>{t.delivery.response}</summary>
        <p class="hint">{t.delivery.beginning}</p>
        <pre tabindex={0}>{indented(entry.response)}</pre>
      </details>
    );
  const text = isSuccess(entry) ? t.delivery.responseNone : t.delivery.responseEmpty;
  return <p class="hint">{text}</p>;
};

function requestOf(
  destination: Destination,
  event: StoredEvent,
  sent: EventRequest,
  attempt: Parameters<typeof headOf>[3],
) {
  return requestText({ ...headOf(event, destination, sent, attempt), body: "" });
}

const Payload: FC<{ look: Look; event: StoredEvent }> = ({ look, event: { body, isErased } }) => {
  const { t } = look;
  if (isErased) return <p>{t.delivery.erased}</p>;
  if (!body) return <p>{t.delivery.damaged}</p>;
  const text = readable(textOf(body));
  return text === undefined ? (
    <Copy look={look} id="sent-body" label={t.delivery.base64} text={body.toBase64()} />
  ) : (
    <Copy look={look} id="sent-body" label={t.delivery.payload} text={indented(text)} />
  );
};
