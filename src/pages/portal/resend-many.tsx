/** The form that sends many deliveries of an endpoint again, and how the latest of these replays do. */
import type { FC } from "hono/jsx";
import { DAY_MS } from "../../core/retention.ts";
import type { Replay } from "../../store/replays.ts";
import { isoTime } from "../../time.ts";
import { StateLabel } from "../ui/parts.tsx";
import type { Look } from "./look.ts";
import { PortalAgo, PortalField, SectionHead } from "./parts.tsx";
import type { FieldFaults } from "./problems.ts";

const includes = ["dead", "missing", "delivered"] as const;

const tones = { running: "busy", paused: "quiet", completed: "good", cancelled: "quiet" } as const;

type Props = Readonly<{
  look: Look;
  path: string;
  /** The newest first. */
  replays: readonly Replay[];
  now: number;
  faults: FieldFaults;
}>;

export const ResendMany: FC<Props> = ({ look, path, replays, now, faults }) => {
  const { t } = look;
  const isBusy = replays.some(isUnderWay);
  return (
    <section aria-labelledby="replays">
      <SectionHead id="replays" title={t.resend.title} />
      <p>{t.resend.text}</p>
      {isBusy ? (
        <p class="small soft">{t.resend.underWay}</p>
      ) : (
        <form class="stack" method="post" action={`${path}/replay`}>
          <div class="fields">
            <PortalField
              name="include"
              label={t.resend.which}
              control={(attributes) => (
                <select {...attributes}>
                  {includes.map((name) => (
                    <option value={name}>{t.resend[name]}</option>
                  ))}
                </select>
              )}
            />
            <PortalField
              name="since"
              label={t.resend.since}
              fault={faults.since}
              control={(attributes) => (
                <input
                  type="datetime-local"
                  required
                  value={isoTime(now - DAY_MS).slice(0, 16)}
                  {...attributes}
                />
              )}
            />
          </div>
          <div class="actions">
            <button type="submit">{t.resend.begin}</button>
          </div>
        </form>
      )}
      {replays.map((replay) => (
        <Progress look={look} path={path} replay={replay} now={now} />
      ))}
    </section>
  );
};

function isUnderWay({ state }: Replay): boolean {
  return state === "running" || state === "paused";
}

const Progress: FC<{ look: Look; path: string; replay: Replay; now: number }> = ({
  look,
  path,
  replay,
  now,
}) => {
  const { t, f } = look;
  const { id, state, reason, total, delivered, failed } = replay;
  const done = t.resend.progress(f.count(delivered), f.count(total));
  const parts = [
    done,
    ...(failed > 0 ? [t.resend.failedAgain(f.count(failed))] : []),
    ...(reason !== null && reason in t.replayReason ? [t.replayReason[reason]] : []),
  ];
  return (
    <article class="delivery" id={id} aria-label={t.resend.states[state]}>
      <div class="head">
        <StateLabel tone={tones[state]}>{t.resend.states[state]}</StateLabel>
        <span class="soft small">
          <PortalAgo look={look} at={replay.createdAt} now={now} />
        </span>
      </div>
      {isUnderWay(replay) && (
        <progress value={delivered + failed} max={Math.max(1, total)} aria-label={done} />
      )}
      <p class="small soft">{parts.join(", ")}</p>
      {isUnderWay(replay) && (
        <form method="post" action={`${path}/replays/${id}/cancel`}>
          <button type="submit" class="tiny">
            {t.resend.stop}
          </button>
        </form>
      )}
    </article>
  );
};
