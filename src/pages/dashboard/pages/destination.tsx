/** The page of one destination: its status and the reason for it, its traffic, settings, replays and deliveries. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import { type StatsWindow, spans } from "../../../core/rollups.ts";
import { canCertify } from "../../../delivery/certification.ts";
import { isPolled } from "../../../delivery/kinds/sending.ts";
import { type BlockedKeyPage, getBlockedKeys } from "../../../features/deliveries/ordering.ts";
import { historyOf } from "../../../features/destinations/health.ts";
import { pauseDestination, updateDestination } from "../../../features/destinations/service.ts";
import { getKeys } from "../../../features/keys/service.ts";
import type { ConsumerList } from "../../../features/polling/schema.ts";
import { getConsumers } from "../../../features/polling/service.ts";
import { COUNTED, readFleet } from "../../../features/stats/fleet.ts";
import { type Destination, limitsOf } from "../../../store/destination.ts";
import { listReplays, type Replay } from "../../../store/replays.ts";
import { TrafficChart, TrafficLegend } from "../../ui/charts.tsx";
import { type LogPage, logStates, readLog } from "../../ui/delivery-log.tsx";
import {
  deliveriesIn,
  destinationHealthOf,
  figuresQuery,
  type Health,
  nameOf,
  shortUrl,
} from "../../ui/destination-table.tsx";
import { atMost, countOf, decimalOf, durationOrNone, type Form } from "../../ui/format.ts";
import {
  ButtonLink,
  Crumb,
  Figure,
  OutcomeNotice,
  Press,
  RefusedNotice,
  Section,
  WindowTabs,
  windowNamed,
} from "../../ui/parts.tsx";
import { statusOfRefused } from "../../ui/services.ts";
import type { StatusText } from "../../ui/status-text.ts";
import { readTransformFaults, TransformSummary } from "../../ui/transform-page.tsx";
import { BlockedKeys } from "../components/blocked-keys.tsx";
import { CircuitHistory, CircuitTimeline, interruptionsOf } from "../components/circuit-history.tsx";
import { Consumers } from "../components/consumers.tsx";
import { DestinationLog } from "../components/destination-log.tsx";
import {
  LimitsForm,
  RetryPolicySummary,
  SecretRotation,
  Sending,
} from "../components/destination-settings.tsx";
import { showNotFound, showPage } from "../components/layout.tsx";
import { isUnderWay, ReplayProgress } from "../components/replay-progress.tsx";
import { callerOnPage, type DashboardContext, type DashboardEnv, mayCall } from "../session.ts";
import { transformWords } from "./transform.tsx";

export function registerDestination(app: Hono<DashboardEnv>): void {
  app.get("/dashboard/destinations/:id", (c) => showDestination(c, c.req.param("id")));
}

/** A form that was refused; what was typed stays in its fields. */
type RefusedForm = Readonly<{ refused: Refused; typed?: Form }>;

const REPLAYS_SHOWN = 3;

export async function showDestination(c: DashboardContext, id: string, refusedForm?: RefusedForm) {
  const services = c.get("services");
  const { tenant } = c.get("visitor");
  const window = windowNamed(c.req.query("window"));
  const fleet = await readFleet(services, { tenant, destination: id }, figuresQuery(window));
  const seen = fleet.seen[0];
  if (seen === undefined) return showNotFound(c);
  const state = logStates.find((name) => name === c.req.query("state")) ?? "all";
  const latest = { tenant, destinationId: id, state: undefined, before: undefined, limit: REPLAYS_SHOWN };
  const caller = callerOnPage(c);
  const [deliveries, { replays }, blocked, consumers, transformFaults] = await Promise.all([
    readLog(caller, seen.row, { state, before: c.req.query("before") }),
    listReplays(services, latest),
    seen.row.ordering === null ? undefined : getBlockedKeys(caller, { destination: id }),
    isPolled(seen.row) ? getConsumers(caller, id) : undefined,
    readTransformFaults(caller, seen.row),
  ]);
  const now = services.now();
  return showPage(
    c,
    { title: nameOf(seen.row), live: refusedForm === undefined },
    <DestinationPage
      health={destinationHealthOf(seen, now)}
      window={window}
      deliveries={deliveries}
      replays={replays}
      blocked={blocked?.kind === "ok" ? blocked.value : undefined}
      consumers={consumers?.kind === "ok" ? consumers.value : undefined}
      transformFaults={transformFaults}
      now={now}
      maySeeKeys={mayCall(c, getKeys)}
      mayRepair={mayCall(c, pauseDestination)}
      mayConfigure={mayCall(c, updateDestination)}
      outcome={c.req.query("done")}
      {...refusedForm}
    />,
    refusedForm ? statusOfRefused(refusedForm.refused) : 200,
  );
}

