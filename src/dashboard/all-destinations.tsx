/** Every destination, page by page: for whoever has more than the overview shows. */
import type { Hono } from "hono";
import { seeAll } from "../metrics/fleet.ts";
import { listDestinations } from "../store/destinations.ts";
import type { DashboardEnv } from "./context.ts";
import { DestinationTable } from "./destination-table.tsx";
import { healthOf, lookFor } from "./health.ts";
import { showPage } from "./layout.tsx";

const PATH = "/dashboard/destinations";
const PAGE = 50;

export function registerAllDestinations(app: Hono<DashboardEnv>): void {
  app.get(PATH, async (c) => {
    const services = c.get("services");
    const { tenant } = c.get("visitor").principal;
    const after = c.req.query("after");
    const rows = await listDestinations(services.db, { tenant, after, limit: PAGE + 1 });
    const seen = await seeAll(services, rows.slice(0, PAGE), lookFor());
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
