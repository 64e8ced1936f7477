/** Traffic as bars: what succeeded stands on the line, what failed stands on that. */
import type { FC } from "hono/jsx";
import { countOf, plural } from "./figures.ts";
import type { Bar } from "./traffic.ts";

const STEP = 40;
const HEIGHT = 100;
const GAP = 6;

type Props = Readonly<{ bars: readonly Bar[]; size?: "tall" | "low" }>;

export const TrafficChart: FC<Props> = ({ bars, size = "tall" }) => {
  const top = Math.max(1, ...bars.map(({ succeeded, failed }) => succeeded + failed));
  return (
    <figure class={`chart ${size}`}>
      <svg
        viewBox={`0 0 ${bars.length * STEP} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={summaryOf(bars)}
      >
        <line class="grid" x1="0" y1={HEIGHT} x2={bars.length * STEP} y2={HEIGHT} />
        {bars.map((bar, i) => (
          <Column bar={bar} x={i * STEP + GAP / 2} width={STEP - GAP} top={top} />
        ))}
      </svg>
      <div class="axis" aria-hidden="true">
        <span>{`${bars.length} min ago`}</span>
        <span>{`highest ${countOf(top)} a minute`}</span>
        <span>now</span>
      </div>
    </figure>
  );
};

/** A small one for a row of a table, which says the figures itself. */
export const Spark: FC<Pick<Props, "bars">> = ({ bars }) => {
  const top = Math.max(1, ...bars.map(({ succeeded, failed }) => succeeded + failed));
  return (
    <svg viewBox={`0 0 ${bars.length * STEP} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      {bars.map((bar, i) => (
        <Column bar={bar} x={i * STEP + GAP / 2} width={STEP - GAP} top={top} />
      ))}
    </svg>
  );
};

const Column: FC<{ bar: Bar; x: number; width: number; top: number }> = ({ bar, x, width, top }) => {
  const well = (HEIGHT * bar.succeeded) / top;
  const ill = (HEIGHT * bar.failed) / top;
  return (
    <g>
      <rect class="ghost" x={x} y={HEIGHT - 1.5} width={width} height={1.5} />
      {well > 0 && <rect class="well" x={x} y={HEIGHT - well} width={width} height={well} />}
      {ill > 0 && <rect class="ill" x={x} y={HEIGHT - well - ill} width={width} height={ill} />}
    </g>
  );
};

/** The chart for whoever cannot see it. */
function summaryOf(bars: readonly Bar[]): string {
  const failed = bars.reduce((sum, bar) => sum + bar.failed, 0);
  const attempts = bars.reduce((sum, bar) => sum + bar.succeeded, failed);
  return `${plural(attempts, "attempt")} in the last ${bars.length} minutes, ${countOf(failed)} of them failed.`;
}

export const TrafficLegend: FC = () => (
  <div class="legend" aria-hidden="true">
    <span class="tone-good">succeeded</span>
    <span class="tone-bad">failed</span>
  </div>
);
