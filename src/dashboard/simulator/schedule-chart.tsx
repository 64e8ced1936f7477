/** A policy's attempts on a line of time, one row each: where jitter may put it, and where it gives up. */
import type { FC } from "hono/jsx";
import type { PreviewedAttempt, RetryPolicy, RetryPreview } from "../../core/retry/policy.ts";
import type { OutageReport } from "../../simulator/simulate-outage.ts";
import { percent, type TimeScale, timeScale } from "../components/charts.tsx";
import { plural, spanOf } from "../format.ts";

type Props = Readonly<{ policy: RetryPolicy; prospect: RetryPreview }>;

/** Rows with words in them, while there is room for words. */
const FEW = 20;

export const ScheduleChart: FC<Props> = ({ policy, prospect: { attempts, ends } }) => {
  const isFew = attempts.length <= FEW;
  const rowHeight = isFew ? 20 : 5;
  const bottom = attempts.length * rowHeight;
  const scale = timeScale(Math.max(policy.giveUpAfterMs, ...attempts.map(({ to }) => to)));
  return (
    <figure class="chart lab">
      <svg height={bottom + 26} role="img" aria-label={summaryOf(policy, { attempts, ends })}>
        {scale.ticks.map(({ x, label }) => (
          <g>
            <line class="grid" x1={percent(x)} x2={percent(x)} y1="0" y2={bottom + 4} />
            <text x={percent(x)} y={bottom + 20} text-anchor="middle">
              {label}
            </text>
          </g>
        ))}
        <GiveUp x={scale.place(policy.giveUpAfterMs)} height={bottom + 4} />
        {attempts.map((attempt, i) => (
          <Row
            attempt={attempt}
            waitMs={attempt.at - (attempts[i - 1]?.at ?? 0)}
            scale={scale}
            top={i * rowHeight}
            height={rowHeight}
            isFew={isFew}
          />
        ))}
      </svg>
    </figure>
  );
};

type RowProps = Readonly<{
  attempt: PreviewedAttempt;
  waitMs: number;
  scale: TimeScale;
  top: number;
  height: number;
  isFew: boolean;
}>;

const Row: FC<RowProps> = ({ attempt: { at, from, to }, waitMs, scale: { place }, top, height, isFew }) => {
  const [left, right] = [place(from), place(to)];
  const middle = top + height / 2;
  const isLate = right > 55;
  const thick = isFew ? 8 : 3;
  return (
    <g>
      <rect
        class="band"
        x={percent(left)}
        width={`${Math.max(0, right - left).toFixed(2)}%`}
        y={middle - thick / 2}
        height={thick}
        rx={thick / 2}
      />
      <circle class="mean" cx={percent(place(at))} cy={middle} r={isFew ? 3.5 : 2} />
      {isFew && (
        <text
          x={percent(isLate ? left : right)}
          dx={isLate ? -9 : 9}
          y={middle + 4}
          text-anchor={isLate ? "end" : "start"}
        >
          {waitMs === 0 ? "first attempt" : `+ ${spanOf(waitMs)}`}
        </text>
      )}
    </g>
  );
};

const GiveUp: FC<{ x: number; height: number }> = ({ x, height }) => (
  <line class="limit" x1={percent(x)} x2={percent(x)} y1="0" y2={height}>
    <title>given up here, however many attempts are left</title>
  </line>
);

/** When it gives up, in words. */
export function summaryOf({ giveUpAfterMs }: RetryPolicy, { attempts, ends }: RetryPreview): string {
  const count = plural(attempts.length, "attempt");
  if (ends === "exhausted" && attempts.length === 1)
    return `Gives up after ${count}: nothing is tried again.`;
  const last = spanOf(attempts.at(-1)?.at ?? 0);
  const age = spanOf(giveUpAfterMs);
  if (ends === "exhausted")
    return `Gives up after ${count}, about ${last} after the first, and after ${age} at the latest.`;
  if (ends === "expired") return `Gives up ${age} after the first attempt, having made about ${count}.`;
  return `Gives up ${age} after the first attempt; the first ${count} are shown.`;
}

// §§ What reached a receiver, second by second, cut down to as many points as a picture has room for. Pure.

/** The fullest second of a stretch. */
export type Point = Readonly<{ second: number; requests: number; failed: number }>;

const POINTS = 240;

/** @param seconds how much of the time is wanted, from the beginning */
export function fullestOf({ arrivals, failures }: OutageReport, seconds: number): readonly Point[] {
  const stretch = Math.max(1, Math.ceil(seconds / POINTS));
  return Array.from({ length: Math.ceil(seconds / stretch) }, (_, i) => {
    const from = i * stretch;
    const within = Array.from({ length: stretch }, (_, k) => pointAt(from + k));
    return { ...within.reduce((a, b) => (b.requests > a.requests ? b : a)), second: from };
  });

  function pointAt(second: number): Point {
    const requests = arrivals[second] ?? 0;
    // Failures are noted when they are answered: in the same second, or soon after.
    return { second, requests, failed: Math.min(requests, failures[second] ?? 0) };
  }
}
