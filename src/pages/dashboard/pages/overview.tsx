/** The first page, which shows whether a destination needs attention, and the list of all destinations. */
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
import { TrafficSection } from "../../ui/charts.tsx";
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
import { addressOf, countOf, decimalOf, durationOrNone, percentOf, plural } from "../../ui/format.ts";
import { usePage } from "../../ui/page.tsx";
import {
  ButtonLink,
  Copyable,
  Crumb,
  FigureList,
  OutcomeNotice,
  Pager,
  Section,
  Tabs,
  Top,
  windowNamed,
  windowTexts,
} from "../../ui/parts.tsx";
import { pageAfter } from "../../ui/services.ts";
import { showPage, showRefusal } from "../components/layout.tsx";
import { callerOnPage, type Dashboard, mayCall } from "../session.ts";

export function registerOverview(app: Dashboard): void {
  app.get("/dashboard", async (c) => {
    const services = c.get("services");
    const { tenant, principal } = c.get("visitor");
    const window = windowNamed(c.req.query("window"));
    const fleet = await readFleet(services, { tenant }, figuresQuery(window));
    return showPage(
      c,
      { title: "Overview", place: "overview", live: true },
      <>
        <OutcomeNotice name={c.req.query("done")} />
        {fleet.total === 0 ? (
          <NoDestinations
            origin={new URL(c.req.url).origin}
            tenant={principal.tenant === undefined ? tenant : undefined}
          />
        ) : (
          <Overview
            fleet={fleet}
            window={window}
            view={listViewIn(c.req.query())}
            showTenant={tenant === undefined}
          />
        )}
      </>,
    );
  });

  app.get(DESTINATIONS, async (c) => {
    const services = c.get("services");
    const { tenant } = c.get("visitor");
    const listed = await pageAfter(
      c.req.query("after"),
      PAGE_SIZE,
      (page) => getDestinations(callerOnPage(c), { tenant, ...page }),
      ({ id }) => id,
    );
    if (listed.kind !== "ok") return showRefusal(c, listed, "/dashboard");
    const { rows, ...pager } = listed.value;
    const seen = await readDestinations(services, rows, figuresQuery());
    const now = services.now();
    const empty = pager.isFirst
      ? mayCall(c, createDestination)
        ? "No destinations yet. Create the first one with New destination."
        : "No destinations yet. Creating one needs a key with the scope admin, or the role configure."
      : "No more destinations.";
    return showPage(
      c,
      { title: "All destinations", live: true },
      <section>
        <Crumb href="/dashboard">Overview</Crumb>
        <div class="head">
          <h1>All destinations</h1>
          <NewDestinationLink />
        </div>
        <DestinationTable
          healths={seen.map((one) => destinationHealthOf(one, now))}
          showTenant={tenant === undefined}
          empty={empty}
        />
        <Pager path={DESTINATIONS} {...pager} />
      </section>,
    );
  });
}

type OverviewProps = Readonly<{ fleet: Fleet; window: StatsWindow; view: ListView; showTenant: boolean }>;

/** Destinations up to which a phone shows their traffic unfolded. */
const FEW = 12;

const Overview: FC<OverviewProps> = ({ fleet, window, view, showTenant }) => {
  const { now } = usePage();
  const healths = fleet.seen.map((seen) => destinationHealthOf(seen, now));
  return (
    <>
      <Top title={headline(healths, fleet.total > healths.length)} lede={backlogText(healths)} />
      <details class="on-phones column" open={healths.length <= FEW}>
        <summary>Attempts and totals</summary>
        <TrafficSection
          series={fleetSeries(fleet, window)}
          window={window}
          at={(other) => overviewAt(view, other)}
        >
          {fleet.sampled !== fleet.seen && (
            <p class="soft small">{`From a random sample of ${countOf(fleet.sampled.length)} of ${plural(fleet.total, "destination")}.`}</p>
          )}
        </TrafficSection>
        <Totals fleet={fleet} window={window} />
      </details>
      <Section
        id="destinations"
        title="Destinations"
        aside={
          <>
            <NewDestinationLink />
            {healths.length > 1 && <StateTabs healths={healths} view={view} window={window} />}
          </>
        }
      >
        <DestinationTable
          healths={destinationsIn(healths, view)}
          showTenant={showTenant}
          sorting={{ view, at: (other) => overviewAt(other, window) }}
          empty="No destination is in this state now."
        />
        {fleet.total > healths.length && (
          <p class="pager">
            <span class="soft">{`The ${healths.length} busiest destinations.`}</span>
            <a href={DESTINATIONS}>{`All ${countOf(fleet.total)} destinations`}</a>
          </p>
        )}
      </Section>
    </>
  );
};

