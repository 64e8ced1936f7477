/** The page of one destination: its status and the reason for it, its traffic, settings, replays and deliveries. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import { type StatsWindow, spans } from "../../../core/rollups.ts";
import { canCertify } from "../../../delivery/certification.ts";
import { isPolled } from "../../../delivery/kinds/sending.ts";
import { historyOf } from "../../../features/destinations/health.ts";
import { pauseDestination, updateDestination } from "../../../features/destinations/service.ts";
import { getKeys } from "../../../features/keys/service.ts";
import { startReplay } from "../../../features/replays/service.ts";
import { COUNTED, readFleet } from "../../../features/stats/fleet.ts";
import { type Destination, limitsOf } from "../../../store/destination.ts";
import type { Replay } from "../../../store/replays.ts";
import { BlockedKeys } from "../../ui/blocked-keys.tsx";
import { Legend, TrafficChart } from "../../ui/charts.tsx";
import { Consumers } from "../../ui/consumers.tsx";
import { type DestinationParts, readParts } from "../../ui/destination-parts.ts";
import {
  deliveriesIn,
  destinationHealthOf,
  figuresQuery,
  type Health,
  nameOf,
  shortUrl,
} from "../../ui/destination-table.tsx";
import { addressOf, atMost, countOf, decimalOf, durationOrNone, type Form } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import {
  ButtonLink,
  Crumb,
  Figure,
  OutcomeNotice,
  Press,
  RefusedNotice,
  Section,
  Select,
  WindowTabs,
  windowNamed,
} from "../../ui/parts.tsx";
import type { StatusText } from "../../ui/status-text.ts";
import { TransformSummary } from "../../ui/transform-page.tsx";
import { CircuitHistory, CircuitTimeline, interruptionsOf } from "../components/circuit-history.tsx";
import { DestinationLog } from "../components/destination-log.tsx";
import {
  LimitsForm,
  RetryPolicySummary,
  SecretRotation,
  Sending,
} from "../components/destination-settings.tsx";
import { showNotFound, showPage } from "../components/layout.tsx";
import { isUnderWay, ReplayProgress } from "../components/replay-progress.tsx";
import { callerOnPage, type DashboardContext, type DashboardEnv } from "../session.ts";

export function registerDestination(app: Hono<DashboardEnv>): void {
  app.get("/dashboard/destinations/:id", (c) => showDestination(c, c.req.param("id")));
}

/** A form that was refused; what was typed stays in its fields. */
type RefusedForm = Readonly<{ refused: Refused; typed?: Form }>;

export async function showDestination(c: DashboardContext, id: string, form?: RefusedForm) {
  const services = c.get("services");
  const { tenant } = c.get("visitor");
  const window = windowNamed(c.req.query("window"));
  const fleet = await readFleet(services, { tenant, destination: id }, figuresQuery(window));
  const seen = fleet.seen[0];
  if (seen === undefined) return showNotFound(c);
  const health = destinationHealthOf(seen, services.now());
  const parts = await readParts(callerOnPage(c), seen.row, tenant, c.req.query());
  return showPage(
    c,
    { title: nameOf(seen.row), live: form === undefined, refused: form?.refused },
    <DestinationPage {...parts} health={health} window={window} outcome={c.req.query("done")} {...form} />,
  );
}

type PageProps = DestinationParts &
  Partial<RefusedForm> &
  Readonly<{
    health: Health;
    window: StatsWindow;
    /** The name of what an action has just done. */
    outcome: string | undefined;
  }>;

