/** The message log of a destination, with its states as tabs. */
import type { FC } from "hono/jsx";
import { deliveryText } from "./delivery-words.ts";
import { type LogEntry, type LogState, logStates, type MessageLog } from "./message-log.ts";
import { Ago, Word } from "./parts.tsx";

type Props = Readonly<{ path: string; log: MessageLog; now: number }>;

export const Messages: FC<Props> = ({ path, log, now }) => (
  <section aria-labelledby="messages">
    <div class="head">
      <h2 id="messages">Messages</h2>
      <Tabs path={path} current={log.state} />
    </div>
    {log.entries.length === 0 ? (
      <p class="empty">{emptyWords(log)}</p>
    ) : (
      <table class="cards thin">
        <thead>
          <tr>
            <th scope="col">Event</th>
            <th scope="col">State</th>
            <th scope="col" class="num">
              Attempts
            </th>
            <th scope="col" class="num">
              Last answer
            </th>
            <th scope="col" class="num">
              Accepted
            </th>
          </tr>
        </thead>
        <tbody>
          {log.entries.map((entry) => (
            <Row entry={entry} now={now} />
          ))}
        </tbody>
      </table>
    )}
    <Pager path={path} log={log} />
  </section>
);

const Row: FC<{ entry: LogEntry; now: number }> = ({ entry: { delivery, event }, now }) => {
  const { tone, short, says } = deliveryText(delivery, event?.acceptedAt ?? now, now);
  return (
    <tr id={delivery.id}>
      <td class="all">
        <a class="name break" href={`/dashboard/events/${delivery.event_id}`}>
          {event?.type ?? "a removed event"}
        </a>
        <code class="sub">{delivery.event_id}</code>
      </td>
      <td class="all">
        <Word tone={tone}>{short}</Word>
        {tone !== "good" && <span class="sub">{says}</span>}
      </td>
      <td data-label="Attempts" class="num">
        {delivery.attempts}
      </td>
      <td data-label="Last answer" class="num">
        {delivery.last_status ?? delivery.last_error ?? "–"}
      </td>
      <td data-label="Accepted" class="num">
        {event ? <Ago at={event.acceptedAt} now={now} /> : "–"}
      </td>
    </tr>
  );
};

const Tabs: FC<{ path: string; current: LogState }> = ({ path, current }) => (
  <nav class="tabs" aria-label="States">
    {logStates.map((state) => (
      <a
        href={`${path}${state === "all" ? "" : `?state=${state}`}#messages`}
        {...(state === current && { "aria-current": "true" })}
      >
        {state.charAt(0).toUpperCase() + state.slice(1)}
      </a>
    ))}
  </nav>
);

const Pager: FC<Omit<Props, "now">> = ({ path, log: { state, isFirst, next } }) => {
  const query = (before?: string) =>
    `${path}?${new URLSearchParams({ ...(state !== "all" && { state }), ...(before && { before }) })}#messages`;
  if (isFirst && next === undefined) return null;
  return (
    <p class="pager">
      {!isFirst && <a href={query()}>Newest</a>}
      {next !== undefined && <a href={query(next)}>Older</a>}
    </p>
  );
};

function emptyWords({ state, isFirst }: MessageLog): string {
  if (!isFirst) return "Nothing older.";
  const none = { all: "No attempt has been made yet.", queued: "Nothing is on its way to a first attempt." };
  return state in none ? none[state as keyof typeof none] : `No delivery is ${state}.`;
}
