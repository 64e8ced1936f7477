/** One destination: its door and why it stands as it does, what it may take, and all that was sent to it. */
import type { Hono } from "hono";
import { readFleet } from "../metrics/fleet.ts";
import { listReplays } from "../store/replays.ts";
import type { DashboardContext, DashboardEnv } from "./context.ts";
import { DestinationPage } from "./destination-page.tsx";
import { nameOf } from "./destination-table.tsx";
import type { Form } from "./form-fields.ts";
import { healthOf, lookFor } from "./health.ts";
import type { Refused } from "./inside.ts";
import { showPage } from "./layout.tsx";
import { type LogState, logStates, readLog } from "./message-log.ts";
import { nothingHere } from "./nothing.tsx";
import { windowNamed } from "./window-tabs.tsx";

export function registerDestination(app: Hono<DashboardEnv>): void {
  app.get("/dashboard/destinations/:id", (c) => showDestination(c, c.req.param("id")));
}

/** What a person wanted of it and did not get: shown above the page, with what was typed still there. */
type Attempted = Readonly<{ refused: Refused; typed?: Form }>;

const REPLAYS = 3;

export async function showDestination(c: DashboardContext, id: string, attempted?: Attempted) {
  const services = c.get("services");
  const { tenant, scopes } = c.get("visitor").principal;
  const window = windowNamed(c.req.query("window"));
  const asked = { state: stateOf(c.req.query("state")), before: c.req.query("before") };
  const latest = { tenant, destinationId: id, state: undefined, before: undefined, limit: REPLAYS };
  const fleet = await readFleet(services, { tenant, destination: id }, lookFor(window));
  const seen = fleet.seen[0];
  if (seen === undefined) return nothingHere(c);
  const [log, { replays }] = await Promise.all([readLog(services, id, asked), listReplays(services, latest)]);
  const now = services.now();
  return showPage(
    c,
    { title: nameOf(seen.row), live: attempted === undefined },
    <DestinationPage
      health={healthOf(seen, now)}
      window={window}
      log={log}
      replays={replays}
      now={now}
      mayChange={scopes.includes("admin")}
      done={c.req.query("done")}
      {...attempted}
    />,
    attempted ? 422 : 200,
  );
}

function stateOf(given: string | undefined): LogState {
  return logStates.find((state) => state === given) ?? "all";
}
