/** What is known of a destination, judged: how its door stands, in words, and whether a person should look. */

import type { FiguresQuery } from "../core/gate-view.ts";
import { emptyCounters, type Rates, ratesOf } from "../core/metrics.ts";
import type { Series, StatsWindow } from "../core/rollups.ts";
import { gateSettingsOf } from "../db/destinations.ts";
import { COUNTED, type Seen } from "../metrics/fleet.ts";
import { type StatusText, statusText, type Tone } from "./status-text.ts";

/** The window that a destination is judged by. */
export const JUDGED: StatsWindow = "15m";
export { COUNTED };

/** What a page asks the gates for: what destinations are judged by, and the window that it shows. */
export function lookFor(window: StatsWindow = JUDGED): FiguresQuery {
  return { windows: [...new Set([window, JUDGED])], series: true };
}

export type Health = Seen &
  Readonly<{
    words: StatusText;
    /** Of the window that it is judged by, as is the series. */
    rates: Rates;
    series: Series;
  }>;

export function healthOf(seen: Seen, now: number): Health {
  const { row, figures } = seen;
  const { maxConcurrency } = gateSettingsOf(row);
  const { status, statusReason } = row;
  const words = statusText({ status, statusReason, maxConcurrency, view: figures?.view }, now);
  const { sum = emptyCounters(now), series = [] } = figures?.windows[JUDGED] ?? {};
  return { ...seen, words, rates: ratesOf(sum), series };
}

const urgency: Readonly<Record<Tone, number>> = { bad: 0, warn: 1, busy: 2, good: 3, quiet: 4 };

/** What needs a person first; among equals what has more waiting, then by URL. */
export function byUrgency(a: Health, b: Health): number {
  return (
    urgency[a.words.tone] - urgency[b.words.tone] ||
    b.depth.waiting - a.depth.waiting ||
    a.row.url.localeCompare(b.row.url)
  );
}

export function needsAttention({ words }: Health): boolean {
  return words.tone === "bad" || words.tone === "warn";
}
