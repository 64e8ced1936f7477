/** The deliveries of a destination, the newest event first, with their states as tabs; read with the API's functions. */

import type { Child, FC, PropsWithChildren } from "hono/jsx";
import { getDeliveryLog, type LoggedDelivery } from "../../features/deliveries/service.ts";
import type { Caller } from "../../features/service.ts";
import { eventId, eventNumber } from "../../ids.ts";
import { END, isEnd, type Positions, START } from "../../store/delivery-list.ts";
import type { Destination } from "../../store/destination.ts";
import { EventLabels, labelsText } from "./event-labels.tsx";
import { addressOf } from "./format.ts";
import { usePage } from "./page.tsx";
import { Ago, ClippedCell, LineTable, Pager, Section, StateCell, Tabs } from "./parts.tsx";
import { attemptsMade, lastResponseText } from "./status-text.ts";

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

type LogProps = Readonly<{
  /** The page that it is on. */
  path: string;
  page: LogPage;
  /** Shown on the first page where there are none. */
  empty: string;
  mayPick: boolean;
  /** The form around the table, for what is selected. */
  form: (table: Child) => Child;
}>;

/** The deliveries of a destination on its page, with their states as tabs. */
export const DeliveryLog: FC<PropsWithChildren<LogProps>> = ({
  path,
  page,
  empty,
  mayPick,
  form,
  children,
}) => {
  const { t } = usePage();
  const { state: shown, entries, isFirst, next } = page;
  const of = (state: LogState) => ({ state: state === "all" ? undefined : state });
  const tabs = logStates.map((state) => {
    const href = `${addressOf(path, of(state))}#deliveries`;
    return [href, t.log.states[state], state === shown] as const;
  });
  return (
    <Section id="deliveries" title={t.log.title} aside={<Tabs label={t.log.state} of={tabs} />}>
      {entries.length === 0 ? (
        <p class="empty">{isFirst ? empty : t.log.noOlder}</p>
      ) : (
        form(<LogTable entries={entries} mayPick={mayPick} />)
      )}
      <Pager
        path={path}
        query={of(shown)}
        next={next && { before: next }}
        isFirst={isFirst}
        isLog
        anchor="#deliveries"
      />
      {children}
    </Section>
  );
};

type TableProps = Readonly<{
  entries: readonly LogEntry[];
  /** Whether the tenants of the events are shown. */
  showTenant?: boolean;
  /** Whether rows can be selected in the form around the table. */
  mayPick?: boolean;
}>;

export const LogTable: FC<TableProps> = ({ entries, mayPick = false, showTenant = false }) => {
  const { pick, event, state, attempts, answer, accepted } = usePage().t.log;
  return (
    <LineTable
      columns={[
        ...(mayPick ? [[<span class="hidden">{pick}</span>, "pick"] as const] : []),
        [event, "main"],
        [state, "state-cell"],
        [attempts, "num count wide"],
        [answer, "num wide"],
        [accepted, "num time"],
      ]}
    >
      {entries.map((entry) => (
        <LogRow entry={entry} showTenant={showTenant} mayPick={mayPick} />
      ))}
    </LineTable>
  );
};

type RowProps = Omit<TableProps, "entries"> & Readonly<{ entry: LogEntry }>;

export const LogRow: FC<RowProps> = ({ entry, showTenant, mayPick }) => {
  const page = usePage();
  const { now, f, t, causeText, deliveryAt, deliveryText } = page;
  const { delivery, event, destination } = entry;
  const { tone, label, text } = deliveryText(delivery, event?.acceptedAt ?? now);
  const type = event?.type ?? t.log.deletedEvent;
  const to = destination === undefined ? [] : [`to ${destination}`];
  const about = [...to, ...(showTenant && event ? [`of tenant ${event.tenant}`] : [])].join(" ");
  const isErased = event?.isErased === true;
  return (
    <tr id={delivery.id}>
      {mayPick && (
        <td class="pick">
          {!isErased && (
            <input
              type="checkbox"
              name="delivery"
              value={delivery.id}
              data-hold=""
              aria-label={t.log.select([type, delivery.event_id, ...to].join(" "))}
              autocomplete="off"
            />
          )}
        </td>
      )}
      <ClippedCell text={[type, about, delivery.event_id, labelsText(page, event)].filter(Boolean).join(" ")}>
        <a class="name" href={deliveryAt(delivery)}>
          {type}
        </a>
        {about !== "" && <span class="sub">{about}</span>}
        <code class="sub">{delivery.event_id}</code>
        {event && <EventLabels event={event} class="sub" />}
        {mayPick && isErased && t.log.erased && <span class="sub">{t.log.erased}</span>}
      </ClippedCell>
      <StateCell tone={tone} label={label} text={tone === "good" ? "" : text} />
      <td class="num wide">{f.count(attemptsMade(delivery))}</td>
      <td class="num wide">{lastResponseText(delivery, causeText)}</td>
      <td class="num time">{event ? <Ago at={event.acceptedAt} /> : "–"}</td>
    </tr>
  );
};
