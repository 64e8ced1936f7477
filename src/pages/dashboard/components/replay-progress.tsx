/** How a replay goes, with buttons that pause, resume and stop it. */
import type { FC } from "hono/jsx";
import { cancelReplay } from "../../../features/replays/service.ts";
import type { Replay } from "../../../store/replays.ts";
import { countOf, decimalOf, plural } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import { Ago, Press, StateLabel } from "../../ui/parts.tsx";

export function isUnderWay({ state }: Replay): boolean {
  return state === "running" || state === "paused";
}

const replayStates = {
  running: { tone: "busy", label: "Replaying" },
  paused: { tone: "quiet", label: "Paused" },
  completed: { tone: "good", label: "Completed" },
  cancelled: { tone: "quiet", label: "Cancelled" },
} as const;

type ProgressProps = Readonly<{
  /** The page that it is on: its buttons are below it. */
  path: string;
  replay: Replay;
  /** The name of its destination; present where several are shown. */
  name?: string;
}>;

export const ReplayProgress: FC<ProgressProps> = ({ path, replay, name }) => {
  const { mayCall, destinationAt } = usePage();
  const { id, include, state, total, delivered, failed } = replay;
  const { tone, label } = replayStates[state];
  const ended = delivered + failed;
  return (
    <article class="delivery" id={id} aria-label={`Replay ${id}`}>
      <div class="head">
        {name !== undefined && (
          <h3>
            <a href={destinationAt(replay.destinationId)}>{name}</a>
          </h3>
        )}
        <StateLabel tone={tone}>{label}</StateLabel>
        <span class="soft small">
          <Ago at={replay.createdAt} />
        </span>
      </div>
      {isUnderWay(replay) && (
        // How many are missing shows only as the replay goes.
        <progress
          {...(include !== "missing" && { value: ended, max: Math.max(1, total) })}
          aria-label={include === "missing" ? `${ended} completed` : `${ended} of ${total} completed`}
        />
      )}
      <p class="small soft">{progressText(replay)}</p>
      {isUnderWay(replay) && mayCall(cancelReplay) && (
        <div class="actions">
          {state === "running" ? (
            <Press action={`${path}/replays/${id}/pause`} label="Pause replay" of="tiny" />
          ) : (
            <Press action={`${path}/replays/${id}/resume`} label="Resume replay" of="tiny" />
          )}
          <Press action={`${path}/replays/${id}/cancel`} label="Stop replay" of="tiny" />
        </div>
      )}
    </article>
  );
};

/** Why a running replay is slow or requeues nothing. */
const slowdowns: Readonly<Record<string, string>> = {
  destination_paused: "stopped while the destination is paused",
  stuck: "stopped while the destination is blocked or its backlog is full",
  doubtful: "slowed down because attempts fail",
};

function progressText(replay: Replay): string {
  const { include, state, reason, total, requeued, delivered, failed, pace } = replay;
  const all =
    include === "missing"
      ? plural(requeued, "missing delivery", "missing deliveries")
      : plural(total, "delivery", "deliveries");
  const done = `${countOf(delivered)} of ${all} delivered`;
  const failures = failed > 0 ? `, ${countOf(failed)} failed${include === "missing" ? "" : " again"}` : "";
  if (state !== "running") return `${done}${failures}.`;
  const slowdown = reason === null ? "" : `, ${slowdowns[reason] ?? reason.replaceAll("_", " ")}`;
  return `${done}${failures}; ${countOf(requeued)} requeued to the backlog at ${decimalOf(pace)} per minute${slowdown}.`;
}
