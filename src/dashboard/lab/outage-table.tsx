/** The figures of a simulated outage, with the gate and without. */
import type { FC } from "hono/jsx";
import type { OutageReport } from "../../lab/simulate-outage.ts";
import { countOf, decimalOf, spanOf } from "../figures.ts";
import type { Comparison } from "./outages.ts";

type Row = Readonly<{ name: string; show: (report: OutageReport) => string; isBad?: Judge }>;
type Judge = (report: OutageReport) => boolean;

const rows: readonly Row[] = [
  { name: "Requests that failed", show: ({ wasted }) => countOf(wasted) },
  {
    name: "Fullest second after it",
    show: ({ peak, capacity }) => `${countOf(Math.round(peak * capacity))} of ${countOf(capacity)}`,
    isBad: ({ peak }) => peak > 1,
  },
  {
    name: "Broken down again",
    show: ({ secondOutages }) => (secondOutages === 0 ? "never" : `${secondOutages} ×`),
    isBad: ({ secondOutages }) => secondOutages > 0,
  },
  {
    name: "Noticed that it was back",
    show: ({ noticedS = 0 }) => (noticedS === 0 ? "at once" : `after ${spanOf(noticedS * 1000)}`),
  },
  { name: "Of those delivered, half within", show: ({ p50S }) => spanOf(p50S * 1000) },
  { name: "99 % within", show: ({ p99S }) => spanOf(p99S * 1000) },
  { name: "Backlog gone, against the optimum", show: ({ drain }) => (drain ? `${decimalOf(drain)} ×` : "–") },
  { name: "Given up", show: ({ lost }) => countOf(lost), isBad: ({ lost }) => lost > 0 },
];

export const OutageTable: FC<{ comparison: Comparison }> = ({ comparison: { gated, alone } }) => (
  <>
    <table class="compare">
      <thead>
        <tr>
          <th scope="col">{`${countOf(gated.delivered + gated.lost)} deliveries`}</th>
          <th scope="col" class="num">
            With the gate
          </th>
          <th scope="col" class="num">
            Without
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ name, show, isBad }) => (
          <tr>
            <th scope="row">{name}</th>
            <Cell report={gated} show={show} isBad={isBad} />
            <Cell report={alone} show={show} isBad={isBad} />
          </tr>
        ))}
      </tbody>
    </table>
    {!(gated.complete && alone.complete) && (
      <p class="hint">
        The simulation was stopped before all had ended: these are figures of what was played.
      </p>
    )}
  </>
);

const Cell: FC<{ report: OutageReport; show: Row["show"]; isBad: Judge | undefined }> = ({
  report,
  show,
  isBad,
}) => <td class={`num ${isBad?.(report) ? "is-bad" : ""}`}>{show(report)}</td>;
