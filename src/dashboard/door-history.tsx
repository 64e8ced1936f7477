/** What has happened to a door of late. */
import type { FC } from "hono/jsx";
import type { GateView } from "../policy/gate-view.ts";
import { momentOf } from "./figures.ts";
import { Ago, Word } from "./parts.tsx";

type Turn = GateView["history"][number];

const turns: Readonly<Record<Turn["what"], { tone: "good" | "warn" | "bad" | "quiet"; says: string }>> = {
  circuit_opened: { tone: "bad", says: "Circuit opened" },
  circuit_closed: { tone: "good", says: "Circuit closed" },
  held: { tone: "warn", says: "Put on hold by the receiver" },
  resumed: { tone: "good", says: "Resumed" },
};

export const DoorHistory: FC<{ history: readonly Turn[]; now: number }> = ({ history, now }) => (
  <section aria-labelledby="history">
    <div class="head">
      <h2 id="history">What happened to the door</h2>
    </div>
    {history.length === 0 ? (
      <p class="empty">Nothing: it has stood open.</p>
    ) : (
      <ol class="log">
        {history.toReversed().map(({ at, what }) => (
          <li>
            <time datetime={new Date(at).toISOString()}>{momentOf(at, now)}</time>
            <span>
              <Word tone={turns[what].tone}>{turns[what].says}</Word>{" "}
              <span class="soft small">
                <Ago at={at} now={now} />
              </span>
            </span>
          </li>
        ))}
      </ol>
    )}
  </section>
);