/** The address of the overview, without default values. */
function overviewAt(view: ListView, window: StatsWindow | undefined): string {
  const isUsual = window === windowNamed(undefined);
  return addressOf("/dashboard", { ...queryOfView(view), window: isUsual ? undefined : window });
}

const StateTabs: FC<{ healths: readonly Health[]; view: ListView; window: StatsWindow }> = (props) => {
  const { healths, view, window } = props;
  const all = [{ state: undefined, title: "All", count: healths.length }, ...statesOf(healths)];
  const tabs = all.map(({ state, title, count }) => {
    const href = overviewAt({ ...view, state }, window);
    return [href, `${title} ${countOf(count)}`, state === view.state] as const;
  });
  return <Tabs class="states" label="States" of={tabs} />;
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
  const isSending = healths.every(({ status }) => status.until === undefined);
  if (waiting === 0) return `The backlog is empty.${isSending ? " New events are sent within seconds." : ""}`;
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
    <section aria-label={`Totals of the last ${windowTexts[window].long}`}>
      <FigureList
        of={[
          ["Attempts", countOf(attempts)],
          ["Succeeded", percentOf(succeeded, attempts)],
          ["Retry ratio", decimalOf(retryRatio)],
          ["p95 latency", durationOrNone(latencyP95Ms)],
          ["In flight", countOf(total(({ figures }) => figures?.view.inFlight ?? 0))],
          ["Waiting", countOf(total(({ depth }) => depth.waiting)), { href: deliveriesIn("waiting") }],
          ["Dead", countOf(dead), { isBad: dead > 0, href: deliveriesIn("dead") }],
        ]}
      />
    </section>
  );
};

/** For visitors who may create one. */
const NewDestinationLink: FC = () =>
  usePage().mayCall(createDestination) ? (
    <ButtonLink href="/dashboard/destinations/new">New destination</ButtonLink>
  ) : null;

type NoneProps = Readonly<{
  origin: string;
  /** The tenant that was chosen, which has none. */
  tenant: string | undefined;
}>;

/** Shown while there is no destination: the next steps, for visitors who may take them. */
const NoDestinations: FC<NoneProps> = ({ origin, tenant }) => {
  const mayCreate = usePage().mayCall(createDestination);
  return (
    <>
      <Top
        title={`No destinations yet${tenant === undefined ? "" : ` in ${tenant}`}`}
        lede={
          mayCreate
            ? "Create a destination, which is a URL that receives events, and post an event. Both appear on this page at once."
            : "Nothing is sent until a destination is created, which needs a key with the scope admin. Your key can only read."
        }
      />
      {mayCreate && <FirstSteps origin={origin} tenant={tenant} />}
    </>
  );
};

/** The two requests that lead to a first delivery. */
const FirstSteps: FC<NoneProps> = ({ origin, tenant }) => (
  <>
    <Section
      id="first"
      title="1. Create a destination"
      aside={<ButtonLink href="/dashboard/destinations/new">Use a form instead</ButtonLink>}
    >
      <Copyable
        id="create"
        label="The command that creates a destination"
        text={`curl ${origin}/v1/destinations \\\n  -H "Authorization: Bearer $BREAKWATER_KEY" \\\n  --json ${shellQuoted(JSON.stringify({ url: "https://example.com/webhooks", tenant }))}`}
      />
    </Section>
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