type Props = Readonly<{
  health: Health;
  window: StatsWindow;
  deliveries: LogPage;
  replays: readonly Replay[];
  /** Undefined where the destination is not ordered. */
  blocked: BlockedKeyPage | undefined;
  /** Undefined where the destination is not polled, or its inbox cannot be reached. */
  consumers: ConsumerList | undefined;
  transformFaults: Awaited<ReturnType<typeof readTransformFaults>>;
  now: number;
  maySeeKeys: boolean;
  /** Pauses, tests, cancels and replays. */
  mayRepair: boolean;
  /** Changes what is stored of the destination. */
  mayConfigure: boolean;
  /** The name of what an action has just done. */
  outcome: string | undefined;
  refused?: Refused;
  typed?: Form;
}>;

const DestinationPage: FC<Props> = ({
  health,
  window,
  deliveries,
  replays,
  blocked,
  consumers,
  transformFaults,
  now,
  maySeeKeys,
  mayRepair,
  mayConfigure,
  outcome,
  refused,
  typed,
}) => {
  const { row, figures, status, depth } = health;
  const path = `/dashboard/destinations/${row.id}`;
  const isHeld = (figures?.view.heldUntil ?? 0) > now;
  return (
    <>
      <section>
        <Crumb href="/dashboard">Overview</Crumb>
        <h1 class="break">{nameOf(row)}</h1>
        <p class="lede break">
          {row.description !== null && `${shortUrl(row.url)} · `}
          {`${row.eventTypes === null ? "All events" : row.eventTypes.join(", ")} of tenant ${row.tenant}\u00a0· `}
          <code>{row.id}</code>
        </p>
      </section>
      {refused && !typed ? <RefusedNotice refused={refused} /> : <OutcomeNotice name={outcome} />}
      <StatusPanel status={status} />
      {mayRepair && <Actions path={path} row={row} isHeld={isHeld} mayConfigure={mayConfigure} />}
      <CurrentFigures health={health} />
      {mayRepair && depth.waiting > 0 && <CancelWaiting path={path} waiting={depth.waiting} />}
      <Traffic path={path} health={health} window={window} now={now} />
      <div class="columns">
        <div class="column">
          <CircuitHistory history={historyOf(row, figures?.view ?? { history: [] })} now={now} />
          <DeadLetters path={path} replays={replays} dead={depth.dead} mayChange={mayRepair} now={now} />
        </div>
        <div class="column">
          <Sending row={row} />
          <TransformSummary
            words={transformWords(now)}
            row={row}
            path={`${path}/transform`}
            faults={transformFaults}
          />
          <LimitsForm row={row} path={path} mayChange={mayConfigure} typed={typed} refused={refused} />
          <RetryPolicySummary row={row} />
          {mayConfigure && <SecretRotation path={path} row={row} now={now} />}
        </div>
      </div>
      {blocked && <BlockedKeys page={blocked} mayRepair={mayRepair} />}
      {consumers && (
        <Consumers
          list={consumers}
          now={now}
          keysAt={maySeeKeys ? `/dashboard/keys?destination=${row.id}` : undefined}
        />
      )}
      <DestinationLog path={path} id={row.id} page={deliveries} mayRepair={mayRepair} now={now} />
    </>
  );
};

/** Screen readers announce a change of the state, but not the countdown, which would interrupt all the time. */
const StatusPanel: FC<{ status: StatusText }> = ({ status: { tone, label, text, reason, hint } }) => (
  <section class={`status tone-${tone}`} aria-label="Status">
    <p>
      <strong>{text}</strong>
      {reason === undefined ? "." : `: ${reason}.`}
    </p>
    {hint !== undefined && <p>{hint}</p>}
    <output class="hidden">{label}</output>
  </section>
);

type ActionsProps = Readonly<{ row: Destination; path: string; isHeld: boolean; mayConfigure: boolean }>;

const Actions: FC<ActionsProps> = ({ row, path, isHeld, mayConfigure }) => (
  <section class="actions" aria-label="Actions">
    {row.status === "paused" ? (
      <Press action={`${path}/resume`} label="Resume" isMain />
    ) : (
      <Press action={`${path}/pause`} label="Pause" />
    )}
    {isHeld && (
      <form method="post" action={`${path}/clear-hold`}>
        <button type="submit">Clear hold</button>
      </form>
    )}
    <ButtonLink href={`${path}/test`}>Send a test event</ButtonLink>
    {canCertify(row) && <ButtonLink href={`${path}/certification`}>Conformance</ButtonLink>}
    {mayConfigure && <ButtonLink href={`${path}/edit`}>Edit</ButtonLink>}
    {!isPolled(row) && <ButtonLink href={`${path}/transform`}>Transformation</ButtonLink>}
    <ButtonLink href={`${path}/notices`}>Notices</ButtonLink>
  </section>
);

/** Closed at first, so that it is not pressed by mistake. */
const CancelWaiting: FC<{ path: string; waiting: number }> = ({ path, waiting }) => (
  <details>
    <summary>Cancel the backlog</summary>
    <form class="stack" method="post" action={`${path}/cancel-waiting`}>
      <p class="hint">
        {`${atMost(waiting, COUNTED)} ${waiting === 1 ? "delivery waits" : "deliveries wait"}. Cancelling them ends them without further attempts. Deliveries in flight or retrying are not affected.`}
      </p>
      <div class="actions">
        <button type="submit">Cancel waiting deliveries</button>
      </div>
    </form>
  </details>
);

