/** The first page, which shows whether a destination needs attention, and the list of all destinations. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { ratesOf, totalOf } from "../../../core/metrics.ts";
import { results } from "../../../core/retry/classify.ts";
import type { StatsWindow } from "../../../core/rollups.ts";
import { createDestination, getDestinations } from "../../../features/destinations/service.ts";
import { shellQuoted } from "../../../features/events/curl.ts";
import {
  COUNTED,
  type Fleet,
  fleetSeries,
  fleetSum,
  readDestinations,
  readFleet,
} from "../../../features/stats/fleet.ts";
import { TrafficChart, TrafficLegend } from "../../ui/charts.tsx";
import {
  DestinationTable,
  deliveriesIn,
  destinationHealthOf,
  destinationsIn,
  figuresQuery,
  type Health,
  type ListView,
  listViewIn,
  needsAttention,
  queryOfView,
  statesOf,
} from "../../ui/destination-table.tsx";
import { countOf, decimalOf, durationOrNone, percentOf, plural } from "../../ui/format.ts";
import {
  ButtonLink,
  Copyable,
  Crumb,
  Figure,
  OutcomeNotice,
  Section,
  WindowTabs,
  windowNamed,
  windowTexts,
} from "../../ui/parts.tsx";
import { showPage, showRefusal } from "../components/layout.tsx";
import { callerOnPage, type DashboardEnv, mayCall } from "../session.ts";

export function registerOverview(app: Hono<DashboardEnv>): void {
  app.get("/dashboard", async (c) => {
    const services = c.get("services");
    const { tenant, principal } = c.get("visitor");
    const window = windowNamed(c.req.query("window"));
    const fleet = await readFleet(services, { tenant }, figuresQuery(window));
    const now = services.now();
    return showPage(
      c,
      { title: "Overview", place: "overview", live: true },
      fleet.total === 0 ? (
        <NoDestinations
          origin={new URL(c.req.url).origin}
          tenant={principal.tenant === undefined ? tenant : undefined}
          mayChange={mayCall(c, createDestination)}
          outcome={c.req.query("done")}
        />
      ) : (
        <Overview
          fleet={fleet}
          healths={fleet.seen.map((seen) => destinationHealthOf(seen, now))}
          window={window}
          view={listViewIn(c.req.query())}
          showTenant={tenant === undefined}
          mayChange={mayCall(c, createDestination)}
          outcome={c.req.query("done")}
        />
      ),
    );
  });
}

type Props = Readonly<{
  fleet: Fleet;
  healths: readonly Health[];
  window: StatsWindow;
  view: ListView;
  showTenant: boolean;
  mayChange: boolean;
  /** The name of what an action has just done. */
  outcome: string | undefined;
}>;

/** Destinations up to which a phone shows their traffic unfolded. */
const FEW = 12;

const Overview: FC<Props> = ({ fleet, healths, window, view, showTenant, mayChange, outcome }) => (
  <>
    <OutcomeNotice name={outcome} />
    <section>
      <h1>{headline(healths, fleet.total > healths.length)}</h1>
      <p class="lede">{backlogText(healths)}</p>
    </section>
    <details class="on-phones column" open={healths.length <= FEW}>
      <summary>Attempts and totals</summary>
      <section aria-labelledby="traffic">
        <div class="head">
          <h2 id="traffic">Attempts</h2>
          <TrafficLegend />
          <WindowTabs at={(other) => overviewAt(view, other)} current={window} />
        </div>
        <TrafficChart series={fleetSeries(fleet, window)} window={window} />
        {fleet.sampled !== fleet.seen && (
          <p class="soft small">{`From a random sample of ${countOf(fleet.sampled.length)} of ${plural(fleet.total, "destination")}.`}</p>
        )}
      </section>
      <Totals fleet={fleet} window={window} />
    </details>
    <section aria-labelledby="destinations">
      <div class="head">
        <h2 id="destinations">Destinations</h2>
        {mayChange && <NewDestinationLink />}
        {healths.length > 1 && <StateTabs healths={healths} view={view} window={window} />}
      </div>
      <DestinationList healths={healths} view={view} window={window} showTenant={showTenant} />
      {fleet.total > healths.length && (
        <p class="pager">
          <span class="soft">{`The ${healths.length} busiest destinations.`}</span>
          <a href={DESTINATIONS}>{`All ${countOf(fleet.total)} destinations`}</a>
        </p>
      )}
    </section>
  </>
);

