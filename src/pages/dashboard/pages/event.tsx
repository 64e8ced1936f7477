/** The page of one event: what was posted, and its delivery to each destination. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { RequestHeaders } from "../../../core/bundle.ts";
import { authOf, headerOf } from "../../../delivery/authorization.ts";
import { payloadOf, readable, textOf } from "../../../delivery/http.ts";
import { kindNameOf } from "../../../delivery/kinds/registry.ts";
import { signerFor } from "../../../delivery/signature.ts";
import { attemptsAreKept } from "../../../features/deliveries/attempts.ts";
import { type DeliveryJson, showDeliveries } from "../../../features/deliveries/routes.ts";
import { eventId, eventNumber } from "../../../ids.ts";
import { faultOf } from "../../../log.ts";
import type { Services } from "../../../services.ts";
import { overBy } from "../../../store/delivery-filter.ts";
import type { FoundDelivery } from "../../../store/delivery-list.ts";
import { type Destination, storedHeaders } from "../../../store/destinations.ts";
import { findEvent, type StoredEvent } from "../../../store/planned-deliveries.ts";
import { DeliveryPanel } from "../../ui/delivery-panel.tsx";
import { nameOf } from "../../ui/destination-table.tsx";
import { deliveriesWithTag, EventLabels } from "../../ui/event-labels.tsx";
import { plural, quoted } from "../../ui/format.ts";
import { Ago, Copyable, OutcomeNotice } from "../../ui/parts.tsx";
import { showNotFound, showPage } from "../components/layout.tsx";
import type { DashboardEnv } from "../session.ts";

export function registerEvent(app: Hono<DashboardEnv>): void {
  app.get("/dashboard/events/:id", async (c) => {
    const services = c.get("services");
    const {
      tenant,
      principal: { scopes },
    } = c.get("visitor");
    const number = eventNumber(c.req.param("id"));
    const found = number && (await findEvent(services, number, tenant, overBy(services)));
    if (!found) return showNotFound(c);
    const { event, deliveries } = found;
    const mayChange = scopes.includes("admin");
    const id = eventId(event.id);
    return showPage(
      c,
      { title: `${event.type} ${id}`, live: true },
      <EventPage
        event={{ ...event, id }}
        deliveries={await showDeliveries(services, deliveries)}
        names={namesOf(deliveries)}
        now={services.now()}
        mayChange={mayChange}
        areKept={attemptsAreKept(services)}
        outcome={c.req.query("done")}
        commands={mayChange ? await curlCommands(services, event, deliveries) : new Map()}
      />,
    );
  });
}

function namesOf(deliveries: readonly FoundDelivery[]): ReadonlyMap<string, string> {
  return new Map(
    deliveries.map(({ destinationId, destination }) => [
      destinationId,
      destination ? nameOf(destination) : "deleted destination",
    ]),
  );
}

type Props = Readonly<{
  event: Omit<StoredEvent, "id"> & Readonly<{ id: string }>;
  deliveries: readonly DeliveryJson[];
  /** By destination. */
  names: ReadonlyMap<string, string>;
  now: number;
  mayChange: boolean;
  areKept: ReturnType<typeof attemptsAreKept>;
  /** The name of what an action has just done. */
  outcome: string | undefined;
  /** By destination: a command that sends the event now. */
  commands: ReadonlyMap<string, string>;
}>;

const EventPage: FC<Props> = ({ event, deliveries, names, now, mayChange, areKept, outcome, commands }) => (
  <>
    <section>
      <p class="crumb">
        <a href="/dashboard">Overview</a>
      </p>
      <h1 class="break">{event.type}</h1>
      <p class="lede">
        <code>{event.id}</code> of tenant {event.tenant}, accepted <Ago at={event.acceptedAt} now={now} />
        {deliveries.length === 0 && ". No destination subscribes to it."}
      </p>
      <EventLabels
        tags={event.tags}
        channels={event.channels}
        tagPath={deliveriesWithTag(event.tenant)}
        class="small soft"
      />
      {event.ttlSeconds !== undefined && (
        <p class="small soft">{`Its deliveries are given up ${plural(event.ttlSeconds, "second")} after it was due.`}</p>
      )}
      {event.headers && (
        <p class="small soft break">{`Headers of its own: ${Object.keys(event.headers).join(", ")}`}</p>
      )}
    </section>
    <OutcomeNotice name={outcome} />
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
          areKept={areKept}
          isErased={event.isErased}
        />
      ))}
    </section>
    <section aria-labelledby="body">
      <div class="head">
        <h2 id="body">Body</h2>
        {event.body && <span class="soft small">{describe(event.body, event.contentType)}</span>}
      </div>
      <Body body={event.body} isErased={event.isErased} />
    </section>
    {commands.size > 0 && (
      <section aria-labelledby="curl" data-static>
        <div class="head">
          <h2 id="curl">Send it with curl</h2>
          <span class="soft small">Signed now, as an attempt would be</span>
        </div>
        {[...commands].map(([destination, command]) => (
          <details>
            <summary>{`To ${names.get(destination)}`}</summary>
            <Copyable id={`curl-${destination}`} label="The request as a command" text={command} />
          </details>
        ))}
      </section>
    )}
  </>
);

