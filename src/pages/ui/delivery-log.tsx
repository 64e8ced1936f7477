/** The deliveries of a destination, the newest event first, with their states as tabs; read with the API's functions. */

import type { FC } from "hono/jsx";
import type { DeliveryJson } from "../../features/deliveries/schema.ts";
import { getDeliveryLog, type LoggedDelivery } from "../../features/deliveries/service.ts";
import type { Caller } from "../../features/service.ts";
import { eventId, eventNumber } from "../../ids.ts";
import { END, isEnd, type Positions, START } from "../../store/delivery-list.ts";
import type { Destination } from "../../store/destination.ts";
import { deliveriesWithTag, EventLabels, labelsText } from "./event-labels.tsx";
import { Ago, ClippedCell, LineTable, StateCell } from "./parts.tsx";
import { causeText, deliveryText } from "./status-text.ts";

export const logStates = ["all", "queued", "waiting", "retrying", "delivered", "dead"] as const;

type LogState = (typeof logStates)[number];

export type LogEntry = Pick<LoggedDelivery, "delivery" | "event"> &
  Readonly<{
    /** The name of its destination; present in a log of several. */
    destination?: string | undefined;
  }>;

export type LogPage = Readonly<{
  state: LogState;
  entries: readonly Pick<LoggedDelivery, "delivery" | "event">[];
  /** Whether this is the newest page. */
  isFirst: boolean;
  /** The cursor of the next page, which is older; absent on the last page. */
  next?: string;
}>;

const PAGE_SIZE = 25;

/** @param before a cursor; without it the newest page is read */
export async function readLog(
  caller: Caller,
  destination: Pick<Destination, "id" | "tenant">,
  { state, before }: Readonly<{ state: LogState; before: string | undefined }>,
): Promise<LogPage> {
  const cursor = before === undefined ? undefined : positionsOf(destination.id, before);
  const ofState = state === "all" ? undefined : state;
  const log = await getDeliveryLog(caller, { destination, cursor, limit: PAGE_SIZE, state: ofState });
  if (log.kind !== "ok") throw new Error(log.detail);
  const entries = log.value.entries.map(({ delivery, event }) => ({ delivery, event }));
  const { next } = log.value;
  return { state, entries, isFirst: cursor === undefined, ...(next && { next: cursorOf(next) }) };
}

/**
 * One event id for each database, joined by dots: each database continues before its event. "end" marks a database
 * that has nothing more, and a hyphen before the id a position at which no delivery was found.
 */
function cursorOf(positions: Positions): string {
  const parts = positions.map((key) =>
    isEnd(key) ? "end" : `${key.destinationId === "" ? "-" : ""}${eventId(key.eventId)}`,
  );
  return parts.join(".");
}

/** Undefined, for the newest page, when the cursor contains no event id at all. */
function positionsOf(destinationId: string, cursor: string): Positions | undefined {
  const keys = cursor.split(".").map((part) => {
    const number = eventNumber(part.replace(/^-/, ""));
    const key = { destinationId: part.startsWith("-") ? "" : destinationId, eventId: number ?? 0 };
    return part === "end" ? END : number === undefined ? START : key;
  });
  return keys.every((key) => key === START) ? undefined : keys;
}

type TableProps = Readonly<{
  entries: readonly LogEntry[];
  now: number;
  /** Whether the tenants of the events are shown. */
  showTenant?: boolean;
  /** Whether rows can be selected in the form around the table. */
  mayPick?: boolean;
}>;

export const LogTable: FC<TableProps> = ({ entries, now, showTenant = false, mayPick = false }) => (
  <LineTable
    columns={[
      ...(mayPick ? [[<span class="hidden">Select</span>, "pick"] as const] : []),
      ["Event", "main"],
      ["State", "state-cell"],
      ["Attempts", "num count wide"],
      ["Last response", "num wide"],
      ["Accepted", "num time"],
    ]}
  >
    {entries.map((entry) => (
      <LogRow entry={entry} now={now} showTenant={showTenant} mayPick={mayPick} />
    ))}
  </LineTable>
);

/** Where Cloudflare's edge responded in the receiver's place, the error says more than the status. */
export function lastResponseText({
  last_status: status,
  last_error: error,
}: Pick<DeliveryJson, "last_status" | "last_error">): string | number {
  return error === undefined || error.startsWith("http_") ? (status ?? "–") : causeText(error);
}

type RowProps = Omit<TableProps, "entries"> & Readonly<{ entry: LogEntry }>;

type PickProps = Readonly<{ entry: Pick<LogEntry, "delivery" | "event">; label: string }>;

/** The cell that selects a delivery, in the form around the table. It is empty for one whose content is erased. */
export const PickCell: FC<PickProps> = ({ entry: { delivery, event }, label }) => (
  <td class="pick">
    {event?.isErased !== true && (
      <input
        type="checkbox"
        name="delivery"
        value={delivery.id}
        data-hold=""
        aria-label={label}
        autocomplete="off"
      />
    )}
  </td>
);

export const LogRow: FC<RowProps> = ({ entry, now, showTenant, mayPick }) => {
  const { delivery, event, destination } = entry;
  const { tone, label, text } = deliveryText(delivery, event?.acceptedAt ?? now, now);
  const type = event?.type ?? "deleted event";
  const about = [
    ...(destination === undefined ? [] : [`to ${destination}`]),
    ...(showTenant && event ? [`of tenant ${event.tenant}`] : []),
  ].join(" ");
  return (
    <tr id={delivery.id}>
      {mayPick && (
        <PickCell
          entry={entry}
          label={`Select ${type} ${delivery.event_id} ${destination === undefined ? "" : `to ${destination}`}`.trim()}
        />
      )}
      <ClippedCell text={[type, about, delivery.event_id, labelsText(event)].filter(Boolean).join(" ")}>
        <a class="name" href={`/dashboard/events/${delivery.event_id}`}>
          {type}
        </a>
        {about !== "" && <span class="sub">{about}</span>}
        <code class="sub">{delivery.event_id}</code>
        {event && (
          <EventLabels
            tags={event.tags}
            channels={event.channels}
            tagPath={deliveriesWithTag(event.tenant)}
            class="sub"
          />
        )}
      </ClippedCell>
      <StateCell tone={tone} label={label} text={tone === "good" ? "" : text} />
      <td class="num wide">{delivery.attempts}</td>
      <td class="num wide">{lastResponseText(delivery)}</td>
      <td class="num time">{event ? <Ago at={event.acceptedAt} now={now} /> : "–"}</td>
    </tr>
  );
};
