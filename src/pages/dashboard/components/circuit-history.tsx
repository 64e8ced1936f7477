/**
 * Interruptions of a destination: its circuit was open, it was on hold, or it was paused. As a log, and as a timeline
 * below the chart of its attempts. Times in epoch ms.
 */
import type { FC } from "hono/jsx";
import type { HistoryEntry, HistoryKind } from "../../../core/gate-state.ts";
import type { GateView } from "../../../core/gate-view.ts";
import type { Destination } from "../../../store/destination.ts";
import { isoTime } from "../../../time.ts";
import { durationOf, momentOf, plural } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import { Ago, Fold, Section, StateLabel } from "../../ui/parts.tsx";
import { pauseText } from "../../ui/status-text.ts";

const entryTexts: Readonly<Record<HistoryKind, { tone: "good" | "warn" | "bad" | "quiet"; text: string }>> = {
  circuit_opened: { tone: "bad", text: "Circuit opened" },
  circuit_closed: { tone: "good", text: "Circuit closed" },
  held: { tone: "warn", text: "Put on hold by the receiver" },
  paused: { tone: "bad", text: "Paused" },
  resumed: { tone: "good", text: "Resumed" },
  hold_cleared: { tone: "good", text: "Hold cleared" },
};

/** Older entries are folded away. */
const SHOWN = 8;

export const CircuitHistory: FC<{ history: readonly HistoryEntry[] }> = ({ history }) => {
  const newest = history.toReversed();
  return (
    <Section id="history" title="Status history">
      {history.length === 0 ? (
        <p class="empty">Never interrupted: the circuit has not opened, and there was no hold or pause.</p>
      ) : (
        <Entries history={newest.slice(0, SHOWN)} />
      )}
      {newest.length > SHOWN && (
        <Fold title="Earlier">
          <Entries history={newest.slice(SHOWN)} />
        </Fold>
      )}
    </Section>
  );
};

const Entries: FC<{ history: readonly HistoryEntry[] }> = ({ history }) => {
  const { now } = usePage();
  return (
    <ol class="log">
      {history.map(({ at, what, times, until, reason }) => (
        <li>
          <time datetime={isoTime(at)}>{momentOf(at, now)}</time>
          <span>
            <StateLabel tone={entryTexts[what].tone}>{entryTexts[what].text}</StateLabel>{" "}
            <span class="soft small">
              <Ago at={at} />
              {times !== undefined && `, ${plural(times, "time")} in a row`}
              {until !== undefined && `, for ${durationOf(until - at)}`}
              {reason !== undefined && `, ${pauseText(reason)}`}
            </span>
          </span>
        </li>
      ))}
    </ol>
  );
};

type Interruption = Readonly<{ kind: "circuit" | "held" | "paused"; from: number; to: number }>;

type History = Readonly<{
  history: GateView["history"];
  row: Pick<Destination, "status" | "statusChangedAt">;
}>;

/** The interruptions between `since` and `now`, cut to that time. The current pause is the destination's own. Pure. */
export function interruptionsOf(
  { history, row }: History,
  since: number,
  now: number,
): readonly Interruption[] {
  const all = history.flatMap(({ at, what, until = at }): Interruption[] => {
    const endOf = (end: HistoryKind) => history.find((later) => later.what === end && later.at >= at)?.at;
    if (what === "held") return [{ kind: "held", from: at, to: until }];
    if (what === "circuit_opened") return [{ kind: "circuit", from: at, to: endOf("circuit_closed") ?? now }];
    const resumedAt = what === "paused" ? endOf("resumed") : undefined;
    return resumedAt === undefined ? [] : [{ kind: "paused", from: at, to: resumedAt }];
  });
  const current: Interruption[] =
    row.status === "paused" ? [{ kind: "paused", from: row.statusChangedAt ?? now, to: now }] : [];
  return [...(["held", "circuit", "paused"] as const).flatMap((kind) => joined(all, kind)), ...current]
    .map((one) => ({ ...one, from: Math.max(since, one.from), to: Math.min(now, one.to) }))
    .filter(({ from, to }) => to > from);
}

/** Interruptions of one kind, overlapping ones joined into one: a circuit may open several times before it closes. */
function joined(all: readonly Interruption[], kind: Interruption["kind"]): readonly Interruption[] {
  const done: Interruption[] = [];
  for (const next of all.filter((one) => one.kind === kind)) {
    const last = done.at(-1);
    if (last === undefined || next.from > last.to) done.push(next);
    else done[done.length - 1] = { ...last, to: Math.max(last.to, next.to) };
  }
  return done;
}

type TimelineProps = Readonly<{
  interruptions: readonly Interruption[];
  /** The ends of the timeline; now is between them. */
  since: number;
  until: number;
}>;

const kindTexts: Readonly<Record<Interruption["kind"], string>> = {
  circuit: "circuit open",
  held: "on hold",
  paused: "paused",
};

export const CircuitTimeline: FC<TimelineProps> = ({ interruptions, since, until }) => {
  const { now } = usePage();
  const summary = summaryOf(interruptions);
  const place = (at: number) => (100 * (at - since)) / (until - since);
  const bar = (className: string, from: number, to: number, title?: string) => (
    <rect
      class={className}
      x={percent(place(from))}
      width={percent(place(to) - place(from))}
      height="8"
      y="0"
    >
      {title !== undefined && <title>{title}</title>}
    </rect>
  );
  return (
    <figure class="chart timeline">
      <svg height="8" role="img" aria-label={`Status: ${summary}.`}>
        {bar("closed", since, now)}
        {interruptions.map(({ kind, from, to }) =>
          bar(kind, from, to, `${kindTexts[kind]} for ${durationOf(to - from)}`),
        )}
      </svg>
      <figcaption class="axis">{`Status in this period: ${summary}`}</figcaption>
    </figure>
  );
};

/** "circuit open for 3 min 2 s, on hold for 40 s". */
function summaryOf(interruptions: readonly Interruption[]): string {
  const parts = (["circuit", "held", "paused"] as const).flatMap((kind) => {
    const ofKind = interruptions.filter((one) => one.kind === kind);
    const totalMs = ofKind.reduce((sum, { from, to }) => sum + to - from, 0);
    return totalMs === 0 ? [] : [`${kindTexts[kind]} for ${durationOf(totalMs)}`];
  });
  return parts.length === 0 ? "no interruptions" : parts.join(", ");
}

/** Unlike that of the charts without a margin: the bars are as wide as the chart above them. */
function percent(x: number): string {
  return `${x.toFixed(2)}%`;
}
