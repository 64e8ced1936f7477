/** The first page: is everything well, and where not. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { type Fleet, fleetSeries, fleetSum, readFleet } from "../metrics/fleet.ts";
import { totalOf } from "../policy/histogram.ts";
import { ratesOf } from "../policy/rates.ts";
import { results } from "../policy/sample.ts";
import type { StatsWindow } from "../policy/stats-window.ts";
import type { DashboardEnv } from "./context.ts";
import { DestinationTable } from "./destination-table.tsx";
import { countOf, decimalOf, percentOf, plural, spanIfAny } from "./figures.ts";
import { FirstSteps } from "./first-steps.tsx";
import { byUrgency, COUNTED, type Health, healthOf, lookFor, needsAttention } from "./health.ts";
import { showPage } from "./layout.tsx";
import { Figure } from "./parts.tsx";
import { TrafficChart, TrafficLegend } from "./traffic-chart.tsx";
import { WindowTabs, windowNamed, windowWords } from "./window-tabs.tsx";

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