const DestinationPage: FC<PageProps> = (props) => {
  const { health, deliveries, replays, blocked, consumers, transformFaults, refused, typed } = props;
  const { now, mayCall } = usePage();
  const { row, figures, status, depth } = health;
  const path = `/dashboard/destinations/${row.id}`;
  const mayRepair = mayCall(pauseDestination);
  return (
    <>
      <section>
        <Crumb href="/dashboard">Overview</Crumb>
        <h1>{nameOf(row)}</h1>
        <p class="lede">
          {row.description !== null && `${shortUrl(row.url)} · `}
          {`${row.eventTypes === null ? "All events" : row.eventTypes.join(", ")} of tenant ${row.tenant}\u00a0· `}
          <code>{row.id}</code>
        </p>
      </section>
      {refused && !typed ? <RefusedNotice refused={refused} /> : <OutcomeNotice name={props.outcome} />}
      <StatusPanel status={status} />
      {mayRepair && <Actions path={path} row={row} isHeld={(figures?.view.heldUntil ?? 0) > now} />}
      <CurrentFigures health={health} />
      {mayRepair && depth.waiting > 0 && <CancelWaiting path={path} waiting={depth.waiting} />}
      <Traffic path={path} health={health} window={props.window} />
      <div class="columns">
        <div class="column">
          <CircuitHistory history={historyOf(row, figures?.view ?? { history: [] })} />
          <DeadLetters path={path} replays={replays} dead={depth.dead} />
        </div>
        <div class="column">
          <Sending row={row} />
          <TransformSummary row={row} path={path} faults={transformFaults} />
          <LimitsForm row={row} path={path} typed={typed} refused={refused} />
          <RetryPolicySummary row={row} />
          {mayCall(updateDestination) && <SecretRotation path={path} row={row} />}
        </div>
      </div>
      {blocked && (
        <BlockedKeys
          page={blocked}
          action={mayRepair ? { title: "Skip", of: (delivery) => <Skip delivery={delivery} /> } : undefined}
        />
      )}
      {consumers && (
        <Consumers list={consumers}>
          {mayCall(getKeys) && (
            <p>
              <a href={`/dashboard/keys?destination=${row.id}`}>Keys that poll this destination alone</a>
            </p>
          )}
        </Consumers>
      )}
      <DestinationLog path={path} id={row.id} page={deliveries} />
    </>
  );
};

const Skip: FC<{ delivery: string }> = ({ delivery }) => (
  <Press action={`/dashboard/deliveries/${delivery}/skip`} label="Skip" />
);

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

const Actions: FC<{ row: Destination; path: string; isHeld: boolean }> = ({ row, path, isHeld }) => (
  <section class="actions" aria-label="Actions">
    {row.status === "paused" ? (
      <Press action={`${path}/resume`} label="Resume" of="main" />
    ) : (
      <Press action={`${path}/pause`} label="Pause" />
    )}
    {isHeld && <Press action={`${path}/clear-hold`} label="Clear hold" />}
    <ButtonLink href={`${path}/test`}>Send a test event</ButtonLink>
    {canCertify(row) && <ButtonLink href={`${path}/certification`}>Conformance</ButtonLink>}
    {usePage().mayCall(updateDestination) && <ButtonLink href={`${path}/edit`}>Edit</ButtonLink>}
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

type TrafficProps = Readonly<{ path: string; health: Health; window: StatsWindow }>;

/** Attempts over time, and below them when the destination was blocked. */
const Traffic: FC<TrafficProps> = ({ path, health: { row, figures }, window }) => {
  const { now } = usePage();
  const series = figures?.windows[window]?.series ?? [];
  const since = series[0]?.at ?? now;
  const aside = (
    <>
      <Legend good="succeeded" bad="failed" />
      <WindowTabs at={(other) => addressOf(path, { window: other })} current={window} />
    </>
  );
  return (
    <Section id="traffic" title="Attempts" aside={aside}>
      <TrafficChart series={series} window={window} />
      {figures && series.length > 0 && (
        <CircuitTimeline
          interruptions={interruptionsOf({ history: figures.view.history, row }, since, now)}
          since={since}
          until={since + series.length * spans[window].stepMs}
        />
      )}
    </Section>
  );
};

type DeadLettersProps = Readonly<{
  path: string;
  /** The newest first. */
  replays: readonly Replay[];
  dead: number;
}>;

const DeadLetters: FC<DeadLettersProps> = ({ path, replays, dead }) => {
  const mayStart = usePage().mayCall(startReplay) && !replays.some(isUnderWay);
  return (
    <Section id="replays" title="Dead letters">
      {dead === 0 ? (
        <p class="empty">No dead letters. Deliveries that are given up appear here and can be replayed.</p>
      ) : (
        <p>
          {`${atMost(dead, COUNTED)} ${dead === 1 ? "delivery was" : "deliveries were"} given up. `}
          <a href={`${path}?state=dead#deliveries`}>Show them</a>
        </p>
      )}
      {mayStart && dead > 0 && <NewReplay path={path} />}
      {mayStart && <SendMissing path={path} />}
      {replays.map((replay) => (
        <ReplayProgress path={path} replay={replay} />
      ))}
    </Section>
  );
};

/** Which events a replay is about, and how fast it begins. */
const ReplayFields: FC = () => (
  <>
    <Select
      label="Accepted in the last"
      name="days"
      of={[
        ["1", "day"],
        ["7", "7 days"],
        ["30", "30 days"],
      ]}
      chosen="30"
    />
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
        <Select
          label="Which events"
          name="matching"
          of={[
            ["true", "those it would receive with its settings of today"],
            ["false", "all events of its tenant"],
          ]}
        />
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
