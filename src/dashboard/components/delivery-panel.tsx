/** One delivery of an event: where it stands, its attempts on a line and one by one. */
import type { FC } from "hono/jsx";
import type { DeliveryJson } from "../../api/deliveries.ts";
import { momentOf, plural, spanOf } from "../format.ts";
import { causeText, deliveryText } from "../status-text.ts";
import { percent, type Tick, timeScale } from "./charts.tsx";
import { Word } from "./parts.tsx";

// §§ The line on which a delivery's attempts lie.

const LINE = 18;

const names: Readonly<Record<Mark["kind"], string>> = {
  accepted: "accepted",
  succeeded: "an attempt that succeeded",
  failed: "an attempt that failed",
  next: "the next attempt",
  now: "now",
  given_up: "given up here",
};

const AttemptTrack: FC<{ track: Track; label: string }> = ({ track: { marks, ticks }, label }) => {
  const at = (kind: Mark["kind"]) => marks.find((mark) => mark.kind === kind)?.x;
  const past = at("now") ?? marks.at(-1)?.x ?? 0;
  const end = at("given_up") ?? past;
  return (
    <figure class="chart track">
      <svg height="44" role="img" aria-label={label}>
        {ticks.map(({ x, label }) => (
          <text x={percent(x)} y="42" text-anchor="middle">
            {label}
          </text>
        ))}
        <line class="line" x1={percent(0)} x2={percent(past)} y1={LINE} y2={LINE} />
        {end > past && <line class="wait" x1={percent(past)} x2={percent(end)} y1={LINE} y2={LINE} />}
        {marks.map((mark) => (
          <MarkShape mark={mark} />
        ))}
      </svg>
    </figure>
  );
};

const MarkShape: FC<{ mark: Mark }> = ({ mark: { kind, x } }) => {
  const title = <title>{names[kind]}</title>;
  if (kind === "now") return <line class="now" x1={percent(x)} x2={percent(x)} y1="4" y2="32" />;
  if (kind === "given_up") {
    return (
      <line class="end" x1={percent(x)} x2={percent(x)} y1={LINE - 6} y2={LINE + 6}>
        {title}
      </line>
    );
  }
  const looks = { accepted: "accepted", succeeded: "well", failed: "ill", next: "next" }[kind];
  return (
    <circle class={`dot ${looks}`} cx={percent(x)} cy={LINE} r={kind === "accepted" ? 3 : 6}>
      {title}
    </circle>
  );
};

// §§ A delivery's attempts on a line of time, with what is next and where it ends. Pure.

type Mark = Readonly<{
  kind: "accepted" | "succeeded" | "failed" | "next" | "now" | "given_up";
  /** Along the line, 0 to 100. */
  x: number;
}>;

type Track = Readonly<{ marks: readonly Mark[]; ticks: readonly Tick[] }>;

/** @param acceptedAt epoch ms, of the event */
export function trackOf(delivery: DeliveryJson, acceptedAt: number, now: number): Track {
  const moments = momentsOf(delivery, now);
  const { place, ticks } = timeScale(Math.max(...moments.map(({ at }) => at - acceptedAt)));
  const marks = moments.map(({ kind, at }) => ({ kind, x: place(at - acceptedAt) }));
  return { marks: [{ kind: "accepted", x: 0 }, ...marks], ticks };
}

type Moment = Readonly<{ kind: Mark["kind"]; at: number }>;

function momentsOf(delivery: DeliveryJson, now: number): Moment[] {
  const attempts = delivery.log.map(
    (entry): Moment => ({ kind: isSuccess(entry) ? "succeeded" : "failed", at: Date.parse(entry.at) }),
  );
  const next = delivery.next_attempt_at ?? delivery.waiting_until;
  const isOver = ["delivered", "dead", "cancelled"].includes(delivery.state);
  if (isOver) return attempts;
  return [
    ...attempts,
    { kind: "now", at: now },
    ...(next === undefined ? [] : [{ kind: "next" as const, at: Math.max(now, Date.parse(next)) }]),
    { kind: "given_up", at: Date.parse(delivery.give_up_at) },
  ];
}

/** Every 2xx. */
function isSuccess({ status }: DeliveryJson["log"][number]): boolean {
  return status !== undefined && status >= 200 && status < 300;
}

type Props = Readonly<{
  delivery: DeliveryJson;
  name: string;
  acceptedAt: number;
  now: number;
  mayChange: boolean;
}>;

export const DeliveryPanel: FC<Props> = ({ delivery, name, acceptedAt, now, mayChange }) => {
  const { tone, short, says } = deliveryText(delivery, acceptedAt, now);
  return (
    <article class="delivery" id={delivery.id} aria-label={`${name}: ${short}`}>
      <div class="head">
        <h3 class="break">
          <a href={`/dashboard/destinations/${delivery.destination_id}`}>{name}</a>
        </h3>
        <Word tone={tone}>{short}</Word>
      </div>
      <p>
        {`${says}. `}
        {isHeldUp(delivery) && <a href="/docs#troubleshooting">What to do</a>}
      </p>
      <AttemptTrack
        track={trackOf(delivery, acceptedAt, now)}
        label={`${plural(delivery.attempts, "attempt")} on a line of time. ${says}.`}
      />
      {mayChange && delivery.state === "dead" && (
        <form method="post" action={`/dashboard/deliveries/${delivery.id}/retry`}>
          <button type="submit">Try it again</button>
        </form>
      )}
      {delivery.log.length > 0 && <Attempts log={delivery.log} attempts={delivery.attempts} now={now} />}
    </article>
  );
};

/** Whether somebody may have to do something for it to go on. */
function isHeldUp({ state, reason }: DeliveryJson): boolean {
  return (state === "waiting" || state === "retrying") && reason !== "in_flight";
}

/** The log keeps the newest ones: they are numbered from the end. */
const Attempts: FC<{ log: DeliveryJson["log"]; attempts: number; now: number }> = ({
  log,
  attempts,
  now,
}) => (
  <ol class="log" reversed>
    {log
      .map((entry, i) => ({ entry, number: attempts - log.length + 1 + i }))
      .toReversed()
      .map(({ entry, number }) => (
        <li>
          <time datetime={entry.at}>{`${number}. ${momentOf(Date.parse(entry.at), now)}`}</time>
          <div class="break">
            <Word tone={isSuccess(entry) ? "good" : "bad"}>{answerWords(entry)}</Word>
            <span class="soft">{` after ${spanOf(entry.latency_ms)}`}</span>
            {entry.note !== undefined && <span class="soft">{` · ${entry.note}`}</span>}
            {entry.response !== undefined && entry.response !== "" && (
              <details>
                <summary>The answer began with</summary>
                <pre tabindex={0}>{entry.response}</pre>
              </details>
            )}
          </div>
        </li>
      ))}
  </ol>
);

function answerWords({ status, error }: DeliveryJson["log"][number]): string {
  if (status !== undefined) return `HTTP ${status}`;
  const words = causeText(error ?? "no answer");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
