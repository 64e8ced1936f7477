/** A retry policy's schedule if every attempt fails: in a sentence, and as a chart with one row for each attempt. */
import type { FC } from "hono/jsx";
import type { RetryPolicy } from "../../../core/retry/policy.ts";
import type { PreviewedAttempt, RetryPreview } from "../../../core/retry/preview.ts";
import { percent, type TimeScale, timeScale } from "../../ui/charts.tsx";
import { durationOf, plural } from "../../ui/format.ts";

type Props = Readonly<{ policy: RetryPolicy; preview: RetryPreview }>;

/** Up to this many rows have labels. */
const MAX_LABELLED = 20;

export const ScheduleChart: FC<Props> = ({ policy, preview }) => {
  const { attempts } = preview;
  const isLabelled = attempts.length <= MAX_LABELLED;
  const rowHeight = isLabelled ? 20 : 5;
  const bottom = attempts.length * rowHeight;
  const scale = timeScale(Math.max(policy.giveUpAfterMs, ...attempts.map(({ to }) => to)));
  const end = percent(scale.place(policy.giveUpAfterMs));
  return (
    <figure class="chart simulation">
      <svg height={bottom + 26} role="img" aria-label={summaryOf(policy, preview)}>
        {scale.ticks.map(({ x, label }) => (
          <g>
            <line class="grid" x1={percent(x)} x2={percent(x)} y1="0" y2={bottom + 4} />
            <text x={percent(x)} y={bottom + 20} text-anchor="middle">
              {label}
            </text>
          </g>
        ))}
        <line class="limit" x1={end} x2={end} y1="0" y2={bottom + 4}>
          <title>given up here, even if attempts are left</title>
        </line>
        {attempts.map((attempt, i) => (
          <Row
            attempt={attempt}
            waitMs={attempt.at - (attempts[i - 1]?.at ?? 0)}
            scale={scale}
            top={i * rowHeight}
            height={rowHeight}
            isLabelled={isLabelled}
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
  isLabelled: boolean;
}>;

const Row: FC<RowProps> = ({
  attempt: { at, from, to },
  waitMs,
  scale: { place },
  top,
  height,
  isLabelled,
}) => {
  const [left, right] = [place(from), place(to)];
  const middle = top + height / 2;
  const isAtRight = right > 55;
  const thickness = isLabelled ? 8 : 3;
  return (
    <g>
      <rect
        class="band"
        x={percent(left)}
        width={`${Math.max(0, right - left).toFixed(2)}%`}
        y={middle - thickness / 2}
        height={thickness}
        rx={thickness / 2}
      />
      <circle class="mean" cx={percent(place(at))} cy={middle} r={isLabelled ? 3.5 : 2} />
      {isLabelled && (
        <text
          x={percent(isAtRight ? left : right)}
          dx={isAtRight ? -9 : 9}
          y={middle + 4}
          text-anchor={isAtRight ? "end" : "start"}
        >
          {waitMs === 0 ? "first attempt" : `+ ${durationOf(waitMs)}`}
        </text>
      )}
    </g>
  );
};

export function summaryOf({ giveUpAfterMs }: RetryPolicy, { attempts, ends }: RetryPreview): string {
  const count = plural(attempts.length, "attempt");
  if (ends === "exhausted" && attempts.length === 1) return `Gives up after ${count}: nothing is retried.`;
  const last = durationOf(attempts.at(-1)?.at ?? 0);
  const age = durationOf(giveUpAfterMs);
  if (ends === "exhausted")
    return `Gives up after ${count}, about ${last} after the first, and after ${age} at the latest.`;
  if (ends === "expired") return `Gives up ${age} after the first attempt, having made about ${count}.`;
  return `Gives up ${age} after the first attempt; the first ${count} are shown.`;
}
