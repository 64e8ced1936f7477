/** One destination: its door and why it stands as it does, what it may take, and all that was sent to it. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { historyOf } from "../../api/destinations/health.ts";
import { type StatsWindow, spans } from "../../core/rollups.ts";
import { limitsOf } from "../../db/destinations.ts";
import { listReplays, type Replay } from "../../db/replays.ts";
import { readFleet } from "../../metrics/fleet.ts";
import { TrafficChart, TrafficLegend } from "../components/charts.tsx";
import { CircuitHistory, CircuitTimeline, stretchesOf } from "../components/circuit-history.tsx";
import { nameOf, shortUrl } from "../components/destination-table.tsx";
import { type Form, Limits, Rotation } from "../components/forms.tsx";
import { showPage } from "../components/layout.tsx";
import {
  type LogState,
  logStates,
  type MessageLog,
  Messages,
  readLog,
} from "../components/message-table.tsx";
import { DoneNotice, Figure, RefusedNotice, WindowTabs, windowNamed } from "../components/parts.tsx";
import { Replays } from "../components/replays.tsx";
import { COUNTED, type Health, healthOf, lookFor } from "../destination-health.ts";
import { atMost, countOf, decimalOf, spanIfAny } from "../format.ts";
import type { Refused } from "../internal-client.ts";
import type { DashboardContext, DashboardEnv } from "../session.ts";
import type { StatusText } from "../status-text.ts";
import { nothingHere } from "./error-pages.tsx";
import { RetryPolicySummary } from "./new-destination.tsx";

// §§ A destination in figures: now, and over time.

/** How it stands at this moment. */
const DestinationFigures: FC<{ health: Health }> = ({ health: { row, figures, depth, rates } }) => (
  <section aria-label="At this moment">
    <dl class="figures">
      <Figure
        name="In flight"
        value={countOf(figures?.view.inFlight ?? 0)}
        unit={`of ${limitsOf(row).max_concurrency}`}
      />
      <Figure name="Allowed at once" value={countOf(figures?.view.window ?? 0)} />
      <Figure name="Waiting" value={atMost(depth.waiting, COUNTED)} />
      <Figure name="Retrying" value={countOf(depth.retrying)} />
      <Figure name="Dead" value={atMost(depth.dead, COUNTED)} tone={depth.dead > 0 ? "bad" : undefined} />
      <Figure
        name="Retries per first"
        value={decimalOf(rates.retryRatio)}
        tone={figures?.view.traffic.storm ? "bad" : undefined}
      />
      <Figure name="95 % take at most" value={spanIfAny(rates.latencyP95Ms)} />
    </dl>
  </section>
);

type FiguresProps = Readonly<{ path: string; health: Health; window: StatsWindow; now: number }>;

/** What was sent over time, and how the door stood meanwhile. */
const DestinationTraffic: FC<FiguresProps> = ({ path, health, window, now }) => {
  const { row, figures } = health;
  const series = figures?.windows[window]?.series ?? [];
  const since = series[0]?.at ?? now;
  return (
    <section aria-labelledby="traffic">
      <div class="head">
        <h2 id="traffic">Attempts</h2>
        <TrafficLegend />
        <WindowTabs path={path} current={window} />
      </div>
      <TrafficChart series={series} window={window} />
      {figures && series.length > 0 && (
        <CircuitTimeline
          stretches={stretchesOf({ history: figures.view.history, row }, since, now)}
          since={since}
          until={since + series.length * spans[window].stepMs}
          now={now}
        />
      )}
    </section>
  );
};

// §§ The page of one destination.

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

const DestinationPage: FC<Props> = ({
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

export function registerDestination(app: Hono<DashboardEnv>): void {
  app.get("/dashboard/destinations/:id", (c) => showDestination(c, c.req.param("id")));
}

/** What a person wanted of it and did not get: shown above the page, with what was typed still there. */
type Attempted = Readonly<{ refused: Refused; typed?: Form }>;

const REPLAYS = 3;

export async function showDestination(c: DashboardContext, id: string, attempted?: Attempted) {
  const services = c.get("services");
  const { tenant, scopes } = c.get("visitor").principal;
  const window = windowNamed(c.req.query("window"));
  const asked = { state: stateOf(c.req.query("state")), before: c.req.query("before") };
  const latest = { tenant, destinationId: id, state: undefined, before: undefined, limit: REPLAYS };
  const fleet = await readFleet(services, { tenant, destination: id }, lookFor(window));
  const seen = fleet.seen[0];
  if (seen === undefined) return nothingHere(c);
  const [log, { replays }] = await Promise.all([readLog(services, id, asked), listReplays(services, latest)]);
  const now = services.now();
  return showPage(
    c,
    { title: nameOf(seen.row), live: attempted === undefined },
    <DestinationPage
      health={healthOf(seen, now)}
      window={window}
      log={log}
      replays={replays}
      now={now}
      mayChange={scopes.includes("admin")}
      done={c.req.query("done")}
      {...attempted}
    />,
    attempted ? 422 : 200,
  );
}

function stateOf(given: string | undefined): LogState {
  return logStates.find((state) => state === given) ?? "all";
}
