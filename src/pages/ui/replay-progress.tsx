/** The progress of a replay, with buttons that pause, resume and stop it. */
import type { FC } from "hono/jsx";
import { cancelReplay } from "../../features/replays/service.ts";
import type { Replay } from "../../store/replays.ts";
import { usePage } from "./page.tsx";
import { Ago, Press, StateLabel } from "./parts.tsx";

export function isUnderWay({ state }: Replay): boolean {
  return state === "running" || state === "paused";
}

const tones = { running: "busy", paused: "quiet", completed: "good", cancelled: "quiet" } as const;

type ProgressProps = Readonly<{
  /** The page that it is on: its buttons are below it. */
  path: string;
  replay: Replay;
  /** The name of its destination; present where several are shown. */
  name?: string;
}>;

export const ReplayProgress: FC<ProgressProps> = ({ path, replay, name }) => {
  const { t, mayCall, destinationAt, replayText } = usePage();
  const { id, include, state, total, delivered, failed } = replay;
  const { states, pause, resume, stop } = t.replays;
  const text = replayText(replay);
  const change = state === "running" ? (["pause", pause] as const) : (["resume", resume] as const);
  return (
    <article class="delivery" id={id} aria-label={`${states[state]}: ${id}`}>
      <div class="head">
        {name !== undefined && (
          <h3>
            <a href={destinationAt(replay.destinationId)}>{name}</a>
          </h3>
        )}
        <StateLabel tone={tones[state]}>{states[state]}</StateLabel>
        <span class="soft small">
          <Ago at={replay.createdAt} />
        </span>
      </div>
      {isUnderWay(replay) && (
        // The number of missing ones is known only as the replay proceeds.
        <progress
          {...(include !== "missing" && { value: delivered + failed, max: Math.max(1, total) })}
          aria-label={text}
        />
      )}
      <p class="small soft">{text}</p>
      {isUnderWay(replay) && mayCall(cancelReplay) && (
        <div class="actions">
          {change[1] && <Press action={`${path}/replays/${id}/${change[0]}`} label={change[1]} of="tiny" />}
          <Press action={`${path}/replays/${id}/cancel`} label={stop} of="tiny" />
        </div>
      )}
    </article>
  );
};
