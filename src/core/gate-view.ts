/** A gate's state and figures for people: API, dashboard and metrics. */
import { type Refusal, refusalAt } from "./admit.ts";
import { widthOf } from "./concurrency-window.ts";
import { destinationStateAt } from "./destination-state.ts";
import { type GateState, type HistoryEntry, withoutExpired } from "./gate-state.ts";
import { type Lease, slotsOf, tatOf } from "./lease.ts";
import type { GateSettings } from "./limits.ts";
import type { Counters } from "./metrics.ts";
import { effectiveRate, nextSendAt, type Rate } from "./rate-limit.ts";
import {
  type Hours,
  recentTraffic,
  type Series,
  type StatsWindow,
  seriesOf,
  sumOf,
  type Traffic,
  type TrafficSum,
  trafficSum,
} from "./rollups.ts";

export type GateView = Readonly<{
  circuit: "closed" | "open" | "half_open";
  /** When an open circuit admits a probe. */
  circuitUntil: number | null;
  /** Openings in a row: each doubles the cool-down. */
  trips: number;
  heldUntil: number | null;
  /** Attempts allowed at once. */
  window: number;
  /** Connections under lease, as far as it is known: see `isUnderWay`. */
  inFlight: number;
  /** Attempts a second: the owner's rate, or the adaptive limit where it is lower. */
  ratePerSecond: number;
  /** Attempts that the rate allows now. */
  rateTokens: number;
  tookMs: number;
  /** Why the backlog is refused now; null when it would be admitted. */
  refusal: Refusal | null;
  traffic: TrafficSum;
  /** The same by minute, oldest first, without minutes without an attempt. */
  minutes: Traffic;
  history: readonly HistoryEntry[];
}>;

export function viewOf(stored: GateState, settings: GateSettings, now: number): GateView {
  const state = withoutExpired(stored, settings, now);
  const { circuit, window, heldUntil, tookMs, adaptiveLimit } = destinationStateAt(
    state.destinationState,
    now,
  );
  const rate = effectiveRate(adaptiveLimit, settings, now);
  const minutes = recentTraffic(state.rollups, now);
  return {
    circuit: circuit.kind,
    circuitUntil: circuit.kind === "open" ? circuit.until : null,
    trips: circuit.trips,
    heldUntil: heldUntil > now ? heldUntil : null,
    window: widthOf(window, settings.maxConcurrency),
    inFlight: slotsOf(state.leases.filter(isUnderWay)),
    ratePerSecond: rate.perSecond,
    rateTokens: tokensAt(tatOf(state.leases, state.tat), rate, now),
    tookMs: Math.round(tookMs),
    refusal: refusalAt(state, "backlog", settings, now) ?? null,
    traffic: trafficSum(minutes),
    minutes,
    history: state.history,
  };
}

/**
 * Whether attempts of a lease are probably under way. Leases that an incarnation finds count against the limit, and
 * mostly represent unused slack, or the success of a lone delivery, whose end is not written.
 */
function isUnderWay({ lost, inherited, lone }: Lease): boolean {
  return !lost && !(inherited && lone !== undefined);
}

function tokensAt(tat: number, rate: Rate, now: number): number {
  const next = nextSendAt(tat, rate, now);
  return Math.max(0, Math.min(rate.burst, Math.floor(((now - next) * rate.perSecond) / 1000) + 1));
}

export type FiguresQuery = Readonly<{
  windows: readonly StatsWindow[];
  /** Whether to include the windows' series. */
  series: boolean;
}>;

/** All data that metrics, charts and overviews need of a gate, in one call. */
export type GateFigures = Readonly<{
  view: GateView;
  /** Counted since the gate began: it only grows. */
  ever: Counters;
  windows: Readonly<Partial<Record<StatsWindow, Readonly<{ sum: Counters; series: Series }>>>>;
}>;

export function figuresOf(
  state: GateState,
  hours: Hours,
  query: FiguresQuery,
  settings: GateSettings,
  now: number,
): GateFigures {
  const { rollups } = withoutExpired(state, settings, now);
  const windows = query.windows.map((window) => {
    const series = query.series ? seriesOf(rollups, hours, window, now) : [];
    return [window, { sum: sumOf(rollups, hours, window, now), series }];
  });
  return { view: viewOf(state, settings, now), ever: rollups.ever, windows: Object.fromEntries(windows) };
}
