/** Dead letters sent again: how far the replay is, and how to begin one. */
import type { FC } from "hono/jsx";
import type { Replay } from "../../db/replays.ts";
import { COUNTED } from "../destination-health.ts";
import { atMost, countOf, decimalOf, plural } from "../format.ts";
import { Ago, Word } from "./parts.tsx";

type Props = Readonly<{
  path: string;
  /** The newest first. */
  replays: readonly Replay[];
  dead: number;
  mayChange: boolean;
  now: number;
}>;

export const Replays: FC<Props> = ({ path, replays, dead, mayChange, now }) => {
  const underWay = replays.some(isUnderWay);
  return (
    <section aria-labelledby="replays">
      <div class="head">
        <h2 id="replays">Dead letters</h2>
      </div>
      <p class={dead > 0 ? "" : "empty"}>
        {dead === 0
          ? "None: nothing was given up."
          : `${atMost(dead, COUNTED)} ${dead === 1 ? "delivery was" : "deliveries were"} given up. `}
        {dead > 0 && <a href={`${path}?state=dead#messages`}>Look at them</a>}
      </p>
      {mayChange && !underWay && dead > 0 && <NewReplay path={path} />}
      {replays.map((replay) => (
        <Progress path={path} replay={replay} mayChange={mayChange} now={now} />
      ))}
    </section>
  );
};

const NewReplay: FC<{ path: string }> = ({ path }) => (
  <form class="stack replay" method="post" action={`${path}/replay`}>
    <div class="fields">
      <label>
        Accepted in the last
        <select name="days">
          <option value="1">day</option>
          <option value="7">7 days</option>
          <option value="30" selected>
            30 days
          </option>
        </select>
      </label>
      <label>
        A minute, to begin with
        <input type="number" name="rate_per_minute" min={1} max={6000} value="100" />
      </label>
    </div>
    <div class="actions">
      <button type="submit">Replay them</button>
      <span class="hint">It slows down by itself when the receiver does.</span>
    </div>
  </form>
);

export function isUnderWay({ state }: Pick<Replay, "state">): boolean {
  return state === "running" || state === "paused";
}

const tones = { running: "busy", paused: "quiet", completed: "good", cancelled: "quiet" } as const;
const shorts = {
  running: "Replaying",
  paused: "Paused",
  completed: "Replayed",
  cancelled: "Cancelled",
} as const;

const Progress: FC<{ path: string; replay: Replay; mayChange: boolean; now: number }> = ({
  path,
  replay,
  mayChange,
  now,
}) => {
  const { id, state, total, delivered, failed } = replay;
  const ended = delivered + failed;
  return (
    <article class="delivery" id={id} aria-label={`Replay ${id}`}>
      <div class="head">
        <Word tone={tones[state]}>{shorts[state]}</Word>
        <span class="soft small">
          <Ago at={replay.createdAt} now={now} />
        </span>
      </div>
      {isUnderWay(replay) && (
        <progress value={ended} max={Math.max(1, total)} aria-label={`${ended} of ${total} have ended`} />
      )}
      <p class="small soft">{progressWords(replay)}</p>
      {mayChange && isUnderWay(replay) && (
        <div class="actions">
          {state === "running" ? (
            <Turn action={`${path}/replays/${id}/pause`} label="Pause replay" />
          ) : (
            <Turn action={`${path}/replays/${id}/resume`} label="Resume replay" />
          )}
          <Turn action={`${path}/replays/${id}/cancel`} label="Cancel replay" />
        </div>
      )}
    </article>
  );
};

const Turn: FC<{ action: string; label: string }> = ({ action, label }) => (
  <form method="post" action={action}>
    <button type="submit" class="tiny">
      {label}
    </button>
  </form>
);

/** How far it is, and how fast; why it is slow or still. */
function progressWords({ state, reason, total, requeued, delivered, failed, pace }: Replay): string {
  const done = `${countOf(delivered)} of ${plural(total, "delivery", "deliveries")} delivered`;
  const failures = failed > 0 ? `, ${countOf(failed)} failed again` : "";
  if (state !== "running") return `${done}${failures}.`;
  const why = reason === null ? "" : `, ${reason.replaceAll("_", " ")}`;
  return `${done}${failures}; ${countOf(requeued)} set to wait, at ${decimalOf(pace)} a minute${why}.`;
}
