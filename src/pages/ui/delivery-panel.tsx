/** One delivery on its event's page at the dashboard: its state, its attempts on a timeline, and each attempt in detail. */
import type { FC } from "hono/jsx";
import { retryDelivery } from "../../features/deliveries/repairs.ts";
import type { DeliveryJson } from "../../features/deliveries/schema.ts";
import { percent, type Tick, timeScale } from "./charts.tsx";
import { durationOf, indented, momentOf, plural } from "./format.ts";
import { usePage } from "./page.tsx";
import { Fold, StateLabel } from "./parts.tsx";
import { attemptsMade, deliveryText, remedyAnchor, resultText } from "./status-text.ts";

type Props = Readonly<{
  delivery: DeliveryJson;
  name: string;
  acceptedAt: number;
  /** Whether the archive may have more of an attempt than the delivery's log. */
  areKept: (entry: LogEntry) => boolean;
  /** Whether the content of its event has been erased. */
  isErased: boolean;
}>;

export const DeliveryPanel: FC<Props> = ({ delivery, name, acceptedAt, areKept, isErased }) => {
  const { now, mayCall, destinationAt } = usePage();
  const { tone, label, text } = deliveryText(delivery, acceptedAt, now);
  const again = againText(delivery);
  const mayChange = mayCall(retryDelivery);
  const tryHint =
    delivery.state === "retrying"
      ? "The next attempt is made at once instead. It counts as one of its attempts."
      : "It is sent as soon as its destination allows an attempt, which counts as one of its attempts. While the circuit is open, it is the probe.";
  const actions = [
    ["retry", "Send again", isErased ? undefined : again],
    ["try-now", "Try now", mayBeTried(delivery) && tryHint],
    [
      "cancel",
      "Cancel",
      (delivery.state === "queued" || mayBeTried(delivery)) &&
        "No more attempts are made. You can send it again later.",
    ],
  ] as const;
  return (
    <article class="delivery" id={delivery.id} aria-label={`${name}: ${label}`}>
      <div class="head">
        <h3>
          <a href={destinationAt(delivery.destination_id)}>{name}</a>
        </h3>
        <StateLabel tone={tone}>{label}</StateLabel>
      </div>
      <p>
        {`${text}. `}
        {mayBeTried(delivery) && <a href={`/docs#${remedyAnchor(delivery.reason)}`}>What to do</a>}
      </p>
      {delivery.transform_fault !== undefined && <p class="break">{delivery.transform_fault}</p>}
      <AttemptTimeline
        delivery={delivery}
        acceptedAt={acceptedAt}
        label={`${plural(attemptsMade(delivery), "attempt")} on a timeline. ${text}.`}
      />
      {mayChange && again !== undefined && isErased && (
        <p class="hint">It cannot be sent again: the content of its event has been erased.</p>
      )}
      {mayChange &&
        actions.map(
          ([verb, label, hint]) =>
            hint && (
              <form method="post" action={`/dashboard/deliveries/${delivery.id}/${verb}`}>
                <button type="submit" aria-describedby={`${delivery.id}-${verb}`}>
                  {label}
                </button>{" "}
                <span class="hint" id={`${delivery.id}-${verb}`}>
                  {hint}
                </span>
              </form>
            ),
        )}
      {delivery.log.length > 0 && <Attempts delivery={delivery} areKept={areKept} />}
    </article>
  );
};

/** The effect of sending it again; undefined while it has not ended, and if it has no content or no target any more. */
function againText({ state, reason }: DeliveryJson): string | undefined {
  if (reason === "destination_deleted" || reason === "event_removed") return undefined;
  switch (state) {
    case "dead":
      return "With as many attempts and as much time as a new delivery.";
    case "delivered":
      return "The receiver gets it once more, with the same id.";
    case "cancelled":
      return "It is sent after all, with the same id.";
    default:
      return undefined;
  }
}

/** Whether it waits, or is to be attempted again: the cause may have been fixed, so it may be tried at once. */
function mayBeTried({ state, reason }: DeliveryJson): boolean {
  return (state === "waiting" || state === "retrying") && reason !== "in_flight";
}

type LogEntry = DeliveryJson["log"][number];

/**
 * The attempts of a delivery, the newest first. The log keeps the newest, so they are numbered from the end; those before it
 * was sent again have no number.
 */
export function numbered<T>(log: readonly T[], attempts: number) {
  return log
    .map((entry, i) => ({ entry, number: attempts - log.length + 1 + i }))
    .map(({ entry, number }) => ({ entry, number: number > 0 ? number : undefined }))
    .toReversed();
}

