/** The page of one event: its content, and its delivery to each destination. */
import type { FC } from "hono/jsx";
import { attemptsAreKept } from "../../../features/deliveries/attempts.ts";
import { type EventInFull, getEventInFull } from "../../../features/events/service.ts";
import { eventId } from "../../../ids.ts";
import type { StoredEvent } from "../../../store/planned-deliveries.ts";
import { DeliveryPanel } from "../../ui/delivery-panel.tsx";
import { placeOf } from "../../ui/destination-table.tsx";
import { EventBody, EventLabels } from "../../ui/event-parts.tsx";
import { plural } from "../../ui/format.ts";
import { Ago, Copyable, Fold, OutcomeNotice, Section, Top } from "../../ui/parts.tsx";
import { showNotFound, showPage } from "../components/layout.tsx";
import { callerWithinTenant, type Dashboard } from "../session.ts";

export function registerEventPage(app: Dashboard): void {
  app.get("/dashboard/events/:id", async (c) => {
    const found = await getEventInFull(callerWithinTenant(c), c.req.param("id"));
    if (found.kind !== "ok") return showNotFound(c);
    const { event, deliveries, commands } = found.value;
    const areKept = attemptsAreKept(c.get("services"));
    return showPage(
      c,
      { title: `${event.type} ${eventId(event.id)}`, live: true },
      <>
        <Head event={event} isSent={deliveries.length > 0} />
        <OutcomeNotice name={c.req.query("done")} />
        <Section id="deliveries" title={plural(deliveries.length, "delivery", "deliveries")}>
          {deliveries.map(({ delivery, destination }) => (
            <DeliveryPanel
              delivery={delivery}
              name={placeOf(destination)}
              acceptedAt={event.acceptedAt}
              areKept={areKept}
              isErased={event.isErased}
            />
          ))}
        </Section>
        <Section
          id="body"
          title="Body"
          aside={event.body && <span class="soft small">{describe(event.body, event.contentType)}</span>}
        >
          <EventBody event={event} />
        </Section>
        {commands.size > 0 && <Commands deliveries={deliveries} commands={commands} />}
      </>,
    );
  });
}

const Head: FC<{ event: StoredEvent; isSent: boolean }> = ({ event, isSent }) => (
  <Top
    crumb={["/dashboard", "Overview"]}
    title={event.type}
    lede={
      <>
        <code>{eventId(event.id)}</code> of tenant {event.tenant}, accepted <Ago at={event.acceptedAt} />
        {!isSent && ". No destination subscribes to it."}
      </>
    }
  >
    <EventLabels event={event} class="small soft" />
    {event.ttlSeconds !== undefined && (
      <p class="small soft">{`Its deliveries are given up ${plural(event.ttlSeconds, "second")} after it was due.`}</p>
    )}
    {event.headers && (
      <p class="small soft break">{`Additional headers: ${Object.keys(event.headers).join(", ")}`}</p>
    )}
  </Top>
);

const Commands: FC<Pick<EventInFull, "deliveries" | "commands">> = ({ deliveries, commands }) => (
  <section aria-labelledby="curl" data-static>
    <div class="head">
      <h2 id="curl">Send it with curl</h2>
      <span class="soft small">Signed now, as an attempt would be</span>
    </div>
    {deliveries.map(({ destination }) => {
      const command = destination && commands.get(destination.id);
      return (
        command && (
          <Fold title={`To ${placeOf(destination)}`}>
            <Copyable id={`curl-${destination.id}`} label="The request as a command" text={command} />
          </Fold>
        )
      );
    })}
  </section>
);

function describe(body: Uint8Array, contentType: string | undefined): string {
  return `${contentType ? `${contentType}, ` : ""}${plural(body.byteLength, "byte")}, the same on every attempt; JSON is indented here`;
}