/** Where the overview is; what is the default is left out. */
function overviewAt(view: ListView, window: StatsWindow | undefined): string {
  const query = new URLSearchParams({
    ...queryOfView(view),
    ...(window && window !== windowNamed(undefined) && { window }),
  });
  return query.size === 0 ? "/dashboard" : `/dashboard?${query}`;
}

type ListProps = Pick<Props, "healths" | "view" | "window">;

const StateTabs: FC<ListProps> = ({ healths, view, window }) => (
  <nav class="tabs states" aria-label="States">
    {[{ state: undefined, title: "All", count: healths.length }, ...statesOf(healths)].map((one) => (
      <a
        href={overviewAt({ ...view, state: one.state }, window)}
        {...(one.state === view.state && { "aria-current": "true" })}
      >
        {`${one.title} ${countOf(one.count)}`}
      </a>
    ))}
  </nav>
);

const DestinationList: FC<ListProps & Pick<Props, "showTenant">> = ({
  healths,
  view,
  window,
  showTenant,
}) => {
  const shown = destinationsIn(healths, view);
  if (shown.length === 0) return <p class="empty">No destination is in this state now.</p>;
  const sorting = { view, at: (other: ListView) => overviewAt(other, window) };
  return <DestinationTable healths={shown} showTenant={showTenant} sorting={sorting} />;
};

/** @param areMore whether there are destinations that are not shown */
function headline(healths: readonly Health[], areMore: boolean): string {
  const troubled = healths.filter(needsAttention).length;
  if (areMore && troubled === 0) return `None of the ${healths.length} busiest destinations needs attention`;
  if (troubled === 0) return "No destination needs attention";
  const verb = troubled === 1 ? "needs" : "need";
  if (areMore) return `${troubled} of the ${healths.length} busiest destinations ${verb} attention`;
  if (troubled === healths.length && troubled > 1) return `All ${troubled} destinations need attention`;
  return `${troubled} of ${plural(healths.length, "destination")} ${verb} attention`;
}

function backlogText(healths: readonly Health[]): string {
  const waiting = healths.reduce((sum, { depth }) => sum + depth.waiting, 0);
  if (waiting === 0) return "The backlog is empty. New events are sent within seconds.";
  const prefix = healths.some(({ depth }) => depth.waiting >= COUNTED) ? "More than " : "";
  return `${prefix}${plural(waiting, "delivery is", "deliveries are")} waiting in the backlog. Waiting uses up no attempts.`;
}

const Totals: FC<{ fleet: Fleet; window: StatsWindow }> = ({ fleet, window }) => {
  const sum = fleetSum(fleet, window);
  const { retryRatio, latencyP95Ms } = ratesOf(sum);
  const attempts = totalOf(sum.attempts);
  const succeeded = sum.results[results.indexOf("2xx")] ?? 0;
  const total = (pick: (one: Fleet["seen"][number]) => number) =>
    fleet.seen.reduce((n, one) => n + pick(one), 0);
  const dead = total(({ depth }) => depth.dead);
  return (
    <section aria-label={`Figures of the last ${windowTexts[window].long}`}>
      <dl class="figures">
        <Figure name="Attempts" value={countOf(attempts)} />
        <Figure name="Succeeded" value={percentOf(succeeded, attempts)} />
        <Figure name="Retry ratio" value={decimalOf(retryRatio)} />
        <Figure name="p95 latency" value={durationOrNone(latencyP95Ms)} />
        <Figure name="In flight" value={countOf(total(({ figures }) => figures?.view.inFlight ?? 0))} />
        <Figure
          name="Waiting"
          value={countOf(total(({ depth }) => depth.waiting))}
          href={deliveriesIn("waiting")}
        />
        <Figure
          name="Dead"
          value={countOf(dead)}
          tone={dead > 0 ? "bad" : undefined}
          href={deliveriesIn("dead")}
        />
      </dl>
    </section>
  );
};

const NewDestinationLink: FC = () => (
  <ButtonLink href="/dashboard/destinations/new">New destination</ButtonLink>
);

