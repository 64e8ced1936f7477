/**
 * The outages that a policy is simulated in, with the gate and without, and their effect on the receiver. They are
 * chosen so that the presets differ, and have few deliveries, because a page waits for the result: a simulation takes a
 * second of a Worker's time at most.
 */
import type { FC } from "hono/jsx";
import type { GateSettings } from "../../../core/limits.ts";
import type { RetryPolicy } from "../../../core/retry/policy.ts";
import { type OutageReport, simulateOutage } from "../../../simulator/simulate-outage.ts";
import { countOf, decimalOf, durationOf } from "../../ui/format.ts";

/** An outage of a receiver that serves a hundred requests a second. */
const outageOf = (title: string, minutes: number, perSecond: number) => {
  return { title, lastsMs: minutes * 60_000, perSecond, slots: 10, serviceMs: 100 };
};

export const outages = {
  "10m": outageOf("10 minutes, 5 events per second", 10, 5),
  "1h": outageOf("1 hour, 1 event per second", 60, 1),
  "6h": outageOf("6 hours, 6 events per minute", 360, 0.1),
  "1d": outageOf("1 day, 6 events per hour", 24 * 60, 1 / 600),
  "2d": outageOf("2 days, 1 event per hour", 48 * 60, 1 / 3600),
};

export type OutageName = keyof typeof outages;

/** The outage of that name, or the shortest one. */
export function outageNamed(name: string | undefined): OutageName {
  return name !== undefined && Object.hasOwn(outages, name) ? (name as OutageName) : "10m";
}

export type Comparison = Readonly<{
  outage: (typeof outages)[OutageName];
  withGate: OutageReport;
  /** The same policy in a plain job queue. */
  withoutGate: OutageReport;
}>;

/** The limit of actions in one simulation. */
const MAX_STEPS = 400_000;
/** Always the same, so that a change of the result comes from the policy and not from chance. */
const SEED = 1;

export async function compare(
  policy: RetryPolicy,
  settings: GateSettings,
  name: OutageName,
): Promise<Comparison> {
  const outage = outages[name];
  return {
    outage,
    withGate: await simulateOutage(policy, { ...settings, paused: false }, outage, SEED, MAX_STEPS),
    withoutGate: await simulateOutage(policy, null, outage, SEED, MAX_STEPS),
  };
}

const WIDTH = 720;
const HEIGHT = 100;
/** The outage begins after a minute. */
const BEFORE_S = 60;

/** Requests per second at the receiver, with the gate and without, on the same scale. */
export const OutageChart: FC<{ comparison: Comparison }> = ({
  comparison: { outage, withGate, withoutGate },
}) => {
  const { capacity } = withGate;
  const end = BEFORE_S + outage.lastsMs / 1000;
  const seconds = Math.ceil(end * 1.7 + 240);
  const panels = [
    { name: "With the gate", points: peaksOf(withGate, seconds) },
    { name: "The same policy without it", points: peaksOf(withoutGate, seconds) },
  ];
  const top = Math.max(1.15 * capacity, ...panels.flatMap(({ points }) => points.map((p) => p.requests)));
  const scale: Scale = {
    x: (second) => (second / seconds) * WIDTH,
    // The square root, so that both a burst and a trickle are visible.
    y: (requests) => HEIGHT * (1 - Math.sqrt(requests / top)),
  };
  return (
    <>
      {panels.map(({ name, points }) => (
        <figure class="chart simulation panel">
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
            <path class="succeeded" d={area(points, ({ requests }) => requests, scale)} />
            <path class="failed" d={area(points, ({ failed }) => failed, scale)} />
            <path class="capacity" d={`M0 ${rounded(scale.y(capacity))}H${WIDTH}`} />
            <path class="axis-line" d={`M0 ${HEIGHT}H${WIDTH}`} />
          </svg>
        </figure>
      ))}
      <div class="axis" aria-hidden="true">
        <span>1 min before</span>
        <span>{`dashed: the receiver's capacity, ${countOf(capacity)} per second`}</span>
        <span>{`${durationOf((seconds - end) * 1000)} after`}</span>
      </div>
    </>
  );
};

type Scale = Readonly<{ x: (second: number) => number; y: (requests: number) => number }>;
function area(points: readonly Peak[], pick: (point: Peak) => number, { x, y }: Scale): string {
  const line = points.map((point) => `L${rounded(x(point.second))} ${rounded(y(pick(point)))}`).join("");
  return `M0 ${HEIGHT}${line}V${HEIGHT}z`;
}

function rounded(n: number): string {
  return String(Math.round(n * 10) / 10);
}

type Peak = Readonly<{ second: number; requests: number; failed: number }>;

const MAX_POINTS = 240;

/**
 * The busiest second of each stretch of time: as many points as a chart has room for. Pure.
 * @param seconds the length of the report's beginning that is shown
 */
export function peaksOf({ arrivals, failures }: OutageReport, seconds: number): readonly Peak[] {
  const stretch = Math.max(1, Math.ceil(seconds / MAX_POINTS));
  return Array.from({ length: Math.ceil(seconds / stretch) }, (_, i) => {
    const from = i * stretch;
    const within = Array.from({ length: stretch }, (_, k) => pointAt(from + k));
    return { ...within.reduce((a, b) => (b.requests > a.requests ? b : a)), second: from };
  });

  function pointAt(second: number): Peak {
    const requests = arrivals[second] ?? 0;
    // A failure is counted when the response arrives: in the same second or soon after.
    return { second, requests, failed: Math.min(requests, failures[second] ?? 0) };
  }
}

type Row = readonly [
  name: string,
  show: (report: OutageReport) => string,
  isBad?: (report: OutageReport) => boolean,
];

const rows: readonly Row[] = [
  ["Failed requests", ({ wasted }) => countOf(wasted)],
  [
    "Peak second after the outage",
    ({ peak, capacity }) => `${countOf(Math.round(peak * capacity))} of ${countOf(capacity)}`,
    ({ peak }) => peak > 1,
  ],
  [
    "Further outages from overload",
    ({ secondOutages: n }) => (n === 0 ? "none" : countOf(n)),
    ({ secondOutages: n }) => n > 0,
  ],
  ["Recovery noticed", ({ noticedS: s = 0 }) => (s === 0 ? "at once" : `after ${durationOf(s * 1000)}`)],
  ["Time to delivery, p50", ({ p50S }) => durationOf(p50S * 1000)],
  ["Time to delivery, p99", ({ p99S }) => durationOf(p99S * 1000)],
  [
    "Time to drain the backlog, relative to the optimum",
    ({ drain }) => (drain ? `${decimalOf(drain)} ×` : "–"),
  ],
  ["Given up", ({ lost }) => countOf(lost), ({ lost }) => lost > 0],
];

export const OutageTable: FC<{ comparison: Comparison }> = ({ comparison: { withGate, withoutGate } }) => (
  <>
    <table class="compare">
      <thead>
        <tr>
          <th scope="col">{`${countOf(withGate.delivered + withGate.lost)} deliveries`}</th>
          <th scope="col" class="num">
            With the gate
          </th>
          <th scope="col" class="num">
            Without
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, show, isBad]) => (
          <tr>
            <th scope="row">{name}</th>
            {[withGate, withoutGate].map((report) => (
              <td class={`num ${isBad?.(report) ? "is-bad" : ""}`}>{show(report)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
    {!(withGate.complete && withoutGate.complete) && (
      <p class="hint">
        The simulation was stopped before every delivery had ended. The figures cover the part that was
        simulated.
      </p>
    )}
  </>
);
