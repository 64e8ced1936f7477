/** The first page: is everything well, and where not. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { ratesOf, results, totalOf } from "../../core/metrics.ts";
import type { StatsWindow } from "../../core/rollups.ts";
import { listDestinations } from "../../db/destinations.ts";
import { type Fleet, fleetSeries, fleetSum, readDestinations, readFleet } from "../../metrics/fleet.ts";
import { TrafficChart, TrafficLegend } from "../components/charts.tsx";
import { DestinationTable } from "../components/destination-table.tsx";
import { showPage } from "../components/layout.tsx";
import { Copyable, Figure, WindowTabs, windowNamed, windowWords } from "../components/parts.tsx";
import { byUrgency, COUNTED, type Health, healthOf, lookFor, needsAttention } from "../destination-health.ts";
import { countOf, decimalOf, percentOf, plural, spanIfAny } from "../format.ts";
import type { DashboardEnv } from "../session.ts";

// §§ What an empty Breakwater shows: the two requests that make it one that is not.

const FirstSteps: FC<{ origin: string }> = ({ origin }) => (
  <>
    <section>
      <h1>Nothing is delivered yet.</h1>
      <p class="lede">
        Name an address that is to receive events, then post one. This page shows both as soon as they are
        there.
      </p>
    </section>
    <section aria-labelledby="first">
      <div class="head">
        <h2 id="first">1. Create a destination</h2>
        <a class="button" href="/dashboard/destinations/new">
          Or fill in a form
        </a>
      </div>
      <Copyable
        id="create"
        label="The command that creates a destination"
        text={`curl ${origin}/v1/destinations \\\n  -H "Authorization: Bearer $BREAKWATER_KEY" \\\n  --json '{"url": "https://example.com/webhooks"}'`}
      />
    </section>
    <section aria-labelledby="second">
      <div class="head">
        <h2 id="second">2. Send the first event</h2>
      </div>
      <Copyable
        id="send"
        label="The command that sends the first event"
        text={`curl ${origin}/v1/events \\\n  -H "Authorization: Bearer $BREAKWATER_KEY" \\\n  --json '{"type": "order.created", "data": {"order": 42}}'`}
      />
    </section>
  </>
);

export function registerOverview(app: Hono<DashboardEnv>): void {
  app.get("/dashboard", async (c) => {
    const services = c.get("services");
    const { tenant, scopes } = c.get("visitor").principal;
    const window = windowNamed(c.req.query("window"));
    const fleet = await readFleet(services, { tenant }, lookFor(window));
    const now = services.now();
    const healths = fleet.seen.map((seen) => healthOf(seen, now)).toSorted(byUrgency);
    return showPage(
      c,
      { title: "Overview", place: "overview", live: true },
      fleet.total === 0 ? (
        <FirstSteps origin={new URL(c.req.url).origin} />
      ) : (
        <Overview
          fleet={fleet}
          healths={healths}
          window={window}
          showTenant={tenant === undefined}
          mayChange={scopes.includes("admin")}
        />
      ),
    );
  });
}

type Props = Readonly<{
  fleet: Fleet;
  /** The most urgent first. */
  healths: readonly Health[];
  window: StatsWindow;
  showTenant: boolean;
  mayChange: boolean;
}>;

const Overview: FC<Props> = ({ fleet, healths, window, showTenant, mayChange }) => (
  <>
    <section>
      <h1>{headline(healths, fleet.total > healths.length)}</h1>
      <p class="lede">{subline(healths)}</p>
    </section>
    <section aria-labelledby="traffic">
      <div class="head">
        <h2 id="traffic">Attempts</h2>
        <TrafficLegend />
        <WindowTabs path="/dashboard" current={window} />
      </div>
      <TrafficChart series={fleetSeries(fleet, window)} window={window} />
      {fleet.sampled !== fleet.seen && (
        <p class="soft small">{`Of ${plural(fleet.sampled.length, "destination")} chosen by chance among ${countOf(fleet.total)}.`}</p>
      )}
    </section>
    <Totals fleet={fleet} window={window} />
    <section aria-labelledby="destinations">
      <div class="head">
        <h2 id="destinations">Destinations</h2>
        {mayChange && (
          <a class="button" href="/dashboard/destinations/new">
            New destination
          </a>
        )}
      </div>
      <DestinationTable healths={healths} showTenant={showTenant} />
      {fleet.total > healths.length && (
        <p class="pager">
          <span class="soft">{`The ${healths.length} in which something goes on.`}</span>
          <a href="/dashboard/destinations">{`All ${countOf(fleet.total)} destinations`}</a>
        </p>
      )}
    </section>
  </>
);

