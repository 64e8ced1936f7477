/** The page of one destination: its status and the reason for it, its traffic, settings, replays and deliveries. */
import type { Child, FC } from "hono/jsx";
import { type StatsWindow, spans } from "../../../core/rollups.ts";
import { canCertify } from "../../../delivery/certification.ts";
import { isPolled } from "../../../delivery/kinds/sending.ts";
import { repairDeliveries } from "../../../features/deliveries/repairs.ts";
import { historyOf } from "../../../features/destinations/health.ts";
import { pauseDestination, updateDestination } from "../../../features/destinations/service.ts";
import { getKeys } from "../../../features/keys/service.ts";
import { startReplay } from "../../../features/replays/service.ts";
import { COUNTED, readFleet } from "../../../features/stats/fleet.ts";
import { type Destination, limitsOf } from "../../../store/destination.ts";
import type { Replay } from "../../../store/replays.ts";
import { TrafficSection } from "../../ui/charts.tsx";
import { DeliveryLog, type LogPage } from "../../ui/delivery-log.tsx";
import { BlockedKeys, Consumers, readParts } from "../../ui/destination-parts.tsx";
import {
  deliveriesIn,
  destinationHealthOf,
  figuresQuery,
  type Health,
  nameOf,
  shortUrl,
} from "../../ui/destination-table.tsx";
import { FieldForm, type RefusedForm } from "../../ui/fields.tsx";
import { addressOf, atMost, countOf, decimalOf, durationOrNone, type Form, textIn } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import {
  Banner,
  ButtonLink,
  FigureList,
  Fold,
  OutcomeNotice,
  Press,
  RefusedNotice,
  Section,
  Select,
  Top,
  windowNamed,
} from "../../ui/parts.tsx";
import { isUnderWay, ReplayProgress } from "../../ui/replay-progress.tsx";
import type { StatusText } from "../../ui/status-text.ts";
import { TransformSummary } from "../../ui/transform-page.tsx";
import { CircuitHistory, CircuitTimeline, interruptionsOf } from "../components/circuit-history.tsx";
import { LimitsForm, RetryPolicySummary, Rotation, Sending } from "../components/destination-settings.tsx";
import { showNotFound, showPage } from "../components/layout.tsx";
import { callerOnPage, type Dashboard, type DashboardContext, mayCall } from "../session.ts";
import { Pickable, RepairLinks } from "./repair.tsx";

export function registerDestination(app: Dashboard): void {
  app.get("/dashboard/destinations/:id", (c) => showDestination(c, c.req.param("id")));
}

/** A form of the page that was refused: it is shown again with what was typed. */
type RefusedPart = Required<RefusedForm> & Readonly<{ of: "limits" | "rotation" | "replay" }>;

