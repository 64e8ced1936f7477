/** The deliveries of a destination, the newest event first, with their states as tabs; read with the API's functions. */

import type { Child, FC, PropsWithChildren } from "hono/jsx";
import { getDeliveryLog, type LoggedDelivery } from "../../features/deliveries/service.ts";
import type { Caller } from "../../features/service.ts";
import { eventId, eventNumber } from "../../ids.ts";
import { END, isEnd, type Positions, START } from "../../store/delivery-list.ts";
import type { Destination } from "../../store/destination.ts";
import { EventLabels, labelsText } from "./event-parts.tsx";
import { addressOf } from "./format.ts";
import { type PageView, usePage } from "./page.tsx";
import {
  Ago,
  LineRow,
  LineTable,
  Pager,
  RowName,
  Section,
  sparing,
  type TableColumns,
  Tabs,
} from "./parts.tsx";
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
  /** Shown on the first page if there are none. */
  empty: string;
  mayPick: boolean;
  /** The form around the table, for selected rows. */
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

type RowProps = Readonly<{
  /** Whether the tenants of the events are shown. */
  showTenant?: boolean;
  /** Whether rows can be selected in the form around the table. */
  mayPick?: boolean;
}>;

export const LogTable: FC<RowProps & Readonly<{ entries: readonly LogEntry[] }>> = ({
  entries,
  ...shown
}) => <LineTable rows={entries} columns={columnsOf(usePage(), shown)} idOf={({ delivery }) => delivery.id} />;

export const LogRow: FC<RowProps & Readonly<{ entry: LogEntry }>> = ({ entry, ...shown }) => (
  <LineRow row={entry} columns={columnsOf(usePage(), shown)} id={entry.delivery.id} />
);

function columnsOf(
  page: PageView,
  { mayPick = false, showTenant = false }: RowProps,
): TableColumns<LogEntry> {
  const { now, f, causeText, deliveryAt, deliveryText } = page;
  const t = page.t.log;
  const typeOf = ({ event }: LogEntry) => event?.type ?? t.deletedEvent;
  const toText = ({ destination }: LogEntry) => (destination === undefined ? "" : `to ${destination}`);
  const aboutText = (entry: LogEntry) =>
    [toText(entry), showTenant && entry.event && `of tenant ${entry.event.tenant}`].filter(Boolean).join(" ");
  return [
    mayPick && [
      <span class="hidden">{t.pick}</span>,
      "pick",
      (entry) =>
        entry.event?.isErased !== true && (
          <input
            type="checkbox"
            name="delivery"
            value={entry.delivery.id}
            data-hold=""
            aria-label={t.select(
              [typeOf(entry), entry.delivery.event_id, toText(entry)].filter(Boolean).join(" "),
            )}
            autocomplete="off"
          />
        ),
    ],
    [
      t.event,
      "main",
      (entry) => (
        <>
          <RowName name={typeOf(entry)} href={deliveryAt(entry.delivery)} sub={aboutText(entry)} />
          <code class="sub">{entry.delivery.event_id}</code>
          {entry.event && <EventLabels event={entry.event} class="sub" />}
          {mayPick && entry.event?.isErased && t.erased && <span class="sub">{t.erased}</span>}
        </>
      ),
      (entry) =>
        [typeOf(entry), aboutText(entry), entry.delivery.event_id, labelsText(page, entry.event)]
          .filter(Boolean)
          .join(" "),
    ],
    [
      t.state,
      "state-cell",
      ({ delivery, event }) => sparing(deliveryText(delivery, event?.acceptedAt ?? now)),
    ],
    [t.attempts, "num count wide", ({ delivery }) => f.count(attemptsMade(delivery))],
    [t.answer, "num wide", ({ delivery }) => lastResponseText(delivery, causeText)],
    [t.accepted, "num time", ({ event }) => (event ? <Ago at={event.acceptedAt} /> : "–")],
  ];
}