const CurrentFigures: FC<{ health: Health }> = ({ health: { row, figures, depth, rates } }) => (
  <section aria-label="Current figures">
    <dl class="figures">
      <Figure
        name="In flight"
        value={countOf(figures?.view.inFlight ?? 0)}
        unit={`of ${limitsOf(row).max_concurrency}`}
      />
      <Figure name="Allowed at once" value={countOf(figures?.view.window ?? 0)} />
      <Figure name="Waiting" value={atMost(depth.waiting, COUNTED)} href={deliveriesIn("waiting", row.id)} />
      <Figure name="Retrying" value={countOf(depth.retrying)} href={deliveriesIn("retrying", row.id)} />
      <Figure
        name="Dead"
        value={atMost(depth.dead, COUNTED)}
        tone={depth.dead > 0 ? "bad" : undefined}
        href={deliveriesIn("dead", row.id)}
      />
      <Figure
        name="Retry ratio"
        value={decimalOf(rates.retryRatio)}
        tone={figures?.view.traffic.storm ? "bad" : undefined}
      />
      <Figure name="p95 latency" value={durationOrNone(rates.latencyP95Ms)} />
    </dl>
  </section>
);

type TrafficProps = Readonly<{ path: string; health: Health; window: StatsWindow; now: number }>;

/** Attempts over time, and below them when the destination was blocked. */
const Traffic: FC<TrafficProps> = ({ path, health: { row, figures }, window, now }) => {
  const series = figures?.windows[window]?.series ?? [];
  const since = series[0]?.at ?? now;
  return (
    <section aria-labelledby="traffic">
      <div class="head">
        <h2 id="traffic">Attempts</h2>
        <TrafficLegend />
        <WindowTabs at={(other) => (other ? `${path}?window=${other}` : path)} current={window} />
      </div>
      <TrafficChart series={series} window={window} />
      {figures && series.length > 0 && (
        <CircuitTimeline
          interruptions={interruptionsOf({ history: figures.view.history, row }, since, now)}
          since={since}
          until={since + series.length * spans[window].stepMs}
          now={now}
        />
      )}
    </section>
  );
};

type DeadLettersProps = Readonly<{
  path: string;
  /** The newest first. */
  replays: readonly Replay[];
  dead: number;
  mayChange: boolean;
  now: number;
}>;

const DeadLetters: FC<DeadLettersProps> = ({ path, replays, dead, mayChange, now }) => (
  <Section id="replays" title="Dead letters">
    {dead === 0 ? (
      <p class="empty">No dead letters. Deliveries that are given up appear here and can be replayed.</p>
    ) : (
      <p>
        {`${atMost(dead, COUNTED)} ${dead === 1 ? "delivery was" : "deliveries were"} given up. `}
        <a href={`${path}?state=dead#deliveries`}>Show them</a>
      </p>
    )}
    {mayChange && dead > 0 && !replays.some(isUnderWay) && <NewReplay path={path} />}
    {mayChange && !replays.some(isUnderWay) && <SendMissing path={path} />}
    {replays.map((replay) => (
      <ReplayProgress path={path} replay={replay} mayChange={mayChange} now={now} />
    ))}
  </Section>
);

/** Which events a replay is about, and how fast it begins. */
const ReplayFields: FC = () => (
  <>
    <label>
      Accepted in the last
      <select name="days">
        <option value="1">day</option>
        <option value="7">7 days</option>
        <option value="30" selected>
          30 days
        </option>
      </select>
    </label>
    <label>
      Initial rate (per minute)
      <input type="number" name="rate_per_minute" min={1} max={6000} value="100" />
    </label>
  </>
);

/** Closed at first: it is needed once, after a destination was created or its filter was widened. */
const SendMissing: FC<{ path: string }> = ({ path }) => (
  <details>
    <summary>Send events it never received</summary>
    <form class="stack" method="post" action={`${path}/replay`}>
      <input type="hidden" name="include" value="missing" />
      <div class="fields">
        <ReplayFields />
        <label>
          Which events
          <select name="matching">
            <option value="true">those it would receive with its settings of today</option>
            <option value="false">all events of its tenant</option>
          </select>
        </label>
      </div>
      <div class="actions">
        <button type="submit">Send missing events</button>
        <span class="hint">Events that already have a delivery to this destination are skipped.</span>
      </div>
    </form>
  </details>
);

const NewReplay: FC<{ path: string }> = ({ path }) => (
  <form class="stack" method="post" action={`${path}/replay`}>
    <div class="fields">
      <ReplayFields />
    </div>
    <div class="actions">
      <button type="submit">Replay dead letters</button>
      <span class="hint">The replay slows down when the receiver does.</span>
    </div>
  </form>
);
