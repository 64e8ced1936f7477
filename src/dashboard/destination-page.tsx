/** The page of one destination. */
import type { FC } from "hono/jsx";
import { limitsOf } from "../store/destination-settings.ts";
import type { Replay } from "../store/replays.ts";
import { nameOf, shortUrl } from "./destination-table.tsx";
import { DoorHistory } from "./door-history.tsx";
import type { DoorWords } from "./door-words.ts";
import { atMost, countOf, decimalOf, spanOf } from "./figures.ts";
import type { Form } from "./form-fields.ts";
import { COUNTED, type Health } from "./health.ts";
import type { Refused } from "./inside.ts";
import { Limits } from "./limits-form.tsx";
import type { MessageLog } from "./message-log.ts";
import { Messages } from "./message-table.tsx";
import { DoneNotice, RefusedNotice } from "./notices.tsx";
import { Figure } from "./parts.tsx";
import { Replays } from "./replays.tsx";
import { Rotation } from "./rotation.tsx";
import { trafficOf } from "./traffic.ts";
import { TrafficChart, TrafficLegend } from "./traffic-chart.tsx";

type Props = Readonly<{
  health: Health;
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
  log,
  replays,
  now,
  mayChange,
  done,
  refused,
  typed,
}) => {
  const { row, view, words, backlog } = health;
  const path = `/dashboard/destinations/${row.id}`;
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
      {mayChange && <Buttons path={path} isPaused={row.status === "paused"} />}
      <Figures health={health} />
      <section aria-labelledby="traffic">
        <div class="head">
          <h2 id="traffic">Attempts by the minute</h2>
          <TrafficLegend />
        </div>
        <TrafficChart bars={trafficOf([view], now)} />
      </section>
      <div class="columns">
        <Limits row={row} path={path} mayChange={mayChange} typed={typed} />
        <DoorHistory history={view?.history ?? []} now={now} />
        <Replays path={path} replays={replays} dead={backlog.dead} mayChange={mayChange} now={now} />
        {mayChange && <Rotation path={path} row={row} now={now} />}
      </div>
      <Messages path={path} log={log} now={now} />
    </>
  );
};

const Buttons: FC<{ path: string; isPaused: boolean }> = ({ path, isPaused }) => (
  <section class="actions" aria-label="Actions">
    <form method="post" action={`${path}/${isPaused ? "resume" : "pause"}`}>
      <button type="submit" class={isPaused ? "main" : ""}>
        {isPaused ? "Resume" : "Pause"}
      </button>
    </form>
    <form method="post" action={`${path}/test`}>
      <button type="submit">Send a test event</button>
    </form>
  </section>
);

/** The state is announced when it changes; the countdown is not, which would never stop talking. */
const DoorPanel: FC<{ words: DoorWords }> = ({ words }) => (
  <section class={`door tone-${words.tone}`} aria-label="The door">
    <p>
      <strong>{words.says}</strong>
      {words.because !== undefined && `: ${words.because}.`}
      {words.because === undefined && "."}
    </p>
    {words.hint !== undefined && <p>{words.hint}</p>}
    <output class="hidden">{words.short}</output>
  </section>
);

const Figures: FC<{ health: Health }> = ({ health: { row, view, backlog } }) => (
  <section aria-label="At this moment">
    <dl class="figures">
      <Figure
        name="In flight"
        value={countOf(view?.inFlight ?? 0)}
        unit={`of ${limitsOf(row).max_concurrency}`}
      />
      <Figure name="Allowed at once" value={countOf(view?.window ?? 0)} />
      <Figure name="Waiting" value={atMost(backlog.waiting, COUNTED)} />
      <Figure name="Dead" value={atMost(backlog.dead, COUNTED)} tone={backlog.dead > 0 ? "bad" : undefined} />
      <Figure
        name="Retries per first"
        value={decimalOf(view?.traffic.retryRatio ?? 0)}
        tone={view?.traffic.storm ? "bad" : undefined}
      />
      <Figure name="An attempt takes" value={view && view.tookMs > 0 ? spanOf(view.tookMs) : "–"} />
    </dl>
  </section>
);

function wantedTypes(types: readonly string[] | null): string {
  return types === null ? "All events" : types.join(", ");
}
