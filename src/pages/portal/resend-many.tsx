/** The form that sends many deliveries of an endpoint again, and how the latest of these replays do. */
import type { FC } from "hono/jsx";
import { DAY_MS } from "../../core/retention.ts";
import type { Replay } from "../../store/replays.ts";
import { isoTime } from "../../time.ts";
import { ChoiceField, TextField } from "../ui/fields.tsx";
import { usePage } from "../ui/page.tsx";
import { Ago, Press, Section, StateLabel } from "../ui/parts.tsx";
import { useLook } from "./look.ts";
import { type FieldFaults, portalForm } from "./problems.ts";

const includes = ["dead", "missing", "delivered"] as const;

const tones = { running: "busy", paused: "quiet", completed: "good", cancelled: "quiet" } as const;

type Props = Readonly<{
  path: string;
  /** The newest first. */
  replays: readonly Replay[];
  faults: FieldFaults;
}>;

export const ResendMany: FC<Props> = ({ path, replays, faults: { since } }) => {
  const { now } = usePage();
  const { resend } = useLook().t;
  const labels = { include: resend.which, since: resend.since };
  const form = portalForm({ since: isoTime(now - DAY_MS).slice(0, 16) }, labels, since ? { since } : {});
  return (
    <Section id="replays" title={resend.title}>
      <p>{resend.text}</p>
      {replays.some(isUnderWay) ? (
        <p class="small soft">{resend.underWay}</p>
      ) : (
        <form class="stack" method="post" action={`${path}/replay`}>
          <div class="fields">
            <ChoiceField form={form} name="include" options={includes.map((name) => [name, resend[name]])} />
            <TextField form={form} name="since" type="datetime-local" required />
          </div>
          <div class="actions">
            <button type="submit">{resend.begin}</button>
          </div>
        </form>
      )}
      {replays.map((replay) => (
        <Progress path={path} replay={replay} />
      ))}
    </Section>
  );
};

function isUnderWay({ state }: Replay): boolean {
  return state === "running" || state === "paused";
}

const Progress: FC<{ path: string; replay: Replay }> = ({ path, replay }) => {
  const { t, f } = useLook();
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
          <Ago at={replay.createdAt} />
        </span>
      </div>
      {isUnderWay(replay) && (
        <progress value={delivered + failed} max={Math.max(1, total)} aria-label={done} />
      )}
      <p class="small soft">{parts.join(", ")}</p>
      {isUnderWay(replay) && (
        <Press action={`${path}/replays/${id}/cancel`} label={t.resend.stop} of="tiny" />
      )}
    </article>
  );
};