export async function showDestination(c: DashboardContext, id: string, form?: RefusedPart) {
  const services = c.get("services");
  const { tenant } = c.get("visitor");
  const window = windowNamed(c.req.query("window"));
  const fleet = await readFleet(services, { tenant, destination: id }, figuresQuery(window));
  const seen = fleet.seen[0];
  if (seen === undefined) return showNotFound(c);
  const now = services.now();
  const health = destinationHealthOf(seen, now);
  const { row, figures, status, depth } = health;
  const parts = await readParts(callerOnPage(c), row, tenant, c.req.query());
  const { blocked, consumers } = parts;
  const refused = form?.refused;
  const typedIn = (of: RefusedPart["of"]) => (form?.of === of ? form.typed : undefined);
  const path = `/dashboard/destinations/${row.id}`;
  const mayRepair = mayCall(c, pauseDestination);
  const skip = (delivery: string) => <Press action={`/dashboard/deliveries/${delivery}/skip`} label="Skip" />;
  const lede = (
    <>
      {row.description !== null && `${shortUrl(row.url)} · `}
      {`${row.eventTypes === null ? "All events" : row.eventTypes.join(", ")} of tenant ${row.tenant}\u00a0· `}
      <code>{row.id}</code>
    </>
  );
  return showPage(
    c,
    { title: nameOf(row), live: form === undefined, refused },
    <>
      <Top crumb={["/dashboard", "Overview"]} title={nameOf(row)} lede={lede} />
      {form && form.of !== "limits" ? (
        <RefusedNotice refused={form.refused} />
      ) : (
        <OutcomeNotice name={c.req.query("done")} />
      )}
      <StatusPanel status={status} />
      {mayRepair && <Actions path={path} row={row} isHeld={(figures?.view.heldUntil ?? 0) > now} />}
      <CurrentFigures health={health} />
      {mayRepair && depth.waiting > 0 && <CancelWaiting path={path} waiting={depth.waiting} />}
      <TrafficSection
        series={figures?.windows[window]?.series ?? []}
        window={window}
        at={(other) => addressOf(path, { window: other })}
      >
        <Blocked health={health} window={window} />
      </TrafficSection>
      <div class="columns">
        <div class="column">
          <CircuitHistory history={historyOf(row, figures?.view ?? { history: [] })} />
          <DeadLetters path={path} replays={parts.replays} dead={depth.dead} typed={typedIn("replay")} />
        </div>
        <div class="column">
          <Sending row={row} />
          <TransformSummary row={row} path={path} faults={parts.transformFaults} />
          <LimitsForm row={row} path={path} typed={typedIn("limits")} refused={refused} />
          <RetryPolicySummary row={row} />
          {mayCall(c, updateDestination) && <Rotation path={path} row={row} typed={typedIn("rotation")} />}
        </div>
      </div>
      {blocked && <BlockedKeys page={blocked} action={mayRepair ? { title: "Skip", of: skip } : undefined} />}
      {consumers && (
        <Consumers list={consumers}>
          {mayCall(c, getKeys) && (
            <p>
              <a href={`/dashboard/keys?destination=${row.id}`}>Keys that poll only this destination</a>
            </p>
          )}
        </Consumers>
      )}
      <DestinationLog path={path} id={row.id} page={parts.deliveries} />
    </>,
  );
}

/** Screen readers announce a change of the state, but not the countdown, which would interrupt all the time. */
const StatusPanel: FC<{ status: StatusText }> = ({ status: { tone, label, text, reason, hint } }) => (
  <Banner
    label="Status"
    tone={tone}
    title={
      <>
        <strong>{text}</strong>
        {reason === undefined ? "." : `: ${reason}.`}
      </>
    }
  >
    {hint !== undefined && <p>{hint}</p>}
    <output class="hidden">{label}</output>
  </Banner>
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
  <Fold title="Cancel the backlog">
    <FieldForm action={`${path}/cancel-waiting`} submit="Cancel waiting deliveries" button="">
      <p class="hint">
        {`${atMost(waiting, COUNTED)} ${waiting === 1 ? "delivery waits" : "deliveries wait"}. Cancelling them ends them without further attempts. Deliveries in flight or retrying are not affected.`}
      </p>
    </FieldForm>
  </Fold>
);

const CurrentFigures: FC<{ health: Health }> = ({ health: { row, figures, depth, rates } }) => (
  <section aria-label="Current figures">
    <FigureList
      of={[
        ["In flight", countOf(figures?.view.inFlight ?? 0), { unit: `of ${limitsOf(row).max_concurrency}` }],
        ["Allowed at once", countOf(figures?.view.window ?? 0)],
        ["Waiting", atMost(depth.waiting, COUNTED), { href: deliveriesIn("waiting", row.id) }],
        ["Retrying", countOf(depth.retrying), { href: deliveriesIn("retrying", row.id) }],
        ["Dead", atMost(depth.dead, COUNTED), { isBad: depth.dead > 0, href: deliveriesIn("dead", row.id) }],
        ["Retry ratio", decimalOf(rates.retryRatio), { isBad: figures?.view.traffic.storm }],
        ["p95 latency", durationOrNone(rates.latencyP95Ms)],
      ]}
    />
  </section>
);

