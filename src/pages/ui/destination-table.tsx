/**
 * The health of destinations, and the table that shows it at a glance, one line each. A destination is always judged by
 * its last 15 minutes, whichever window the page shows.
 */
import type { FC } from "hono/jsx";
import type { FiguresQuery } from "../../core/gate-view.ts";
import { emptyCounters, type Rates, ratesOf } from "../../core/metrics.ts";
import type { Series, StatsWindow } from "../../core/rollups.ts";
import { isPolled } from "../../delivery/kinds/sending.ts";
import { COUNTED, type FleetMember } from "../../features/stats/fleet.ts";
import { type Destination, gateSettingsOf } from "../../store/destination.ts";
import { Sparkline } from "./charts.tsx";
import { atMost, decimalOf, durationOrNone } from "./format.ts";
import { type Column, LineTable, RowName, sparing } from "./parts.tsx";
import { type StatusText, statusText, type Tone, withHeld } from "./status-text.ts";

const HEALTH_WINDOW: StatsWindow = "15m";

/** The figures that pages request from the gates: the window that health is judged by, and the one that is shown. */
export function figuresQuery(window: StatsWindow = HEALTH_WINDOW): FiguresQuery {
  return { windows: [...new Set([window, HEALTH_WINDOW])], series: true };
}

export type Health = FleetMember &
  Readonly<{
    status: StatusText;
    /** Rates in the window that health is judged by, as is the series. */
    rates: Rates;
    series: Series;
  }>;

export function destinationHealthOf(seen: FleetMember, now: number): Health {
  const { row, figures } = seen;
  const { maxConcurrency } = gateSettingsOf(row);
  const own = statusText(
    { status: row.status, statusReason: row.statusReason, maxConcurrency, view: figures?.view },
    now,
  );
  const status = withHeld(own, seen.depth.held);
  const { sum = emptyCounters(now), series = [] } = figures?.windows[HEALTH_WINDOW] ?? {};
  return { ...seen, status, rates: ratesOf(sum), series };
}

const urgency: Readonly<Record<Tone, number>> = { bad: 0, warn: 1, busy: 2, good: 3, quiet: 4 };

/** Destinations that need attention come first; among equals the larger backlog, then by URL. */
function byUrgency(a: Health, b: Health): number {
  return (
    urgency[a.status.tone] - urgency[b.status.tone] ||
    b.depth.waiting - a.depth.waiting ||
    a.row.url.localeCompare(b.row.url)
  );
}

export function needsAttention({ status }: Health): boolean {
  return status.tone === "bad" || status.tone === "warn";
}

const descending = (of: (one: Health) => number) => (a: Health, b: Health) => of(b) - of(a);

/** How the table can be sorted, by the name of a column. The largest number comes first. */
const sorts: Readonly<Record<string, (a: Health, b: Health) => number>> = {
  name: (a, b) => nameOf(a.row).localeCompare(nameOf(b.row)),
  status: byUrgency,
  in_flight: descending(({ figures }) => figures?.view.inFlight ?? -1),
  waiting: descending(({ depth }) => depth.waiting),
  retries: descending(({ rates }) => rates.retryRatio),
  latency: descending(({ rates }) => rates.latencyP95Ms ?? -1),
};

/** The columns that begin with the smallest value. */
const ASCENDING = ["name", "status"];

const DEFAULT_SORT = "status";

/** How a list of destinations is filtered and sorted, as in its address: `state=circuit-open`, `sort=-waiting`. */
export type ListView = Readonly<{ state: string | undefined; sort: string; isReversed: boolean }>;

export function listViewIn({ state, sort = "" }: Readonly<Record<string, string>>): ListView {
  const name = sort.replace(/^-/, "");
  const isKnown = Object.hasOwn(sorts, name);
  return { state, sort: isKnown ? name : DEFAULT_SORT, isReversed: isKnown && sort.startsWith("-") };
}

/** The view in an address, without default values. */
export function queryOfView({ state, sort, isReversed }: ListView) {
  const text = `${isReversed ? "-" : ""}${sort}`;
  return { ...(state !== undefined && { state }), ...(text !== DEFAULT_SORT && { sort: text }) };
}

const ATTENTION = "attention";

/** The states of a list, with how many destinations are in each; the most urgent first. */
export function statesOf(healths: readonly Health[]) {
  const sorted = Map.groupBy(healths.toSorted(byUrgency), ({ status }) => status.label);
  const labels = [...sorted].map(([title, { length }]) => ({ state: slugOf(title), title, count: length }));
  const troubled = healths.filter(needsAttention).length;
  return troubled === 0
    ? labels
    : [{ state: ATTENTION, title: "Needs attention", count: troubled }, ...labels];
}

function slugOf(label: string): string {
  return label.toLowerCase().replaceAll(" ", "-");
}

