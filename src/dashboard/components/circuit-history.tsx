/** What has happened to a door of late. */
import type { FC } from "hono/jsx";
import type { HistoryEntry, HistoryKind } from "../../core/gate-state.ts";
import type { GateView } from "../../core/gate-view.ts";
import type { Destination } from "../../db/destinations.ts";
import { isoTime } from "../../time.ts";
import { momentOf, spanOf } from "../format.ts";
import { pauseText } from "../status-text.ts";
import { Ago, Word } from "./parts.tsx";

const turns: Readonly<Record<HistoryKind, { tone: "good" | "warn" | "bad" | "quiet"; says: string }>> = {
  circuit_opened: { tone: "bad", says: "Circuit opened" },
  circuit_closed: { tone: "good", says: "Circuit closed" },
  held: { tone: "warn", says: "Put on hold by the receiver" },
  paused: { tone: "bad", says: "Paused" },
  resumed: { tone: "good", says: "Resumed" },
  hold_cleared: { tone: "good", says: "Hold cleared" },
};

/** More of them are folded away. */
const SHOWN = 8;

export const CircuitHistory: FC<{ history: readonly HistoryEntry[]; now: number }> = ({ history, now }) => {
  const newest = history.toReversed();
  return (
    <section aria-labelledby="history">
      <div class="head">
        <h2 id="history">What happened to the door</h2>
      </div>
      {history.length === 0 ? (
        <p class="empty">Nothing: it has stood open.</p>
      ) : (
        <>
          <Turns history={newest.slice(0, SHOWN)} now={now} />
          {newest.length > SHOWN && (
            <details>
              <summary>Before that</summary>
              <Turns history={newest.slice(SHOWN)} now={now} />
            </details>
          )}
        </>
      )}
    </section>
  );
};

const Turns: FC<{ history: readonly HistoryEntry[]; now: number }> = ({ history, now }) => (
  <ol class="log">
    {history.map(({ at, what, times, until, reason }) => (
      <li>
        <time datetime={isoTime(at)}>{momentOf(at, now)}</time>
        <span>
          <Word tone={turns[what].tone}>{turns[what].says}</Word>{" "}
          <span class="soft small">
            <Ago at={at} now={now} />
            {times !== undefined && `, ${times} times in a row`}
            {until !== undefined && `, for ${spanOf(until - at)}`}
            {reason !== undefined && `, ${pauseText(reason)}`}
          </span>
        </span>
      </li>
    ))}
  </ol>
);

// §§ How a door has stood over the time that the chart above it shows, on the same line of time.

type Props = Readonly<{
  stretches: readonly Stretch[];
  /** Epoch ms: the line's ends, and now, between them. */
  since: number;
  until: number;
  now: number;
}>;

const names: Readonly<Record<Stretch["kind"], string>> = {
  circuit: "circuit open",
  held: "on hold",
  paused: "paused",
};

export const CircuitTimeline: FC<Props> = ({ stretches, since, until, now }) => {
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
    <figure class="chart strip">
      <svg height="8" role="img" aria-label={`The door: ${wordsOf(stretches)}.`}>
        {bar("closed", since, now)}
        {stretches.map(({ kind, from, to }) =>
          bar(kind, from, to, `${names[kind]} for ${spanOf(to - from)}`),
        )}
      </svg>
      <figcaption class="axis">{`The door in that time: ${wordsOf(stretches)}`}</figcaption>
    </figure>
  );
};

/** "circuit open for 3 min 2 s, on hold for 40 s". */
function wordsOf(stretches: readonly Stretch[]): string {
  const kinds = (["circuit", "held", "paused"] as const).flatMap((kind) => {
    const ours = stretches.filter((stretch) => stretch.kind === kind);
    const sum = ours.reduce((total, { from, to }) => total + to - from, 0);
    return sum === 0 ? [] : [`${names[kind]} for ${spanOf(sum)}`];
  });
  return kinds.length === 0 ? "open all along" : kinds.join(", ");
}

function percent(x: number): string {
  return `${x.toFixed(2)}%`;
}

// §§ When a door was not open, as stretches of a line of time. Pure; times in epoch ms.

type Stretch = Readonly<{ kind: "circuit" | "held" | "paused"; from: number; to: number }>;

type Door = Readonly<{
  history: GateView["history"];
  row: Pick<Destination, "status" | "statusChangedAt">;
}>;

/** Those that reach into the time from `since` to `now`, cut to it. The present pause is the destination's own. */
export function stretchesOf({ history, row }: Door, since: number, now: number): readonly Stretch[] {
  const closings = history.filter(({ what }) => what === "circuit_closed");
  const all = history.flatMap(({ at, what, until = at }): Stretch[] => {
    if (what === "held") return [{ kind: "held", from: at, to: until }];
    if (what === "paused") {
      const lifted = history.find((next) => next.what === "resumed" && next.at >= at);
      return lifted ? [{ kind: "paused", from: at, to: lifted.at }] : [];
    }
    if (what !== "circuit_opened") return [];
    return [{ kind: "circuit", from: at, to: closings.find((closing) => closing.at >= at)?.at ?? now }];
  });
  const paused: Stretch[] =
    row.status === "paused" ? [{ kind: "paused", from: row.statusChangedAt ?? now, to: now }] : [];
  return [...(["held", "circuit", "paused"] as const).flatMap((kind) => joined(all, kind)), ...paused]
    .map((stretch) => ({ ...stretch, from: Math.max(since, stretch.from), to: Math.min(now, stretch.to) }))
    .filter(({ from, to }) => to > from);
}

/** Those of one kind, in order; what touches is one: a circuit opens again and again before it closes. */
function joined(all: readonly Stretch[], kind: Stretch["kind"]): readonly Stretch[] {
  const done: Stretch[] = [];
  for (const next of all.filter((stretch) => stretch.kind === kind)) {
    const last = done.at(-1);
    if (last === undefined || next.from > last.to) done.push(next);
    else done[done.length - 1] = { ...last, to: Math.max(last.to, next.to) };
  }
  return done;
}
