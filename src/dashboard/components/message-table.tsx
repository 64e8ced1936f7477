/** The message log of a destination, with its states as tabs. */
import type { FC } from "hono/jsx";
import { type DeliveryJson, showDeliveries } from "../../api/deliveries.ts";
import { type EventName, eventNames } from "../../db/bundles.ts";
import { overBy } from "../../db/delivery-filter.ts";
import {
  END,
  isEnd,
  type MergedPage,
  type Positions,
  START,
  storedDeliveries,
} from "../../db/delivery-list.ts";
import { queuedDeliveries } from "../../db/planned-deliveries.ts";
import { eventId, eventNumber } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { deliveryText } from "../status-text.ts";
import { Ago, Word } from "./parts.tsx";

// §§ What was sent to a destination, the newest event first: read with the API's own functions.

export const logStates = ["all", "queued", "waiting", "retrying", "delivered", "dead"] as const;

export type LogState = (typeof logStates)[number];

type LogEntry = Readonly<{ delivery: DeliveryJson; event: EventName | undefined }>;

export type MessageLog = Readonly<{
  state: LogState;
  entries: readonly LogEntry[];
  /** Whether this is the newest page. */
  isFirst: boolean;
  /** The event before which the next page starts, or one of each database; absent on the last page. */
  next?: string;
}>;

const PAGE = 25;

type Asked = Readonly<{ state: LogState; before: string | undefined }>;

/** The newest page, or the one of what is older than the event `before`. */
export async function readLog(
  services: Services,
  destinationId: string,
  { state, before }: Asked,
): Promise<MessageLog> {
  const positions = before === undefined ? undefined : positionsOf(destinationId, before);
  const { found, next } = await pageOf(services, state, destinationId, positions);
  const [shown, names] = await Promise.all([
    showDeliveries(services, found),
    eventNames(
      services,
      found.map(({ eventId }) => eventId),
    ),
  ]);
  const entries = found.flatMap(({ eventId }, i) => {
    const delivery = shown[i];
    return delivery ? [{ delivery, event: names.get(eventId) }] : [];
  });
  return { state, entries, isFirst: positions === undefined, ...(next && { next: placeOf(next) }) };
}

/**
 * The event that each database is gone on with, one after the other; "end" where there is nothing more, and with a
 * hyphen a place that no delivery was found at.
 */
function placeOf(positions: Positions): string {
  const parts = positions.map((key) =>
    isEnd(key) ? "end" : `${key.destinationId === "" ? "-" : ""}${eventId(key.eventId)}`,
  );
  return parts.join(".");
}

/** Undefined when it names no event at all: a page like that is the newest one. */
function positionsOf(destinationId: string, place: string): Positions | undefined {
  const keys = place.split(".").map((part) => {
    const number = eventNumber(part.replace(/^-/, ""));
    const key = { destinationId: part.startsWith("-") ? "" : destinationId, eventId: number ?? 0 };
    return part === "end" ? END : number === undefined ? START : key;
  });
  return keys.every((key) => key === START) ? undefined : keys;
}

function pageOf(
  services: Services,
  state: LogState,
  destinationId: string,
  before: Positions | undefined,
): Promise<MergedPage> {
  const filter = { destinationId, before, limit: PAGE, over: overBy(services) };
  if (state === "queued") return queuedDeliveries(services, filter);
  return storedDeliveries(services, state === "all" ? undefined : state, filter);
}

type Props = Readonly<{ path: string; log: MessageLog; now: number }>;

export const Messages: FC<Props> = ({ path, log, now }) => (
  <section aria-labelledby="messages">
    <div class="head">
      <h2 id="messages">Messages</h2>
      <Tabs path={path} current={log.state} />
    </div>
    {log.entries.length === 0 ? (
      <p class="empty">{emptyWords(log)}</p>
    ) : (
      <table class="cards thin">
        <thead>
          <tr>
            <th scope="col">Event</th>
            <th scope="col">State</th>
            <th scope="col" class="num">
              Attempts
            </th>
            <th scope="col" class="num">
              Last answer
            </th>
            <th scope="col" class="num">
              Accepted
            </th>
          </tr>
        </thead>
        <tbody>
          {log.entries.map((entry) => (
            <Row entry={entry} now={now} />
          ))}
        </tbody>
      </table>
    )}
    <Pager path={path} log={log} />
  </section>
);

const Row: FC<{ entry: LogEntry; now: number }> = ({ entry: { delivery, event }, now }) => {
  const { tone, short, says } = deliveryText(delivery, event?.acceptedAt ?? now, now);
  return (
    <tr id={delivery.id}>
      <td class="all">
        <a class="name break" href={`/dashboard/events/${delivery.event_id}`}>
          {event?.type ?? "a removed event"}
        </a>
        <code class="sub">{delivery.event_id}</code>
      </td>
      <td class="all">
        <Word tone={tone}>{short}</Word>
        {tone !== "good" && <span class="sub">{says}</span>}
      </td>
      <td data-label="Attempts" class="num">
        {delivery.attempts}
      </td>
      <td data-label="Last answer" class="num">
        {delivery.last_status ?? delivery.last_error ?? "–"}
      </td>
      <td data-label="Accepted" class="num">
        {event ? <Ago at={event.acceptedAt} now={now} /> : "–"}
      </td>
    </tr>
  );
};

const Tabs: FC<{ path: string; current: LogState }> = ({ path, current }) => (
  <nav class="tabs" aria-label="States">
    {logStates.map((state) => (
      <a
        href={`${path}${state === "all" ? "" : `?state=${state}`}#messages`}
        {...(state === current && { "aria-current": "true" })}
      >
        {state.charAt(0).toUpperCase() + state.slice(1)}
      </a>
    ))}
  </nav>
);

const Pager: FC<Omit<Props, "now">> = ({ path, log: { state, isFirst, next } }) => {
  const query = (before?: string) =>
    `${path}?${new URLSearchParams({ ...(state !== "all" && { state }), ...(before && { before }) })}#messages`;
  if (isFirst && next === undefined) return null;
  return (
    <p class="pager">
      {!isFirst && <a href={query()}>Newest</a>}
      {next !== undefined && <a href={query(next)}>Older</a>}
    </p>
  );
};

function emptyWords({ state, isFirst }: MessageLog): string {
  if (!isFirst) return "Nothing older.";
  const none = { all: "No attempt has been made yet.", queued: "Nothing is on its way to a first attempt." };
  return state in none ? none[state as keyof typeof none] : `No delivery is ${state}.`;
}
