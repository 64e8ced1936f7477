/** What has happened to a door of late. */
import type { FC } from "hono/jsx";
import { isoTime } from "../iso-time.ts";
import type { HistoryEntry, HistoryKind } from "../policy/gate-state.ts";
import { pauseText } from "./door-words.ts";
import { momentOf, spanOf } from "./figures.ts";
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