function describe(body: Uint8Array, contentType: string | undefined): string {
  return `${contentType ? `${contentType}, ` : ""}${body.byteLength} bytes, the same on every attempt`;
}

const Body: FC<Pick<StoredEvent, "body" | "isErased">> = ({ body, isErased }) => {
  if (isErased) return <p>The content has been erased: it cannot be shown or sent again.</p>;
  if (!body) return <p>The stored bytes are damaged: they cannot be sent.</p>;
  const text = readable(textOf(body));
  return text === undefined ? (
    <Copyable id="sent-body" label="The request body in base64" text={body.toBase64()} />
  ) : (
    <Copyable id="sent-body" label="The request body" text={text} />
  );
};

/** Commands are made for the first destinations only: each one is signed. */
const MAX_COMMANDS = 5;

/**
 * The event as a command that sends it as an attempt would, signed now, so that a receiver can be debugged. By
 * destination, without those whose secret cannot be opened. What a destination sets itself, its own headers and its
 * `auth`, is left out, because it may be secret.
 */
async function curlCommands(
  services: Services,
  event: StoredEvent,
  deliveries: readonly FoundDelivery[],
): Promise<ReadonlyMap<string, string>> {
  const existing = deliveries.flatMap(({ destination }) =>
    destination?.deletedAt === null && kindNameOf(destination.url) === "https" ? [destination] : [],
  );
  const commands = existing.slice(0, MAX_COMMANDS).map(async (destination) => {
    const command = await curlCommand(services, event, destination);
    return command === undefined ? [] : [[destination.id, command] as const];
  });
  return new Map((await Promise.all(commands)).flat());
}

async function curlCommand(
  { vault, now, log }: Services,
  { id, type, body, contentType: own, headers: posted = {} }: StoredEvent,
  destination: Destination,
): Promise<string | undefined> {
  if (!body) return undefined;
  try {
    const at = now();
    const sign = await signerFor(vault, destination, at);
    const { body: sent, contentType } = payloadOf({ type, body, contentType: own }, destination);
    const headers = Object.entries({
      ...withoutOwn(posted, destination),
      "content-type": contentType,
      ...(await sign({ id: eventId(id), type, body: sent }, at)),
    });
    const text = asArgument(sent);
    const source = text === undefined ? `printf %s ${quoted(sent.toBase64())} | base64 -d | ` : "";
    return [
      `${source}curl ${quoted(destination.url)}`,
      ...headers.map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)}`),
      text === undefined ? "  --data-binary @-" : `  --data-raw ${quoted(text)}`,
    ].join(" \\\n");
  } catch (error) {
    log({ what: "secret_unreadable", destination: destination.id, error: faultOf(error) });
    return undefined;
  }
}

/** The event's request headers that its destination does not replace by headers of its own, in lower case. */
function withoutOwn(posted: RequestHeaders, destination: Destination): Record<string, string> {
  const auth = authOf(destination);
  const own = [...Object.keys(storedHeaders(destination).values), ...(auth ? [headerOf(auth)] : [])];
  const replaced = new Set(own.map((name) => name.toLowerCase()));
  const named = Object.entries(posted).map(([name, value]) => [name.toLowerCase(), value] as const);
  return Object.fromEntries(named.filter(([name]) => !replaced.has(name)));
}

/** The text that a page can show and a command can have; undefined where bytes would get lost: those of NUL, or of CR. */
function asArgument(bytes: Uint8Array): string | undefined {
  const text = textOf(bytes);
  return text === undefined || /[\0\r]/.test(text) ? undefined : text;
}
