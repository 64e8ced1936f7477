/** A destination in figures: now, and over time. */
import type { FC } from "hono/jsx";
import { type StatsWindow, spans } from "../policy/stats-window.ts";
import { limitsOf } from "../store/destination-settings.ts";
import { stretchesOf } from "./door-strip.ts";
import { CircuitTimeline } from "./door-timeline.tsx";
import { atMost, countOf, decimalOf, spanIfAny } from "./figures.ts";
import { COUNTED, type Health } from "./health.ts";
import { Figure } from "./parts.tsx";
import { TrafficChart, TrafficLegend } from "./traffic-chart.tsx";
import { WindowTabs } from "./window-tabs.tsx";

/** How it stands at this moment. */
export const DestinationFigures: FC<{ health: Health }> = ({ health: { row, figures, depth, rates } }) => (
  <section aria-label="At this moment">
    <dl class="figures">
      <Figure
        name="In flight"
        value={countOf(figures?.view.inFlight ?? 0)}
        unit={`of ${limitsOf(row).max_concurrency}`}
      />
      <Figure name="Allowed at once" value={countOf(figures?.view.window ?? 0)} />
      <Figure name="Waiting" value={atMost(depth.waiting, COUNTED)} />
      <Figure name="Retrying" value={countOf(depth.retrying)} />
      <Figure name="Dead" value={atMost(depth.dead, COUNTED)} tone={depth.dead > 0 ? "bad" : undefined} />
      <Figure
        name="Retries per first"
        value={decimalOf(rates.retryRatio)}
        tone={figures?.view.traffic.storm ? "bad" : undefined}
      />
      <Figure name="95 % take at most" value={spanIfAny(rates.latencyP95Ms)} />
    </dl>
  </section>
);

type FiguresProps = Readonly<{ path: string; health: Health; window: StatsWindow; now: number }>;

/** What was sent over time, and how the door stood meanwhile. */
export const DestinationTraffic: FC<FiguresProps> = ({ path, health, window, now }) => {
  const { row, figures } = health;
  const series = figures?.windows[window]?.series ?? [];
  const since = series[0]?.at ?? now;
  return (
    <section aria-labelledby="traffic">
      <div class="head">
        <h2 id="traffic">Attempts</h2>
        <TrafficLegend />
        <WindowTabs path={path} current={window} />
      </div>
      <TrafficChart series={series} window={window} />
      {figures && series.length > 0 && (
        <CircuitTimeline
          stretches={stretchesOf({ history: figures.view.history, row }, since, now)}
          since={since}
          until={since + series.length * spans[window].stepMs}
          now={now}
        />
      )}
    </section>
  );
};
