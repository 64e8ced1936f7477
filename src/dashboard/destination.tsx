/** One destination: its door and why it stands as it does, what it may take, and all that was sent to it. */
import type { Hono } from "hono";
import { findDestination } from "../store/destinations.ts";
import type { DashboardEnv } from "./context.ts";
import { DestinationPage } from "./destination-page.tsx";
import { nameOf } from "./destination-table.tsx";
import { healthOf } from "./health.ts";
import { showPage } from "./layout.tsx";
import { type LogState, logStates, readLog } from "./message-log.ts";
import { nothingHere } from "./nothing.tsx";

export function registerDestination(app: Hono<DashboardEnv>): void {
  app.get("/dashboard/destinations/:id", async (c) => {
    const services = c.get("services");
    const { tenant } = c.get("visitor").principal;
    const row = await findDestination(services.db, c.req.param("id"), tenant);
    if (row === undefined) return nothingHere(c);
    const asked = { state: stateOf(c.req.query("state")), before: c.req.query("before") };
    const [[health], log] = await Promise.all([healthOf(services, [row]), readLog(services, row.id, asked)]);
    if (health === undefined) throw new Error("One destination has one health");
    return showPage(
      c,
      { title: nameOf(row), live: true },
      <DestinationPage health={health} log={log} now={services.now()} />,
    );
  });
}

function stateOf(given: string | undefined): LogState {
  return logStates.find((state) => state === given) ?? "all";
}