const Attempts: FC<Pick<Props, "delivery" | "areKept">> = ({ delivery: { id, log, attempts }, areKept }) => {
  const { now } = usePage();
  return (
    <ol class="log" reversed>
      {numbered(log, attempts).map(({ entry, number }) => (
        <li>
          <time datetime={entry.at}>
            {`${number === undefined ? "" : `${number}. `}${momentOf(Date.parse(entry.at), now)}`}
          </time>
          <div class="break">
            <StateLabel tone={isSuccess(entry) ? "good" : "bad"}>{resultText(entry)}</StateLabel>
            <span class="soft">{` after ${durationOf(entry.latency_ms)}`}</span>
            {entry.note !== undefined && <span class="soft">{` · ${entry.note}`}</span>}
            {entry.response !== undefined && entry.response !== "" && (
              <Fold title="Start of the response">
                <pre tabindex={0}>{indented(entry.response)}</pre>
              </Fold>
            )}
            <p>
              <a href={`/dashboard/deliveries/${id}/attempts/${encodeURIComponent(entry.at)}`}>
                {areKept(entry) ? "The whole request and response" : "The request and the response"}
              </a>
            </p>
          </div>
        </li>
      ))}
    </ol>
  );
};

export function isSuccess({ status }: Pick<LogEntry, "status">): boolean {
  return status !== undefined && status >= 200 && status < 300;
}

type Mark = Readonly<{
  kind: "accepted" | "succeeded" | "failed" | "next" | "now" | "given_up";
  /** Along the timeline, 0 to 100. */
  x: number;
}>;

type Timeline = Readonly<{ marks: readonly Mark[]; ticks: readonly Tick[] }>;

/** The attempts of a delivery on a timeline, with the next one and the time at which it is given up. Pure. */
export function timelineOf(
  delivery: DeliveryJson,
  acceptedAt: number,
  now: number,
  duration?: (ms: number) => string,
): Timeline {
  const moments = momentsOf(delivery, now);
  const { place, ticks } = timeScale(Math.max(...moments.map(({ at }) => at - acceptedAt)), duration);
  const marks = moments.map(({ kind, at }) => ({ kind, x: place(at - acceptedAt) }));
  return { marks: [{ kind: "accepted", x: 0 }, ...marks], ticks };
}

type Moment = Readonly<{ kind: Mark["kind"]; at: number }>;

function momentsOf(delivery: DeliveryJson, now: number): Moment[] {
  const attempts = delivery.log.map(
    (entry): Moment => ({ kind: isSuccess(entry) ? "succeeded" : "failed", at: Date.parse(entry.at) }),
  );
  if (["delivered", "dead", "cancelled"].includes(delivery.state)) return attempts;
  const next = delivery.next_attempt_at ?? delivery.waiting_until;
  return [
    ...attempts,
    { kind: "now", at: now },
    ...(next === undefined ? [] : [{ kind: "next" as const, at: Math.max(now, Date.parse(next)) }]),
    { kind: "given_up", at: Date.parse(delivery.give_up_at) },
  ];
}

/** The height at which the line is drawn. */
const LINE_Y = 18;

type TimelineProps = Readonly<{ delivery: DeliveryJson; acceptedAt: number; label: string }>;

export const AttemptTimeline: FC<TimelineProps> = ({ delivery, acceptedAt, label }) => {
  const { now, f, t } = usePage();
  const { marks, ticks } = timelineOf(delivery, acceptedAt, now, f.duration);
  const xOf = (kind: Mark["kind"]) => marks.find((mark) => mark.kind === kind)?.x;
  const past = xOf("now") ?? marks.at(-1)?.x ?? 0;
  const end = xOf("given_up") ?? past;
  return (
    <figure class="chart attempts">
      <svg height="44" role="img" aria-label={label}>
        {ticks.map(({ x, label }) => (
          <text x={percent(x)} y="42" text-anchor="middle">
            {label}
          </text>
        ))}
        <line class="past" x1={percent(0)} x2={percent(past)} y1={LINE_Y} y2={LINE_Y} />
        {end > past && <line class="future" x1={percent(past)} x2={percent(end)} y1={LINE_Y} y2={LINE_Y} />}
        {marks.map((mark) => (
          <MarkShape mark={mark} title={t.log.marks[mark.kind]} />
        ))}
      </svg>
    </figure>
  );
};

const MarkShape: FC<{ mark: Mark; title: string }> = ({ mark: { kind, x }, title: text }) => {
  const title = <title>{text}</title>;
  if (kind === "now") return <line class="now" x1={percent(x)} x2={percent(x)} y1="4" y2="32" />;
  if (kind === "given_up") {
    return (
      <line class="end" x1={percent(x)} x2={percent(x)} y1={LINE_Y - 6} y2={LINE_Y + 6}>
        {title}
      </line>
    );
  }
  return (
    <circle class={`dot ${kind}`} cx={percent(x)} cy={LINE_Y} r={kind === "accepted" ? 3 : 6}>
      {title}
    </circle>
  );
};