type NoneProps = Readonly<{
  origin: string;
  /** The tenant that was chosen, which has none. */
  tenant: string | undefined;
  mayChange: boolean;
  outcome: string | undefined;
}>;

/** Shown while there is no destination: what to do next, for whoever may do it. */
const NoDestinations: FC<NoneProps> = ({ origin, tenant, mayChange, outcome }) => (
  <>
    <OutcomeNotice name={outcome} />
    <section>
      <h1 class="break">{`No destinations yet${tenant === undefined ? "" : ` in ${tenant}`}`}</h1>
      <p class="lede">
        {mayChange
          ? "Create a destination, which is a URL that receives events, and post an event. Both appear on this page at once."
          : "Nothing is sent until somebody with a key that has the scope admin creates a destination. Your key can only read."}
      </p>
    </section>
    {mayChange && <FirstSteps origin={origin} tenant={tenant} />}
  </>
);

/** The two requests that lead to a first delivery. */
const FirstSteps: FC<Pick<NoneProps, "origin" | "tenant">> = ({ origin, tenant }) => (
  <>
    <section aria-labelledby="first">
      <div class="head">
        <h2 id="first">1. Create a destination</h2>
        <ButtonLink href="/dashboard/destinations/new">Use a form instead</ButtonLink>
      </div>
      <Copyable
        id="create"
        label="The command that creates a destination"
        text={`curl ${origin}/v1/destinations \\\n  -H "Authorization: Bearer $BREAKWATER_KEY" \\\n  --json ${shellQuoted(JSON.stringify({ url: "https://example.com/webhooks", tenant }))}`}
      />
    </section>
    <Section id="second" title="2. Send the first event">
      <Copyable
        id="send"
        label="The command that sends the first event"
        text={`curl ${origin}/v1/events \\\n  -H "Authorization: Bearer $BREAKWATER_KEY" \\\n  --json ${shellQuoted(JSON.stringify({ type: "order.created", data: { order: 42 }, tenant }))}`}
      />
    </Section>
  </>
);

const DESTINATIONS = "/dashboard/destinations";
const PAGE_SIZE = 50;

export function registerAllDestinations(app: Hono<DashboardEnv>): void {
  app.get(DESTINATIONS, async (c) => {
    const services = c.get("services");
    const { tenant } = c.get("visitor");
    const after = c.req.query("after");
    const listed = await getDestinations(callerOnPage(c), { tenant, after, limit: PAGE_SIZE + 1 });
    if (listed.kind !== "ok") return showRefusal(c, listed, "/dashboard");
    const rows = listed.value;
    const seen = await readDestinations(services, rows.slice(0, PAGE_SIZE), figuresQuery());
    const now = services.now();
    return showPage(
      c,
      { title: "All destinations", live: true },
      <AllDestinations
        healths={seen.map((one) => destinationHealthOf(one, now))}
        isFirst={after === undefined}
        next={rows.length > PAGE_SIZE ? rows[PAGE_SIZE - 1]?.id : undefined}
        showTenant={tenant === undefined}
        mayChange={mayCall(c, createDestination)}
      />,
    );
  });
}

type AllProps = Readonly<{
  healths: readonly Health[];
  isFirst: boolean;
  /** The id after which the next page starts. */
  next: string | undefined;
  showTenant: boolean;
  mayChange: boolean;
}>;

function emptyText(isFirst: boolean, mayChange: boolean): string {
  if (!isFirst) return "No more destinations.";
  return mayChange
    ? "No destinations yet. Create the first one with New destination."
    : "No destinations yet. Somebody with a key that has the scope admin, or with the role configure, creates them.";
}

const AllDestinations: FC<AllProps> = ({ healths, isFirst, next, showTenant, mayChange }) => (
  <section>
    <Crumb href="/dashboard">Overview</Crumb>
    <div class="head">
      <h1>All destinations</h1>
      {mayChange && <NewDestinationLink />}
    </div>
    {healths.length === 0 ? (
      <p class="empty">{emptyText(isFirst, mayChange)}</p>
    ) : (
      <DestinationTable healths={healths} showTenant={showTenant} />
    )}
    <p class="pager">
      {!isFirst && <a href={DESTINATIONS}>First page</a>}
      {next !== undefined && <a href={`${DESTINATIONS}?after=${next}`}>Next page</a>}
    </p>
  </section>
);