/** The interruptions of the destination, below its attempts. */
const Blocked: FC<{ health: Health; window: StatsWindow }> = ({ health: { row, figures }, window }) => {
  const { now } = usePage();
  const series = figures?.windows[window]?.series ?? [];
  const since = series[0]?.at ?? now;
  return figures && series.length > 0 ? (
    <CircuitTimeline
      interruptions={interruptionsOf({ history: figures.view.history, row }, since, now)}
      since={since}
      until={since + series.length * spans[window].stepMs}
    />
  ) : null;
};

type DeadLettersProps = Readonly<{
  path: string;
  /** The newest first. */
  replays: readonly Replay[];
  dead: number;
  /** The form of a replay, if it was refused. */
  typed: Form | undefined;
}>;

const DeadLetters: FC<DeadLettersProps> = ({ path, replays, dead, typed }) => {
  const mayStart = usePage().mayCall(startReplay) && !replays.some(isUnderWay);
  const isOfMissing = typed?.include === "missing";
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
      {mayStart && dead > 0 && <NewReplay path={path} typed={isOfMissing ? undefined : typed} />}
      {mayStart && <SendMissing path={path} typed={isOfMissing ? typed : undefined} />}
      {replays.map((replay) => (
        <ReplayProgress path={path} replay={replay} />
      ))}
    </Section>
  );
};

type ReplayForm = Readonly<{ path: string; typed: Form | undefined }>;

/** Which events a replay is about, and how fast it begins. */
const ReplayFields: FC<{ typed: Form }> = ({ typed }) => (
  <>
    <Select
      label="Accepted in the last"
      name="days"
      of={[
        ["1", "day"],
        ["7", "7 days"],
        ["30", "30 days"],
      ]}
      chosen={textIn(typed, "days") ?? "30"}
    />
    <label>
      Initial rate (per minute)
      <input
        type="number"
        name="rate_per_minute"
        min={1}
        max={6000}
        value={textIn(typed, "rate_per_minute") ?? "100"}
      />
    </label>
  </>
);

/** Closed at first: it is needed once, after a destination was created or its filter was widened. */
const SendMissing: FC<ReplayForm> = ({ path, typed }) => (
  <Fold title="Send events it never received" open={typed !== undefined}>
    <FieldForm
      action={`${path}/replay`}
      hidden={{ include: "missing" }}
      submit="Send missing events"
      button=""
      hint="Events that already have a delivery to this destination are skipped."
    >
      <div class="fields">
        <ReplayFields typed={typed ?? {}} />
        <Select
          label="Which events"
          name="matching"
          of={[
            ["true", "those it would receive with its current settings"],
            ["false", "all events of its tenant"],
          ]}
          chosen={typed && textIn(typed, "matching")}
        />
      </div>
    </FieldForm>
  </Fold>
);

const NewReplay: FC<ReplayForm> = ({ path, typed = {} }) => (
  <FieldForm
    action={`${path}/replay`}
    submit="Replay dead letters"
    button=""
    hint="The replay slows down when the receiver does."
  >
    <div class="fields">
      <ReplayFields typed={typed} />
    </div>
  </FieldForm>
);

type LogProps = Readonly<{
  path: string;
  id: string;
  page: LogPage;
}>;

/** The deliveries of the destination; those that are selected can be repaired. */
const DestinationLog: FC<LogProps> = ({ path, id, page }) => {
  const { state, entries } = page;
  const query = new URLSearchParams({ ...(state !== "all" && { state }), destination_id: id });
  const mayPick = usePage().mayCall(repairDeliveries) && entries.length > 0;
  const form = (table: Child) => (
    <Pickable query={query} isOn={mayPick}>
      {table}
    </Pickable>
  );
  return (
    <DeliveryLog path={path} page={page} empty={emptyTexts[state]} mayPick={mayPick} form={form}>
      {mayPick && <RepairLinks query={query} />}
    </DeliveryLog>
  );
};

const emptyTexts: Readonly<Record<LogPage["state"], string>> = {
  all: "No attempts yet. The next event of a type that this destination takes appears here: post one, or send a test event to see whether the receiver answers.",
  queued: "No deliveries are queued for their first attempt.",
  waiting: "No deliveries are waiting.",
  retrying: "No deliveries are retrying.",
  delivered: "No deliveries are delivered.",
  dead: "No deliveries are dead.",
};
