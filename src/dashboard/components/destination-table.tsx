/** Destinations with their health at a glance, one row each; on a phone one card each. */
import type { FC } from "hono/jsx";
import { type Destination, gateSettingsOf } from "../../db/destinations.ts";
import { COUNTED, type Health } from "../destination-health.ts";
import { atMost, decimalOf, spanIfAny } from "../format.ts";
import { Spark } from "./charts.tsx";
import { Word } from "./parts.tsx";

type Props = Readonly<{ healths: readonly Health[]; showTenant: boolean }>;

export const DestinationTable: FC<Props> = ({ healths, showTenant }) => (
  <table class="cards">
    <thead>
      <tr>
        <th scope="col">Destination</th>
        <th scope="col">Door</th>
        <th scope="col">15 minutes</th>
        <th scope="col">In flight</th>
        <th scope="col" class="num">
          Waiting
        </th>
        <th scope="col" class="num">
          Retries per first
        </th>
        <th scope="col" class="num">
          95 % take
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
  const { row, figures, depth, words, rates, series } = health;
  const view = figures?.view;
  const about = [
    row.description !== null ? shortUrl(row.url) : undefined,
    showTenant ? row.tenant : undefined,
  ]
    .filter(Boolean)
    .join(" · ");
  return (
    <tr id={row.id}>
      <td class="all">
        <a class="name break" href={`/dashboard/destinations/${row.id}`}>
          {nameOf(row)}
        </a>
        {about !== "" && <span class="sub">{about}</span>}
      </td>
      <td class="all">
        <Word tone={words.tone}>{words.short}</Word>
        {words.tone !== "good" && words.reason !== undefined && <span class="sub">{words.reason}</span>}
      </td>
      <td class="spark">
        <Spark series={series} />
      </td>
      <td data-label="In flight" class="nowrap">
        <InFlight now={view?.inFlight} most={gateSettingsOf(row).maxConcurrency} />
      </td>
      <td data-label="Waiting" class="num">
        {atMost(depth.waiting, COUNTED)}
      </td>
      <td data-label="Retries per first" class={`num ${view?.traffic.storm ? "is-bad" : ""}`}>
        {view ? decimalOf(rates.retryRatio) : "–"}
      </td>
      <td data-label="95 % take" class="num">
        {spanIfAny(rates.latencyP95Ms)}
      </td>
    </tr>
  );
};

/** Connections in use of those that there may be. */
const InFlight: FC<{ now: number | undefined; most: number }> = ({ now, most }) => {
  if (now === undefined) return <>–</>;
  const full = now >= most;
  return (
    <>
      <svg
        class={`fill ${full ? "is-full" : ""}`}
        viewBox="0 0 52 6"
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        <rect class="most" width="52" height="6" rx="3" />
        {now > 0 && (
          <rect class="now" width={Math.max(6, (52 * Math.min(now, most)) / most)} height="6" rx="3" />
        )}
      </svg>
      {now}
      <span class="soft">{` / ${most}`}</span>
    </>
  );
};

/** What its owner calls it; its address where that is nothing. */
export function nameOf({ description, url }: Pick<Destination, "description" | "url">): string {
  return description?.trim() || shortUrl(url);
}

/** Without its scheme: everybody's is https. */
export function shortUrl(url: string): string {
  return url.replace(/^https:\/\//, "");
}
