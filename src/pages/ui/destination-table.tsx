/**
 * The health of destinations, and the table that shows it at a glance: one row each, on a phone one card each. A
 * destination is always judged by its last 15 minutes, whichever window the page shows.
 */
import type { FC } from "hono/jsx";
import type { FiguresQuery } from "../../core/gate-view.ts";
import { emptyCounters, type Rates, ratesOf } from "../../core/metrics.ts";
import type { Series, StatsWindow } from "../../core/rollups.ts";
import { COUNTED, type Seen } from "../../features/stats/fleet.ts";
import { type Destination, gateSettingsOf } from "../../store/destinations.ts";
import { Sparkline } from "./charts.tsx";
import { atMost, decimalOf, durationOrNone } from "./format.ts";
import { StateLabel } from "./parts.tsx";
import { type StatusText, statusText, type Tone } from "./status-text.ts";

const HEALTH_WINDOW: StatsWindow = "15m";

/** What pages ask the gates for: the window that health is judged by, and the one that is shown. */
export function figuresQuery(window: StatsWindow = HEALTH_WINDOW): FiguresQuery {
  return { windows: [...new Set([window, HEALTH_WINDOW])], series: true };
}

export type Health = Seen &
  Readonly<{
    status: StatusText;
    /** Rates in the window that health is judged by, as is the series. */
    rates: Rates;
    series: Series;
  }>;

export function destinationHealthOf(seen: Seen, now: number): Health {
  const { row, figures } = seen;
  const { maxConcurrency } = gateSettingsOf(row);
  const status = statusText(
    { status: row.status, statusReason: row.statusReason, maxConcurrency, view: figures?.view },
    now,
  );
  const { sum = emptyCounters(now), series = [] } = figures?.windows[HEALTH_WINDOW] ?? {};
  return { ...seen, status, rates: ratesOf(sum), series };
}

const urgency: Readonly<Record<Tone, number>> = { bad: 0, warn: 1, busy: 2, good: 3, quiet: 4 };

/** What needs attention comes first; among equals the larger backlog, then by URL. */
export function byUrgency(a: Health, b: Health): number {
  return (
    urgency[a.status.tone] - urgency[b.status.tone] ||
    b.depth.waiting - a.depth.waiting ||
    a.row.url.localeCompare(b.row.url)
  );
}

export function needsAttention({ status }: Health): boolean {
  return status.tone === "bad" || status.tone === "warn";
}

type Props = Readonly<{ healths: readonly Health[]; showTenant: boolean }>;

export const DestinationTable: FC<Props> = ({ healths, showTenant }) => (
  <table class="cards">
    <thead>
      <tr>
        <th scope="col">Destination</th>
        <th scope="col">Status</th>
        <th scope="col">15 minutes</th>
        <th scope="col">In flight</th>
        <th scope="col" class="num">
          Waiting
        </th>
        <th scope="col" class="num">
          Retry ratio
        </th>
        <th scope="col" class="num">
          p95 latency
        </th>
      </tr>
    </thead>
    <tbody>
      {healths.map((health) => (
        <Row health={health} showTenant={showTenant} />
      ))}
    </tbody>
  </table>
);

const Row: FC<{ health: Health; showTenant: boolean }> = ({ health, showTenant }) => {
  const { row, figures, depth, status, rates, series } = health;
  const view = figures?.view;
  const about = [
    row.description !== null ? shortUrl(row.url) : undefined,
    showTenant ? row.tenant : undefined,
  ]
    .filter(Boolean)
    .join(" · ");
  const why = [status.reason, status.until].filter(Boolean).join("; ");
  return (
    <tr id={row.id}>
      <td class="all">
        <a class="name break" href={`/dashboard/destinations/${row.id}`}>
          {nameOf(row)}
        </a>
        {about !== "" && <span class="sub">{about}</span>}
      </td>
      <td class="all">
        <StateLabel tone={status.tone}>{status.label}</StateLabel>
        {status.tone !== "good" && why !== "" && <span class="sub">{why}</span>}
      </td>
      <td class="spark">
        <Sparkline series={series} />
      </td>
      <td data-label="In flight" class="nowrap">
        <InFlight count={view?.inFlight} limit={gateSettingsOf(row).maxConcurrency} />
      </td>
      <td data-label="Waiting" class="num">
        {depth.waiting === 0 ? (
          "0"
        ) : (
          <a href={deliveriesIn("waiting", row.id)}>{atMost(depth.waiting, COUNTED)}</a>
        )}
      </td>
      <td data-label="Retry ratio" class={`num ${view?.traffic.storm ? "is-bad" : ""}`}>
        {view ? decimalOf(rates.retryRatio) : "–"}
      </td>
      <td data-label="p95 latency" class="num">
        {durationOrNone(rates.latencyP95Ms)}
      </td>
    </tr>
  );
};

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

/** The owner's description, or the URL when there is none. */
export function nameOf({ description, url }: Pick<Destination, "description" | "url">): string {
  return description?.trim() || shortUrl(url);
}

/** The name of where something is delivered. */
export function placeOf(destination: Destination | null): string {
  return destination ? nameOf(destination) : "deleted destination";
}

/** Without the scheme, which is nearly always https. */
export function shortUrl(url: string): string {
  return url.replace(/^https:\/\//, "");
}

/** Where the deliveries in a state are listed: of one destination, or of all. */
export function deliveriesIn(state: "waiting" | "retrying" | "dead", destination?: string): string {
  const named = destination === undefined ? {} : { destination_id: destination };
  return `/dashboard/deliveries?${new URLSearchParams({ state, ...named })}`;
}