/** The answer to the only question that one opens this page with. */
function headline(healths: readonly Health[], areMore: boolean): string {
  const troubled = healths.filter(needsAttention).length;
  if (areMore && troubled === 0) return `None of the ${healths.length} busiest destinations needs attention.`;
  if (areMore) return `${troubled} of the ${healths.length} busiest destinations need attention.`;
  if (troubled === 0) return healths.length === 1 ? "The door is open." : "All doors are open.";
  if (troubled === healths.length && troubled > 1) return `All ${troubled} destinations need attention.`;
  return `${troubled} of ${plural(healths.length, "destination")} ${troubled === 1 ? "needs" : "need"} attention.`;
}

function subline(healths: readonly Health[]): string {
  const waiting = healths.reduce((sum, { depth }) => sum + depth.waiting, 0);
  if (waiting === 0) return "Nothing waits. What is posted goes out within seconds.";
  const counted = healths.some(({ depth }) => depth.waiting >= COUNTED) ? "More than " : "";
  return `${counted}${plural(waiting, "delivery", "deliveries")} ${waiting === 1 ? "waits" : "wait"} for a door to open. They use up no attempts, and go out from one at a time when it does.`;
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
    <section aria-label={`Figures of the last ${windowWords[window].long}`}>
      <dl class="figures">
        <Figure name="Attempts" value={countOf(attempts)} />
        <Figure name="Succeeded" value={percentOf(succeeded, attempts)} />
        <Figure name="Retries per first" value={decimalOf(retryRatio)} />
        <Figure name="95 % take at most" value={spanIfAny(latencyP95Ms)} />
        <Figure name="In flight" value={countOf(total(({ figures }) => figures?.view.inFlight ?? 0))} />
        <Figure name="Waiting" value={countOf(total(({ depth }) => depth.waiting))} />
        <Figure name="Dead" value={countOf(dead)} tone={dead > 0 ? "bad" : undefined} />
      </dl>
    </section>
  );
};

// §§ Every destination, page by page: for whoever has more than the overview shows.

const PATH = "/dashboard/destinations";
const PAGE = 50;

export function registerAllDestinations(app: Hono<DashboardEnv>): void {
  app.get(PATH, async (c) => {
    const services = c.get("services");
    const { tenant } = c.get("visitor").principal;
    const after = c.req.query("after");
    const rows = await listDestinations(services.db, { tenant, after, limit: PAGE + 1 });
    const seen = await readDestinations(services, rows.slice(0, PAGE), lookFor());
    const now = services.now();
    const next = rows.length > PAGE ? rows[PAGE - 1]?.id : undefined;
    return showPage(
      c,
      { title: "All destinations", live: true },
      <section>
        <p class="crumb">
          <a href="/dashboard">Overview</a>
        </p>
        <h1>All destinations</h1>
        {seen.length === 0 ? (
          <p class="empty">{after === undefined ? "There is none yet." : "There are no more."}</p>
        ) : (
          <DestinationTable
            healths={seen.map((one) => healthOf(one, now))}
            showTenant={tenant === undefined}
          />
        )}
        <p class="pager">
          {after !== undefined && <a href={PATH}>From the first</a>}
          {next !== undefined && <a href={`${PATH}?after=${next}`}>More</a>}
        </p>
      </section>,
    );
  });
}