export function destinationsIn(
  healths: readonly Health[],
  { state, sort, isReversed }: ListView,
): readonly Health[] {
  const isShown = (one: Health) =>
    state === undefined || (state === ATTENTION ? needsAttention(one) : slugOf(one.status.label) === state);
  const sorted = healths.filter(isShown).toSorted(byUrgency).toSorted(sorts[sort]);
  return isReversed ? sorted.toReversed() : sorted;
}

type Sorting = Readonly<{ view: ListView; at: (view: ListView) => string }>;

type Props = Readonly<{
  healths: readonly Health[];
  showTenant: boolean;
  /** The address of the table with other views; absent if it cannot be sorted. */
  sorting?: Sorting;
  empty: string;
}>;

export const DestinationTable: FC<Props> = ({ healths, showTenant, sorting, empty }) => {
  /** Sorts by the column; once more, the other way round. `wide` columns are left out on phones. */
  const column = (
    name: string,
    title: string,
    of: string,
    cell: Column<Health>[2],
    tooltip?: (one: Health) => string,
  ): Column<Health> => {
    if (sorting === undefined || !Object.hasOwn(sorts, name)) return [title, of, cell, tooltip];
    const { view, at } = sorting;
    const isCurrent = view.sort === name;
    const link = <a href={at({ ...view, sort: name, isReversed: isCurrent && !view.isReversed })}>{title}</a>;
    const order = ASCENDING.includes(name) !== view.isReversed ? "ascending" : "descending";
    return [link, of, cell, tooltip, isCurrent ? order : undefined];
  };
  const about = ({ row }: Health) =>
    [row.description !== null && shortUrl(row.url), showTenant && row.tenant].filter(Boolean).join(" · ");
  const nameTip = (one: Health) => [nameOf(one.row), about(one)].filter(Boolean).join(" · ");
  return (
    <LineTable
      rows={healths}
      idOf={({ row }) => row.id}
      empty={empty}
      columns={[
        column(
          "name",
          "Destination",
          "main",
          (one) => (
            <RowName name={nameOf(one.row)} href={`/dashboard/destinations/${one.row.id}`} sub={about(one)} />
          ),
          nameTip,
        ),
        column("status", "Status", "state-cell brief", statusOf),
        column("traffic", "15 minutes", "spark wide", ({ series }) => <Sparkline series={series} />),
        column("in_flight", "In flight", "flight wide", ({ row, figures }) => (
          <InFlight count={figures?.view.inFlight} limit={gateSettingsOf(row).maxConcurrency} />
        )),
        column("waiting", "Waiting", "num count", ({ row, depth: { waiting } }) =>
          waiting === 0 ? "0" : <a href={deliveriesIn("waiting", row.id)}>{atMost(waiting, COUNTED)}</a>,
        ),
        column("retries", "Retry ratio", "num rate wide", ({ figures, rates }) =>
          figures ? (
            <span class={figures.view.traffic.storm ? "is-bad" : undefined}>
              {decimalOf(rates.retryRatio)}
            </span>
          ) : (
            "–"
          ),
        ),
        column("latency", "p95 latency", "num rate wide", ({ rates }) => durationOrNone(rates.latencyP95Ms)),
      ]}
    />
  );
};

function statusOf({ status: { tone, label, reason, until } }: Health) {
  return sparing({ tone, label, text: [reason, until].filter(Boolean).join("; ") });
}

/** Attempts in flight, out of the concurrency limit. */
const InFlight: FC<{ count: number | undefined; limit: number }> = ({ count, limit }) => {
  if (count === undefined) return <>–</>;
  return (
    <>
      <svg
        class={`fill ${count >= limit ? "is-full" : ""}`}
        viewBox="0 0 52 6"
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        <rect class="limit" width="52" height="6" rx="3" />
        {count > 0 && (
          <rect class="used" width={Math.max(6, (52 * Math.min(count, limit)) / limit)} height="6" rx="3" />
        )}
      </svg>
      {count}
      <span class="soft">{` / ${limit}`}</span>
    </>
  );
};

/** The owner's description, or the URL when there is none. All inboxes have the same target, so each shows its id. */
export function nameOf({ id, description, url }: Pick<Destination, "id" | "description" | "url">): string {
  return description?.trim() || (isPolled({ url }) ? `Inbox ${id}` : shortUrl(url));
}

/** The name of a delivery's target. */
export function placeOf(destination: Destination | null): string {
  return destination ? nameOf(destination) : "deleted destination";
}

/** Without the scheme, which is nearly always https. */
export function shortUrl(url: string): string {
  return url.replace(/^https:\/\//, "");
}

/** The list of the deliveries in a state: of one destination, or of all. */
export function deliveriesIn(state: "waiting" | "retrying" | "dead", destination?: string): string {
  const named = destination === undefined ? {} : { destination_id: destination };
  return `/dashboard/deliveries?${new URLSearchParams({ state, ...named })}`;
}
