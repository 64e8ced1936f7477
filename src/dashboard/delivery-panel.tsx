/** One delivery of an event: where it stands, its attempts on a line and one by one. */
import type { FC } from "hono/jsx";
import type { DeliveryJson } from "../api/delivery-schema.ts";
import { AttemptTrack } from "./attempt-track.tsx";
import { causeText, deliveryText } from "./delivery-words.ts";
import { momentOf, plural, spanOf } from "./figures.ts";
import { Word } from "./parts.tsx";
import { isSuccess, trackOf } from "./track.ts";

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
        {isHeldUp(delivery) && <a href="/docs#stuck-in-retries">What to do</a>}
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
