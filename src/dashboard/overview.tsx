/** The first page: is everything well, and where not. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { listDestinations } from "../store/destinations.ts";
import type { DashboardEnv } from "./context.ts";
import { DestinationTable } from "./destination-table.tsx";
import { countOf, decimalOf, percentOf, plural } from "./figures.ts";
import { FirstSteps } from "./first-steps.tsx";
import { byUrgency, COUNTED, type Health, healthOf, needsAttention } from "./health.ts";
import { showPage } from "./layout.tsx";
import { Figure } from "./parts.tsx";
import { trafficOf } from "./traffic.ts";
import { TrafficChart, TrafficLegend } from "./traffic-chart.tsx";

/** As many gates are looked at for one page. */
const PAGE = 50;

export function registerOverview(app: Hono<DashboardEnv>): void {
  app.get("/dashboard", async (c) => {
    const services = c.get("services");
    const { tenant, scopes } = c.get("visitor").principal;
    const after = c.req.query("after");
    const rows = await listDestinations(services.db, { tenant, after, limit: PAGE + 1 });
    const healths = await healthOf(services, rows.slice(0, PAGE));
    const next = rows.length > PAGE ? rows[PAGE - 1]?.id : undefined;
    const frame = { title: "Overview", place: "overview", live: true } as const;
    const isEmpty = rows.length === 0 && after === undefined;
    const origin = new URL(c.req.url).origin;
    return showPage(
      c,
      frame,
      isEmpty ? (
        <FirstSteps origin={origin} />
      ) : (
        <Overview
          healths={healths}
          now={services.now()}
          showTenant={tenant === undefined}
          mayChange={scopes.includes("admin")}
          {...(next && { next })}
        />
      ),
    );
  });
}

type Props = Readonly<{
  healths: readonly Health[];
  now: number;
  showTenant: boolean;
  mayChange: boolean;
  next?: string;
}>;

const Overview: FC<Props> = ({ healths, now, showTenant, mayChange, next }) => (
  <>
    <section class="stackless">
      <h1>{headline(healths)}</h1>
      <p class="lede">{subline(healths)}</p>
    </section>
    <Totals healths={healths} />
    <section aria-labelledby="traffic">
      <div class="head">
        <h2 id="traffic">Attempts by the minute</h2>
        <TrafficLegend />
      </div>
      <TrafficChart
        bars={trafficOf(
          healths.map(({ view }) => view),
          now,
        )}
      />
    </section>
    <section aria-labelledby="destinations">
      <div class="head">
        <h2 id="destinations">Destinations</h2>
        {mayChange && (
          <a class="button" href="/dashboard/destinations/new">
            New destination
          </a>
        )}
      </div>
      <DestinationTable healths={healths.toSorted(byUrgency)} now={now} showTenant={showTenant} />
      {next !== undefined && (
        <p class="pager">
          <a href={`/dashboard?after=${next}`}>More destinations</a>
        </p>
      )}
    </section>
  </>
);

/** The answer to the only question that one opens this page with. */
function headline(healths: readonly Health[]): string {
  const troubled = healths.filter(needsAttention).length;
  if (troubled === 0) return healths.length === 1 ? "The door is open." : "All doors are open.";
  if (troubled === healths.length && troubled > 1) return `All ${troubled} destinations need attention.`;
  return `${troubled} of ${plural(healths.length, "destination")} ${troubled === 1 ? "needs" : "need"} attention.`;
}

function subline(healths: readonly Health[]): string {
  const waiting = healths.reduce((sum, { backlog }) => sum + backlog.waiting, 0);
  if (waiting === 0) return "Nothing waits. What is posted goes out within seconds.";
  const counted = healths.some(({ backlog }) => backlog.waiting >= COUNTED) ? "More than " : "";
  return `${counted}${plural(waiting, "delivery", "deliveries")} ${waiting === 1 ? "waits" : "wait"} for a door to open. They use up no attempts, and go out from one at a time when it does.`;
}

const Totals: FC<{ healths: readonly Health[] }> = ({ healths }) => {
  const total = (pick: (health: Health) => number) => healths.reduce((sum, health) => sum + pick(health), 0);
  const first = total(({ view }) => view?.traffic.first ?? 0);
  const retries = total(({ view }) => view?.traffic.retries ?? 0);
  const failures = total(({ view }) => view?.traffic.failures ?? 0);
  const dead = total(({ backlog }) => backlog.dead);
  return (
    <section aria-label="The last 15 minutes">
      <dl class="figures">
        <Figure name="Attempts, 15 min" value={countOf(first + retries)} />
        <Figure name="Succeeded" value={percentOf(first + retries - failures, first + retries)} />
        <Figure name="Retries per first" value={decimalOf(retries / Math.max(1, first))} />
        <Figure name="In flight" value={countOf(total(({ view }) => view?.inFlight ?? 0))} />
        <Figure name="Waiting" value={countOf(total(({ backlog }) => backlog.waiting))} />
        <Figure name="Dead" value={countOf(dead)} tone={dead > 0 ? "bad" : undefined} />
      </dl>
    </section>
  );
};
