/** The page of one destination. */
import type { FC } from "hono/jsx";
import { historyOf } from "../api/destination-health.ts";
import type { StatsWindow } from "../policy/stats-window.ts";
import type { Replay } from "../store/replays.ts";
import { DestinationFigures, DestinationTraffic } from "./destination-figures.tsx";
import { nameOf, shortUrl } from "./destination-table.tsx";
import { CircuitHistory } from "./door-history.tsx";
import type { StatusText } from "./door-words.ts";
import type { Form } from "./form-fields.ts";
import type { Health } from "./health.ts";
import type { Refused } from "./inside.ts";
import { Limits } from "./limits-form.tsx";
import type { MessageLog } from "./message-log.ts";
import { Messages } from "./message-table.tsx";
import { DoneNotice, RefusedNotice } from "./notices.tsx";
import { Replays } from "./replays.tsx";
import { RetryPolicySummary } from "./retry-policy-summary.tsx";
import { Rotation } from "./rotation.tsx";

type Props = Readonly<{
  health: Health;
  window: StatsWindow;
  log: MessageLog;
  replays: readonly Replay[];
  now: number;
  mayChange: boolean;
  /** What has just been done, by name. */
  done: string | undefined;
  refused?: Refused;
  typed?: Form;
}>;

export const DestinationPage: FC<Props> = ({
  health,
  window,
  log,
  replays,
  now,
  mayChange,
  done,
  refused,
  typed,
}) => {
  const { row, figures, words, depth } = health;
  const path = `/dashboard/destinations/${row.id}`;
  const isHeld = (figures?.view.heldUntil ?? 0) > now;
  return (
    <>
      <section>
        <p class="crumb">
          <a href="/dashboard">Overview</a>
        </p>
        <h1 class="break">{nameOf(row)}</h1>
        <p class="lede break">
          {row.description !== null && `${shortUrl(row.url)} · `}
          {`${wantedTypes(row.eventTypes)} of tenant ${row.tenant} · `}
          <code>{row.id}</code>
        </p>
      </section>
      {refused ? <RefusedNotice refused={refused} /> : <DoneNotice what={done} />}
      <DoorPanel words={words} />
      {mayChange && <Buttons path={path} isPaused={row.status === "paused"} isHeld={isHeld} />}
      <DestinationFigures health={health} />
      <DestinationTraffic path={path} health={health} window={window} now={now} />
      <div class="columns">
        <div class="column">
          <CircuitHistory history={historyOf(row, figures?.view ?? { history: [] })} now={now} />
          <Replays path={path} replays={replays} dead={depth.dead} mayChange={mayChange} now={now} />
        </div>
        <div class="column">
          <Limits row={row} path={path} mayChange={mayChange} typed={typed} />
          <RetryPolicySummary row={row} />
          {mayChange && <Rotation path={path} row={row} now={now} />}
        </div>
      </div>
      <Messages path={path} log={log} now={now} />
    </>
  );
};

const Buttons: FC<{ path: string; isPaused: boolean; isHeld: boolean }> = ({ path, isPaused, isHeld }) => (
  <section class="actions" aria-label="Actions">
    <form method="post" action={`${path}/${isPaused ? "resume" : "pause"}`}>
      <button type="submit" class={isPaused ? "main" : ""}>
        {isPaused ? "Resume" : "Pause"}
      </button>
    </form>
    {isHeld && (
      <form method="post" action={`${path}/clear-hold`}>
        <button type="submit">End the hold</button>
      </form>
    )}
    <form method="post" action={`${path}/test`}>
      <button type="submit">Send a test event</button>
    </form>
  </section>
);

/** The state is announced when it changes; the countdown is not, which would never stop talking. */
const DoorPanel: FC<{ words: StatusText }> = ({ words }) => (
  <section class={`door tone-${words.tone}`} aria-label="The door">
    <p>
      <strong>{words.says}</strong>
      {words.reason !== undefined && `: ${words.reason}.`}
      {words.reason === undefined && "."}
    </p>
    {words.hint !== undefined && <p>{words.hint}</p>}
    <output class="hidden">{words.short}</output>
  </section>
);

function wantedTypes(types: readonly string[] | null): string {
  return types === null ? "All events" : types.join(", ");
}
