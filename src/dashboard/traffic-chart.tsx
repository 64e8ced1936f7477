/** Traffic as bars: what succeeded stands on the line, what failed stands on that. */
import type { FC } from "hono/jsx";
import type { Series, SeriesPoint, StatsWindow } from "../policy/stats-window.ts";
import { countOf, plural } from "./figures.ts";
import { windowWords } from "./window-tabs.tsx";

const STEP = 40;
const HEIGHT = 100;
const GAP = 6;
/** So that one failure among a thousand successes is still to be seen. */
const LEAST = 2;

export const TrafficChart: FC<{ series: Series; window: StatsWindow }> = ({ series, window }) => {
  const { short, long, each } = windowWords[window];
  const top = Math.max(0, ...series.map(({ attempts }) => attempts));
  const failed = series.reduce((sum, { failures }) => sum + failures, 0);
  const all = series.reduce((sum, { attempts }) => sum + attempts, 0);
  return (
    <figure class="chart tall">
      <svg
        viewBox={boxOf(series)}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${plural(all, "attempt")} in the last ${long}, ${countOf(failed)} of them failed.`}
      >
        <Columns series={series} />
      </svg>
      <div class="axis" aria-hidden="true">
        <span>{`${short} ago`}</span>
        <span>{`highest ${countOf(top)} ${each}`}</span>
        <span>now</span>
      </div>
    </figure>
  );
};

/** A small one for a row of a table, which says the figures itself. */
export const Spark: FC<{ series: Series }> = ({ series }) => (
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
  const height = (count: number) => (count === 0 ? 0 : Math.max(LEAST, (HEIGHT * count) / top));
  const ill = height(failures);
  const well = Math.min(height(attempts - failures), HEIGHT - ill);
  return (
    <g>
      <rect class="ghost" x={x} y={HEIGHT - 1.5} width={width} height={1.5} />
      {well > 0 && <rect class="well" x={x} y={HEIGHT - well} width={width} height={well} />}
      {ill > 0 && <rect class="ill" x={x} y={HEIGHT - well - ill} width={width} height={ill} />}
    </g>
  );
};

export const TrafficLegend: FC = () => (
  <div class="legend" aria-hidden="true">
    <span class="tone-good">succeeded</span>
    <span class="tone-bad">failed</span>
  </div>
);
