/** Charts of traffic, in which failures are stacked on successes, and the time scale that other charts share. */
import type { Child, FC } from "hono/jsx";
import type { Series, SeriesPoint, StatsWindow } from "../../core/rollups.ts";
import { countOf, durationOf, plural } from "./format.ts";
import { Section, WindowTabs, windowTexts } from "./parts.tsx";

const STEP = 40;
const HEIGHT = 100;
const GAP = 6;
/** A minimum, so that one failure among a thousand successes is still visible. */
const MIN_HEIGHT = 2;

type TrafficProps = Readonly<{
  series: Series;
  window: StatsWindow;
  /** The address of the page with another window. */
  at: (window?: StatsWindow) => string;
  children?: Child;
}>;

/** The attempts in a window, with links to the others. */
export const TrafficSection: FC<TrafficProps> = ({ series, window, at, children }) => {
  const { short, long, each } = windowTexts[window];
  const { all, failed, top } = totalsOf(series);
  const aside = (
    <>
      <Legend good="succeeded" bad="failed" />
      <WindowTabs at={at} current={window} />
    </>
  );
  return (
    <Section id="traffic" title="Attempts" aside={aside}>
      <SeriesChart
        series={series}
        label={`${plural(all, "attempt")} in the last ${long}, ${countOf(failed)} of them failed.`}
        axis={[`${short} ago`, `peak ${countOf(top)} ${each}`, "now"]}
      />
      {children}
    </Section>
  );
};

/** The attempts of a series, those that failed, and the most of a step. */
export function totalsOf(series: Series): Readonly<Record<"all" | "failed" | "top", number>> {
  return {
    all: series.reduce((sum, { attempts }) => sum + attempts, 0),
    failed: series.reduce((sum, { failures }) => sum + failures, 0),
    top: Math.max(0, ...series.map(({ attempts }) => attempts)),
  };
}

type SeriesChartProps = Readonly<{
  series: Series;
  /** The chart in words. */
  label: string;
  /** Below the chart, from left to right. */
  axis: readonly string[];
}>;

export const SeriesChart: FC<SeriesChartProps> = ({ series, label, axis }) => (
  <figure class="chart tall">
    <svg viewBox={boxOf(series)} preserveAspectRatio="none" role="img" aria-label={label}>
      <Columns series={series} />
    </svg>
    <div class="axis" aria-hidden="true">
      {axis.map((text) => (
        <span>{text}</span>
      ))}
    </div>
  </figure>
);

/** A small chart for a row of a table, which has the figures as text. */
export const Sparkline: FC<{ series: Series }> = ({ series }) => (
  <svg viewBox={boxOf(series)} preserveAspectRatio="none" aria-hidden="true">
    <Columns series={series} />
  </svg>
);

function boxOf(series: Series): string {
  return `0 0 ${Math.max(1, series.length) * STEP} ${HEIGHT}`;
}

const Columns: FC<{ series: Series }> = ({ series }) => {
  const top = Math.max(1, ...series.map(({ attempts }) => attempts));
  return (
    <>
      {series.map((point, i) => (
        <Column point={point} x={i * STEP + GAP / 2} top={top} />
      ))}
    </>
  );
};

const Column: FC<{ point: SeriesPoint; x: number; top: number }> = ({
  point: { attempts, failures },
  x,
  top,
}) => {
  const width = STEP - GAP;
  const height = (count: number) => (count === 0 ? 0 : Math.max(MIN_HEIGHT, (HEIGHT * count) / top));
  const failed = height(failures);
  const succeeded = Math.min(height(attempts - failures), HEIGHT - failed);
  return (
    <g>
      <rect class="baseline" x={x} y={HEIGHT - 1.5} width={width} height={1.5} />
      {succeeded > 0 && (
        <rect class="succeeded" x={x} y={HEIGHT - succeeded} width={width} height={succeeded} />
      )}
      {failed > 0 && (
        <rect class="failed" x={x} y={HEIGHT - succeeded - failed} width={width} height={failed} />
      )}
    </g>
  );
};
export const Legend: FC<{ good: string; bad: string }> = ({ good, bad }) => (
  <div class="legend" aria-hidden="true">
    <span class="tone-good">{good}</span>
    <span class="tone-bad">{bad}</span>
  </div>
);

export type Tick = Readonly<{ x: number; label: string }>;

/**
 * A time scale on which positions are logarithms of ages: a schedule with exponential backoff is spaced evenly, and the
 * first second is as easy to read as the last day.
 */
export type TimeScale = Readonly<{
  /** The position of an age in ms, 0 to 100. */
  place: (ageMs: number) => number;
  ticks: readonly Tick[];
}>;

const SECOND = 1000;

const DAY_S = 24 * 3600;
/** In seconds. */
const ages: readonly number[] = [
  ...[1, 10, 60, 600, 3600, 6 * 3600],
  ...[DAY_S, 3 * DAY_S, 10 * DAY_S, 30 * DAY_S],
];

/** Leaves room at the right for the last mark. */
const WIDTH = 98;

/** A position for SVG, with a margin at the left so that the first mark is whole. */
export function percent(x: number): string {
  return `${(1 + x).toFixed(2)}%`;
}

/** @param duration writes the ticks' labels; in English by default */
export function timeScale(longestMs: number, duration: (ms: number) => string = durationOf): TimeScale {
  const longest = Math.max(10 * SECOND, longestMs);
  const place = (ageMs: number) =>
    (WIDTH * Math.log1p(Math.max(0, ageMs) / SECOND)) / Math.log1p(longest / SECOND);
  const ticks = ages
    .filter((age) => age * SECOND <= longest)
    .map((age) => ({ x: place(age * SECOND), label: duration(age * SECOND) }));
  return { place, ticks };
}
