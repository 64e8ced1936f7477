/**
 * The outages that a policy can be tried on, and what comes of each, with the gate and without. Chosen so that
 * presets differ in them; and few deliveries, because a page waits for it: a second of a Worker's time at most.
 */

import type { FC } from "hono/jsx";
import type { GateSettings } from "../../core/limits.ts";
import type { RetryPolicy } from "../../core/retry/policy.ts";
import { type OutageReport, simulateOutage } from "../../simulator/simulate-outage.ts";
import { countOf, decimalOf, spanOf } from "../format.ts";
import { fullestOf, type Point } from "./schedule-chart.tsx";

const MINUTE_MS = 60_000;

/** A receiver that can take a hundred requests a second. */
const receiver = { slots: 10, serviceMs: 100 };

export const outages = {
  "10m": { says: "10 minutes, 5 events a second", lastsMs: 10 * MINUTE_MS, perSecond: 5, ...receiver },
  "1h": { says: "1 hour, 1 event a second", lastsMs: 60 * MINUTE_MS, perSecond: 1, ...receiver },
  "6h": { says: "6 hours, 6 events a minute", lastsMs: 360 * MINUTE_MS, perSecond: 0.1, ...receiver },
  "1d": { says: "a day, 6 events an hour", lastsMs: 24 * 60 * MINUTE_MS, perSecond: 1 / 600, ...receiver },
  "2d": {
    says: "a weekend, an event an hour",
    lastsMs: 48 * 60 * MINUTE_MS,
    perSecond: 1 / 3600,
    ...receiver,
  },
} as const;

export type OutageName = keyof typeof outages;

export type Comparison = Readonly<{
  outage: (typeof outages)[OutageName];
  gated: OutageReport;
  /** The same policy on a plain job queue. */
  alone: OutageReport;
}>;

/** Actions of one simulation at most. */
const STEPS = 400_000;
/** Always the same: whoever changes the policy wants to see what that does, and not what chance does. */
const SEED = 1;

export function outageNamed(name: string | undefined): OutageName {
  return name !== undefined && Object.hasOwn(outages, name) ? (name as OutageName) : "10m";
}

export function compare(policy: RetryPolicy, gate: GateSettings, name: OutageName): Comparison {
  const outage = outages[name];
  const open = { ...gate, paused: false };
  return {
    outage,
    gated: simulateOutage(policy, open, outage, SEED, STEPS),
    alone: simulateOutage(policy, null, outage, SEED, STEPS),
  };
}

// §§ What an outage looks like from the receiver: requests a second, with the gate and without, on one scale.

const WIDTH = 720;
const HEIGHT = 100;
/** The outage begins after a minute. */
const BEFORE_S = 60;

export const OutageChart: FC<{ comparison: Comparison }> = ({ comparison: { outage, gated, alone } }) => {
  const end = BEFORE_S + outage.lastsMs / 1000;
  const seconds = Math.ceil(end * 1.7 + 240);
  const panels = [
    { name: "With the gate", points: fullestOf(gated, seconds) },
    { name: "The same policy without it", points: fullestOf(alone, seconds) },
  ];
  const top = Math.max(
    1.15 * gated.capacity,
    ...panels.flatMap(({ points }) => points.map((p) => p.requests)),
  );
  const scale: Scale = {
    x: (second) => (second / seconds) * WIDTH,
    // The square root: a herd and a trickle are to be seen in the same picture.
    y: (requests) => HEIGHT * (1 - Math.sqrt(requests / top)),
  };
  return (
    <>
      {panels.map(({ name, points }) => (
        <figure class="chart lab panel">
          <figcaption>{name}</figcaption>
          <svg
            viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
            preserveAspectRatio="none"
            role="img"
            aria-label={`${name}: at most ${countOf(Math.max(...points.map((p) => p.requests)))} requests in a second.`}
          >
            <rect
              class="outage"
              x={scale.x(BEFORE_S)}
              width={scale.x(end - BEFORE_S)}
              y="0"
              height={HEIGHT}
            />
            <path class="well" d={area(points, ({ requests }) => requests, scale)} />
            <path class="ill" d={area(points, ({ failed }) => failed, scale)} />
            <path class="capacity" d={`M0 ${one(scale.y(gated.capacity))}H${WIDTH}`} />
            <path class="ground" d={`M0 ${HEIGHT}H${WIDTH}`} />
          </svg>
        </figure>
      ))}
      <div class="axis" aria-hidden="true">
        <span>{`a minute before`}</span>
        <span>{`dashed: ${countOf(gated.capacity)} a second, what it can take`}</span>
        <span>{`${spanOf((seconds - end) * 1000)} after it`}</span>
      </div>
    </>
  );
};

type Scale = Readonly<{ x: (second: number) => number; y: (requests: number) => number }>;

/** From the ground up and back to it. */
function area(points: readonly Point[], pick: (point: Point) => number, { x, y }: Scale): string {
  const line = points.map((point) => `L${one(x(point.second))} ${one(y(pick(point)))}`).join("");
  return `M0 ${HEIGHT}${line}V${HEIGHT}z`;
}

function one(n: number): string {
  return String(Math.round(n * 10) / 10);
}

// §§ The figures of a simulated outage, with the gate and without.

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
