/**
 * What a look costs when everyone else is there: rows that D1 says it has read, and queries, of every route
 * of the API, every page of the dashboard, a tick of the clock and a scrape, as a tenant's key and as the
 * operator. And every statement that is prepared meanwhile finds what it looks for by an index.
 */
import { env } from "cloudflare:workers";
import { beforeAll, expect, test } from "vitest";
import { createDashboard } from "../../src/dashboard/app.tsx";
import { CROWDED, inviteEveryone } from "../support/everyone-else.ts";
import { operations } from "../support/operations.ts";
import { type Cost, tour } from "../support/tour.ts";

/** Rows read and queries, for the dearer of the two visitors. Of a route that asks gates, the gates are not in it. */
type Ceiling = readonly [rowsRead: number, queries: number];

/** By route and question; `{own}` is a destination of the tenant, `{day}` a time a day ago. */
const ceilings: Readonly<Record<string, Ceiling>> = {
  "GET /v1/health": [20, 1],
  "GET /v1/deliveries": [600, 5],
  "GET /v1/deliveries?state=cancelled": [5_000, 5],
  "GET /v1/deliveries?state=delivered": [5_000, 5],
  "GET /v1/deliveries?state=waiting": [3_000, 5],
  "GET /v1/deliveries?state=retrying": [15_000, 6],
  "GET /v1/deliveries?state=dead": [3_000, 5],
  "GET /v1/deliveries?state=queued": [20_000, 6],
  "GET /v1/deliveries?since={day}&until={hour}": [5_000, 8],
  "GET /v1/deliveries?state=cancelled&since={day}&until={hour}": [5_000, 8],
  "GET /v1/deliveries?status=418": [5_000, 5],
  "GET /v1/deliveries?type=nobody.posts": [5_000, 5],
  "GET /v1/deliveries?destination_id={own}": [600, 5],
  "GET /v1/deliveries?destination_id={own}&state=cancelled": [5_000, 5],
  "GET /v1/deliveries?destination_id={own}&state=retrying": [15_000, 6],
  "GET /v1/deliveries?destination_id={foreign}": [600, 5],
  "GET /v1/deliveries/{id}": [1_100, 3],
  "GET /v1/events/{id}": [6_000, 4],
  "GET /v1/destinations": [200, 2],
  "GET /v1/destinations?tenant=crowded": [200, 2],
  "GET /v1/destinations/{id}": [5, 2],
  "GET /v1/destinations/{id}/health": [2_000, 3],
  "GET /v1/keys": [200, 2],
  "GET /v1/keys/{id}": [5, 2],
  "GET /v1/replays": [200, 2],
  "GET /v1/replays?state=completed": [200, 2],
  "GET /v1/replays?state=paused": [2_000, 2],
  "GET /v1/replays?destination_id={own}": [200, 2],
  "GET /v1/replays?destination_id={own}&state=paused": [200, 2],
  "GET /v1/replays/{id}": [5, 2],
  "GET /v1/stats": [100_000, 12],
  "GET /v1/stats?destination_id={own}": [30_000, 12],
  "GET /metrics": [100_000, 12],
  "POST /v1/events": [8_000, 3],
};

let costs: ReadonlyMap<string, Cost>;
let statements: ReadonlySet<string>;

beforeAll(async () => {
  await inviteEveryone();
  ({ costs, statements } = await tour(Object.keys(ceilings)));
  const lines = [...costs].map(([route, { rowsRead, queries, status }]) => {
    const [mostRows, mostQueries] = ceilings[route] ?? [0, 0];
    return `${route} | ${status} | ${rowsRead} of ${mostRows} | ${queries} of ${mostQueries}`;
  });
  console.log(["route | status | rows read | queries", ...lines].join("\n"));
}, 120_000);

test("measures", () => {});
