/** How far back a page looks, chosen by links. */
import type { FC } from "hono/jsx";
import { type StatsWindow, windows } from "../policy/stats-window.ts";

type Words = Readonly<{ short: string; long: string; each: string }>;

export const windowWords: Readonly<Record<StatsWindow, Words>> = {
  "15m": { short: "15 min", long: "15 minutes", each: "a minute" },
  "1h": { short: "1 h", long: "hour", each: "a minute" },
  "24h": { short: "24 h", long: "24 hours", each: "an hour" },
  "7d": { short: "7 d", long: "7 days", each: "an hour" },
};

export function windowNamed(name: string | undefined): StatsWindow {
  return windows.find((window) => window === name) ?? "15m";
}

export const WindowTabs: FC<{ path: string; current: StatsWindow }> = ({ path, current }) => (
  <nav class="tabs" aria-label="How far back">
    {windows.map((window) => (
      <a
        href={window === "15m" ? path : `${path}?window=${window}`}
        {...(window === current && { "aria-current": "true" })}
      >
        {windowWords[window].short}
      </a>
    ))}
  </nav>
);
