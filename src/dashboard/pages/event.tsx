/** One event: what was posted, and what became of it at each of its destinations. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { type DeliveryJson, showDeliveries } from "../../api/deliveries.ts";
import { overBy } from "../../db/delivery-filter.ts";
import { findEvent } from "../../db/planned-deliveries.ts";
import { eventId, eventNumber } from "../../ids.ts";
import { curlRequests } from "../components/curl.ts";
import { DeliveryPanel } from "../components/delivery-panel.tsx";
import { nameOf } from "../components/destination-table.tsx";
import { showPage } from "../components/layout.tsx";
import { Ago, Copyable, DoneNotice } from "../components/parts.tsx";
import { plural } from "../format.ts";
import type { DashboardEnv } from "../session.ts";
import { nothingHere } from "./error-pages.tsx";

export function registerEvent(app: Hono<DashboardEnv>): void {
  app.get("/dashboard/events/:id", async (c) => {
    const services = c.get("services");
    const row = eventNumber(c.req.param("id"));
    const found =
      row && (await findEvent(services, row, c.get("visitor").principal.tenant, overBy(services)));
    if (!found) return nothingHere(c);
    const shown = await showDeliveries(services, found.deliveries);
    const names = new Map(
      found.deliveries.map(({ destinationId, destination }) => [
        destinationId,
        destination ? nameOf(destination) : "a removed destination",
      ]),
    );
    const { id, type, tenant, acceptedAt, body } = found.event;
    const facts = { id: eventId(id), type, tenant, acceptedAt, body };
    const mayChange = c.get("visitor").principal.scopes.includes("admin");
    const requests = mayChange ? await curlRequests(services, found.event, found.deliveries) : new Map();
    return showPage(
      c,
      { title: `${type} ${facts.id}`, live: true },
      <EventPage
        event={facts}
        deliveries={shown}
        names={names}
        now={services.now()}
        mayChange={mayChange}
        done={c.req.query("done")}
        requests={requests}
      />,
    );
  });
}

type Facts = Readonly<{ id: string; type: string; tenant: string; acceptedAt: number; body: string }>;

type Props = Readonly<{
  event: Facts;
  deliveries: readonly DeliveryJson[];
  /** By destination. */
  names: ReadonlyMap<string, string>;
  now: number;
  mayChange: boolean;
  /** What has just been done, by name. */
  done: string | undefined;
  /** By destination: how the event would be sent now. */
  requests: ReadonlyMap<string, string>;
}>;

const EventPage: FC<Props> = ({ event, deliveries, names, now, mayChange, done, requests }) => (
  <>
    <section>
      <p class="crumb">
        <a href="/dashboard">Overview</a>
      </p>
      <h1 class="break">{event.type}</h1>
      <p class="lede">
        <code>{event.id}</code> of tenant {event.tenant}, accepted <Ago at={event.acceptedAt} now={now} />
        {deliveries.length === 0 && ". No destination wanted it."}
      </p>
    </section>
    <DoneNotice what={done} />
    <section aria-labelledby="deliveries">
      <div class="head">
        <h2 id="deliveries">{plural(deliveries.length, "delivery", "deliveries")}</h2>
      </div>
      {deliveries.map((delivery) => (
        <DeliveryPanel
          delivery={delivery}
          name={names.get(delivery.destination_id) ?? ""}
          acceptedAt={event.acceptedAt}
          now={now}
          mayChange={mayChange}
        />
      ))}
    </section>
    <section aria-labelledby="body">
      <div class="head">
        <h2 id="body">Body</h2>
        <span class="soft small">{`${new TextEncoder().encode(event.body).byteLength} bytes, the same on every attempt`}</span>
      </div>
      <Copyable id="sent-body" label="The body that is sent" text={event.body} />
    </section>
    {requests.size > 0 && (
      <section aria-labelledby="by-hand" data-still>
        <div class="head">
          <h2 id="by-hand">Send it by hand</h2>
          <span class="soft small">Signed now, as an attempt would be</span>
        </div>
        {[...requests].map(([destination, request]) => (
          <details>
            <summary>{`To ${names.get(destination)}`}</summary>
            <Copyable id={`by-hand-${destination}`} label="The request as a command" text={request} />
          </details>
        ))}
      </section>
    )}
  </>
);
