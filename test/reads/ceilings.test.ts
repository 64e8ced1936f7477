/**
 * The cost of every route of the API, every page of the dashboard and the portal, and cron in a crowded database: rows
 * that D1 reports as read, and queries, with a tenant's key and the operator's. And every statement that they prepare
 * uses an index.
 */
import { env } from "cloudflare:workers";
import { beforeAll, expect, test } from "vitest";
import { changingTools } from "../../src/http/mcp/changing.ts";
import { eventMethods } from "../../src/http/mcp/events.ts";
import { readingTools } from "../../src/http/mcp/reading.ts";
import { createSvixApi } from "../../src/http/svix/app.ts";
import { createDashboard } from "../../src/pages/dashboard/app.tsx";
import { createPortal } from "../../src/pages/portal/app.tsx";
import { inviteEveryone } from "../support/everyone-else.ts";
import { operations } from "../support/operations.ts";
import { scansIn } from "../support/query-plans.ts";
import { type Cost, tour } from "../support/tour.ts";

/** Requested once more when there are few enough retries to sort them. */
const FEW_RETRIES = "GET /v1/deliveries?state=retrying&limit=100";

/** Most rows read, and most queries, with whichever key costs most. */
type Ceiling = readonly [rowsRead: number, queries: number];

/**
 * By request, in the order of the tour: those that end something come last. `{own}` is a destination of the tenant,
 * `{foreign}` one of another tenant, `{day}` the time a day ago.
 */
const ceilings: Readonly<Record<string, Ceiling>> = {
  "GET /v1/health": [10, 2],
  "GET /v1/destinations/{id}/jwks.json": [2, 1],
  "GET /v1/deliveries": [5_000, 4],
  "GET /v1/deliveries?state=cancelled": [5_000, 3],
  "GET /v1/deliveries?state=delivered": [5_000, 4],
  "GET /v1/deliveries?state=waiting": [5_000, 3],
  "GET /v1/deliveries?state=dead": [5_000, 3],
  "GET /v1/deliveries?state=retrying": [15_000, 4],
  [FEW_RETRIES]: [20_000, 4],
  "GET /v1/deliveries?state=queued": [20_000, 4],
  "GET /v1/deliveries?since={day}&until={hour}": [5_000, 5],
  "GET /v1/deliveries?state=cancelled&since={day}&until={hour}": [5_000, 5],
  "GET /v1/deliveries?status=418": [5_000, 3],
  "GET /v1/deliveries?reason=nothing": [5_000, 3],
  "GET /v1/deliveries?type=nobody.posts": [5_000, 3],
  // One query more where something is older than a day: what is set for its tenant and type.
  "GET /v1/deliveries?destination_id={own}": [500, 5],
  "GET /v1/deliveries?destination_id={own}&state=cancelled": [5_000, 3],
  "GET /v1/deliveries?destination_id={own}&state=retrying": [15_000, 4],
  "GET /v1/deliveries?destination_id={foreign}": [500, 4],
  "GET /v1/deliveries?destination_id={foreign}&state=delivered": [5_000, 4],
  "GET /v1/destinations?tenant=crowded": [100, 1],
  // A hundred lines, each counted up to a hundred.
  "GET /v1/destinations/{id}/blocked-keys": [11_000, 4],
  "GET /v1/replays?state=completed": [2_500, 2],
  "GET /v1/replays?state=paused": [5_000, 2],
  "GET /v1/replays?destination_id={own}": [200, 2],
  "GET /v1/replays?destination_id={foreign}&state=paused": [5_000, 2],
  "GET /v1/stats?destination_id={own}": [50_000, 10],
  "GET /v1/stats?tenant=crowded": [75_000, 12],
  "GET /v1/events/{id}": [6_000, 3],
  "GET /v1/deliveries?order=event": [15_000, 17],
  "GET /v1/deliveries?order=event&state=dead": [15_000, 26],
  "GET /v1/deliveries?order=event&destination_id={foreign}": [15_000, 17],
  // A minute of it: twenty polls, during which nothing new is posted.
  "GET /v1/deliveries/tail": [45, 22],
  "GET /v1/events": [2_300, 3],
  "GET /v1/events?data=true": [2_300, 4],
  "GET /v1/events?type=nobody.posts": [2_300, 2],
  "GET /v1/events?tag=import": [2_300, 2],
  "GET /v1/events?since={day}&until={hour}": [2_300, 4],
  // Where there are hits, three queries for the states of their deliveries.
  "GET /v1/search": [5, 1],
  "GET /v1/search?q=nowhere": [2_500, 9],
  "GET /v1/search?q=order": [2_500, 10],
  "GET /v1/search?q={own}": [5, 1],
  "GET /v1/search?q={foreign}": [2_500, 9],
  "GET /v1/search?q={event}": [10, 3],
  "GET /v1/search?q=dead": [5_000, 7],
  "GET /v1/search?q=status:418": [5_000, 4],
  "GET /v1/destinations": [100, 1],
  "GET /v1/destinations/{id}": [2, 1],
  "GET /v1/destinations/{id}/health": [11_000, 3],
  "GET /v1/destinations/{id}/certification": [5, 2],
  "GET /v1/destinations/{id}/notices": [5, 3],
  // Six rows for each event, and the packs that it passes; one query is for events older than a day: what is set for their
  // tenant and type.
  "GET /v1/destinations/{id}/poll": [700, 7],
  "GET /v1/destinations/{id}/poll/consumers": [2_100, 2],
  "GET /v1/deliveries/{id}": [1_100, 1],
  "GET /v1/deliveries/{id}/attempts/{at}": [1_200, 2],
  "GET /v1/keys": [60, 1],
  "GET /v1/keys/{id}": [2, 1],
  "GET /v1/replays": [150, 1],
  "GET /v1/replays/{id}": [2, 1],
  "GET /v1/stats": [75_000, 12],
  "GET /metrics": [75_000, 14],
  "GET /dashboard": [50_000, 12],
  "GET /dashboard/destinations": [50_000, 12],
  // The types that it suggests, and those archived before them.
  "GET /dashboard/destinations/new": [510, 2],
  "GET /dashboard/destinations/:id": [30_000, 12],
  "GET /dashboard/destinations/:id?state=retrying": [50_000, 12],
  "GET /dashboard/destinations/:id?state=queued": [50_000, 12],
  "GET /dashboard/events/:id": [6_000, 4],
  "GET /dashboard/deliveries/:id/attempts/:at": [1_200, 3],
  "GET /dashboard/deliveries/:id/attempts/:at/answer": [1_200, 3],
  "GET /dashboard/deliveries": [15_000, 20],
  // With its choices: the ids of a thousand destinations, each looked up in three indexes, and 500 entries of each of
  // five.
  "GET /dashboard/deliveries?state=dead": [8_000, 8],
  "GET /dashboard/deliveries/repair": [2, 1],
  "GET /dashboard/deliveries/repair?action=retry": [15_000, 20],
  "GET /dashboard/deliveries/tail": [50, 24],
  "GET /dashboard/replays": [250, 5],
  "GET /dashboard/replays?estimate=1&destination_id={own}&since={day}&until={hour}": [3_000, 9],
  "GET /dashboard/search": [5, 1],
  "GET /dashboard/search?q=nowhere": [2_500, 11],
  "GET /dashboard/simulator": [150, 3],
  "GET /dashboard/groups": [510, 3],
  "GET /dashboard/groups/limits": [5, 3],
  "GET /dashboard/event-types": [510, 2],
  "GET /dashboard/event-types/new": [2, 1],
  "GET /dashboard/event-types/import": [2, 1],
  "GET /dashboard/event-types/:name/edit": [4, 3],
  "GET /dashboard/event-types/:name/delete": [4, 3],
  "GET /dashboard/event-types/:name/versions": [60, 5],
  "GET /dashboard/destinations/:id/edit": [520, 3],
  "GET /dashboard/destinations/:id/delete": [10, 2],
  "GET /dashboard/destinations/:id/test": [520, 3],
  "GET /dashboard/destinations/:id/certification": [10, 3],
  "GET /dashboard/destinations/:id/notices": [10, 4],
  "GET /dashboard/destinations/:id/transform": [630, 8],
  "GET /dashboard/keys": [110, 3],
  "GET /dashboard/keys/:id/revoke": [10, 3],
  "GET /dashboard/portal-links": [2, 1],
  "GET /dashboard/audit": [110, 3],
  "GET /dashboard/actions": [210, 3],
  "GET /dashboard/actions/:id": [10, 3],
  // Every entry that it exports.
  "GET /dashboard/audit/export": [51_010, 105],
  "GET /dashboard/settings": [10, 3],
  "GET /dashboard/settings/import": [10, 3],
  "GET /dashboard/settings/import?tenant=crowded": [10, 3],
  "GET /dashboard/settings/delete": [10, 3],
  "GET /dashboard/settings/delete?tenant=crowded": [10, 3],
  "GET /dashboard/erasures": [160, 3],
  "GET /dashboard/erasures/:id": [10, 3],
  "GET /dashboard/tenants": [110, 2],
  "GET /v1/groups": [510, 2],
  "GET /v1/groups/{name}": [2, 1],
  "GET /v1/event-types": [510, 1],
  "GET /v1/event-types?archived=true": [100, 1],
  "GET /v1/event-types/{name}": [2, 1],
  "GET /v1/event-types/{name}/versions": [22, 2],
  "GET /v1/event-types/{name}/endpoints": [150, 3],
  // As many events as it tries, among the bundles that a page reads.
  "POST /v1/event-types/{name}/check": [2_500, 54],
  "POST /v1/event-types/import": [1_020, 4],
  "GET /v1/tenants/{tenant}": [2, 1],
  "GET /v1/erasures": [150, 1],
  "GET /v1/erasures/{id}": [2, 1],
  "GET /v1/audit": [110, 1],
  "GET /v1/audit?subject={own}": [110, 1],
  // Every entry that it exports.
  "GET /v1/audit/export": [51_010, 103],
  "GET /v1/deliveries?tag=import&destination_id={own}": [15_000, 16],
  "POST /v1/events": [60, 2],
  "POST /v1/events/batch": [60, 2],
  // A refused one is looked up twice: is the limit reached, or is the tenant named like an application?
  "POST /v1/destinations": [1_010, 2],
  "PATCH /v1/destinations/{id}": [10, 3],
  "POST /v1/destinations/{id}/pause": [20, 7],
  // One query more than to pause: when and why it was paused is read first, for its gate.
  "POST /v1/destinations/{id}/resume": [20, 8],
  "POST /v1/destinations/{id}/clear-hold": [11_000, 2],
  "POST /v1/destinations/{id}/test": [5, 2],
  "POST /v1/destinations/{id}/certification": [10, 4],
  "POST /v1/destinations/{id}/notices/test": [5, 2],
  "POST /v1/destinations/{id}/poll/commit": [2, 1],
  // A search by halves for the position.
  "POST /v1/destinations/{id}/poll/seek": [45, 2],
  "PUT /v1/destinations/{id}/notices": [10, 4],
  "DELETE /v1/destinations/{id}/notices": [10, 4],
  // The newest 2,000 bundles, and the bodies of a hundred at most.
  "POST /v1/destinations/{id}/preview": [2_300, 6],
  "POST /v1/destinations/{id}/transform/preview": [2_300, 20],
  "GET /v1/destinations/{id}/transform/versions": [110, 3],
  "POST /v1/destinations/{id}/transform/restore": [120, 6],
  "POST /v1/destinations/{id}/rotate-secret": [10, 3],
  "POST /v1/rotate-master-key": [200, 5],
  "POST /v1/deliveries/{id}/retry": [1_200, 5],
  "POST /v1/deliveries/retry": [1_200, 5],
  "POST /v1/deliveries/repair": [15_000, 20],
  "POST /v1/deliveries/{id}/cancel": [1_200, 5],
  "POST /v1/deliveries/{id}/skip": [20, 5],
  // Two thousand rows and their bundles, at most; the range of ids is found by a binary search.
  "POST /v1/destinations/{id}/cancel-waiting": [12_000, 60],
  // The change is noted for the isolates that remember keys. The read searches for an application of the Svix API with
  // the tenant's name, here and below.
  "POST /v1/keys": [8, 3],
  // Its entry of the audit trail.
  "POST /v1/portal-links": [6, 2],
  // Every destination of the tenant.
  "GET /v1/tenants/{tenant}/export": [1_010, 5],
  "POST /v1/tenants/{tenant}/import": [2_100, 5],
  "PATCH /v1/tenants/{tenant}": [6, 4],
  "POST /v1/erasures": [10, 3],
  "POST /v1/replays": [500, 10],
  "POST /v1/replays/batch": [500, 10],
  "POST /v1/replays/{id}/pause": [10, 4],
  "POST /v1/replays/{id}/resume": [10, 4],
  "POST /v1/replays/{id}/cancel": [10, 4],
  "POST /dashboard/sign-in": [200, 3],
  // A refused form is shown again, with the types that it suggests.
  "POST /dashboard/destinations/new": [1_520, 4],
  "POST /dashboard/destinations/:id/rotate": [20, 5],
  "POST /dashboard/destinations/:id/pause": [30, 9],
  "POST /dashboard/destinations/:id/resume": [30, 10],
  "POST /dashboard/destinations/:id/clear-hold": [11_000, 4],
  "POST /dashboard/destinations/:id/replay": [30_000, 20],
  "POST /dashboard/destinations/:id/replays/:replay/pause": [10, 6],
  "POST /dashboard/destinations/:id/replays/:replay/resume": [10, 6],
  "POST /dashboard/destinations/:id/replays/:replay/cancel": [10, 6],
  "POST /dashboard/deliveries/:id/retry": [1_200, 7],
  "POST /dashboard/deliveries/:id/cancel": [1_200, 7],
  "POST /dashboard/deliveries/:id/skip": [20, 7],
  "POST /dashboard/replays": [250, 6],
  "POST /dashboard/replays/:id/pause": [10, 6],
  "POST /dashboard/replays/:id/resume": [10, 6],
  "POST /dashboard/replays/:id/cancel": [10, 6],
  "POST /dashboard/deliveries/:id/try-now": [1_200, 7],
  // Three pages, with what is requeued.
  "POST /dashboard/deliveries/repair": [50_000, 70],
  "POST /dashboard/destinations/:id/cancel-waiting": [50_000, 150],
  "POST /dashboard/destinations/:id/test": [10, 4],
  "POST /dashboard/destinations/:id/certification": [15, 6],
  "POST /dashboard/destinations/:id/notices": [15, 8],
  "POST /dashboard/destinations/:id/notices/remove": [10, 5],
  "POST /dashboard/destinations/:id/notices/test": [15, 7],
  "POST /dashboard/destinations/:id/transform": [640, 10],
  "POST /dashboard/destinations/:id/transform/preview": [2_930, 26],
  "POST /dashboard/destinations/:id/transform/restore": [130, 8],
  "POST /dashboard/destinations/:id/limits": [30_000, 12],
  "POST /dashboard/simulator": [150, 5],
  // The tool costs as much as its route; here its agent has no key any more.
  "POST /dashboard/actions/:id/approve": [10, 5],
  "POST /dashboard/actions/:id/refuse": [15, 6],
  // After the posts: the next one would read what is validated now. The types are counted, up to their limits.
  "PUT /v1/groups/{name}": [1_010, 2],
  "POST /v1/groups/{name}/reset": [10, 2],
  "POST /dashboard/groups/limits": [1_020, 6],
  "PUT /v1/event-types/{name}": [1_011, 3],
  "PUT /v1/event-types/{name}/versions/{version}": [30, 7],
  "PATCH /v1/event-types/{name}/versions/{version}": [30, 4],
  // Its retries are cancelled with it, at most ten pages.
  "DELETE /v1/destinations/{id}": [140, 4],
  "DELETE /v1/keys/{id}": [12, 2],
  "DELETE /v1/groups/{name}": [10, 2],
  "POST /dashboard/groups/:name/reset": [10, 5],
  "DELETE /v1/event-types/{name}": [10, 2],
  "POST /dashboard/event-types/:name/delete": [10, 5],
  "POST /dashboard/destinations/:id/delete": [1_010, 6],
  "POST /dashboard/keys/:id/revoke": [10, 5],
  "POST /dashboard/sign-out": [10, 3],
  "POST /dashboard/destinations/:id/edit": [530, 6],
  "POST /dashboard/keys": [120, 7],
  "POST /dashboard/portal-links": [10, 5],
  "POST /dashboard/settings": [20, 8],
  // Every destination of the tenant.
  "POST /dashboard/settings/export": [1_020, 5],
  "POST /dashboard/settings/import": [2_110, 6],
  "POST /dashboard/event-types/new": [1_020, 7],
  "POST /dashboard/event-types/import": [1_020, 7],
  "POST /dashboard/event-types/:name/edit": [1_020, 6],
  "POST /dashboard/event-types/:name/versions": [1_020, 9],
  "POST /dashboard/event-types/:name/archive": [1_020, 6],
  "POST /dashboard/event-types/:name/restore": [1_020, 6],
  // Each page reads the session, its key and the tenant's settings.
  "GET /portal/enter": [5, 1],
  "GET /portal": [40, 3],
  "GET /portal?after={own}": [40, 3],
  "GET /portal/endpoints/new": [520, 3],
  "GET /portal/endpoints/:id": [3_000, 12],
  "GET /portal/endpoints/:id?state=retrying": [16_000, 12],
  "GET /portal/endpoints/:id?state=queued": [25_000, 12],
  "GET /portal/endpoints/:id/change": [520, 4],
  "GET /portal/endpoints/:id/verify": [10, 3],
  "GET /portal/endpoints/:id/notices": [10, 5],
  "GET /portal/endpoints/:id/poll": [60, 5],
  "GET /portal/endpoints/:id/transform": [630, 8],
  "GET /portal/endpoints/:id/test": [520, 4],
  "GET /portal/endpoints/:id/certification": [10, 4],
  "GET /portal/deliveries/:id": [1_200, 6],
  "GET /portal/deliveries/:id/attempts/:at": [1_200, 5],
  "GET /portal/deliveries/:id/attempts/:at/answer": [1_200, 5],
  "GET /portal/event-types": [520, 4],
  "GET /portal/event-types/:name": [80, 5],
  // The visit's actions are found among the tenant's.
  "GET /portal/agent": [1_010, 3],
  "GET /portal/actions/:id": [10, 3],
  "POST /portal/enter": [300, 5],
  "POST /portal/preferences": [10, 3],
  "POST /portal/event-types/:name": [1_040, 12],
  "POST /portal/agent": [1_010, 3],
  "POST /portal/actions/:id/approve": [10, 5],
  "POST /portal/actions/:id/refuse": [10, 5],
  "POST /portal/endpoints/new": [1_530, 6],
  // A refused form is shown again, with the types to choose from.
  "POST /portal/endpoints/:id/change": [530, 8],
  // The newest 2,000 bundles, and the types to choose from.
  "POST /portal/endpoints/:id/preview": [2_830, 10],
  "POST /portal/endpoints/:id/pause": [30, 9],
  "POST /portal/endpoints/:id/resume": [30, 10],
  "POST /portal/endpoints/:id/test": [15, 5],
  "POST /portal/endpoints/:id/certification": [20, 7],
  "POST /portal/endpoints/:id/rotate": [25, 7],
  "POST /portal/endpoints/:id/notices": [15, 9],
  "POST /portal/endpoints/:id/notices/remove": [15, 6],
  "POST /portal/endpoints/:id/notices/test": [20, 8],
  "POST /portal/endpoints/:id/poll": [70, 10],
  "POST /portal/endpoints/:id/poll/keys/:key/revoke": [15, 6],
  "POST /portal/endpoints/:id/transform": [640, 12],
  "POST /portal/endpoints/:id/transform/preview": [2_930, 26],
  "POST /portal/endpoints/:id/transform/restore": [130, 8],
  "POST /portal/endpoints/:id/resend": [3_000, 16],
  "POST /portal/endpoints/:id/replay": [3_000, 20],
  "POST /portal/endpoints/:id/replays/:replay/cancel": [20, 8],
  "POST /portal/deliveries/:id/resend": [1_200, 8],
  // Its waiting deliveries are cancelled at once.
  "POST /portal/endpoints/:id/delete": [2_000, 12],
  "POST /portal/leave": [10, 5],
  "GET /api/v1/health": [0, 0],
  "GET /api/v1/app": [60, 1],
  "GET /api/v1/app/:app": [10, 1],
  "GET /api/v1/app/:app/endpoint": [60, 2],
  "GET /api/v1/app/:app/endpoint/:endpoint": [10, 2],
  "GET /api/v1/app/:app/endpoint/:endpoint/secret": [10, 2],
  "GET /api/v1/app/:app/endpoint/:endpoint/headers": [10, 2],
  "GET /api/v1/app/:app/endpoint/:endpoint/transformation": [10, 2],
  "GET /api/v1/app/:app/msg": [2_300, 6],
  "GET /api/v1/app/:app/msg/:msg": [5_200, 5],
  "GET /api/v1/app/:app/poller/:sink": [700, 12],
  "GET /api/v1/app/:app/poller/:sink/consumer/:consumer": [700, 12],
  // The first pass of an erasure: with a thousand deliveries, which it cancels.
  "DELETE /api/v1/app/:app/msg/:msg/content": [25_000, 250],
  "GET /api/v1/app/:app/msg/:msg/endpoint": [5_200, 4],
  "GET /api/v1/app/:app/msg/:msg/attempt/:attempt": [1_200, 3],
  "GET /api/v1/app/:app/attempt/endpoint/:endpoint": [510, 7],
  // No delivery is in the channel: as many steps as a page takes, with the bundle of each.
  "GET /api/v1/app/:app/attempt/endpoint/:endpoint?channel=none": [5_000, 7],
  "GET /api/v1/app/:app/attempt/msg/:msg": [5_200, 4],
  "GET /api/v1/app/:app/endpoint/:endpoint/stats": [510, 4],
  "GET /api/v1/app/:app/endpoint/:endpoint/msg": [1_000, 10],
  "GET /api/v1/background-task": [150, 1],
  "GET /api/v1/background-task/:task": [2, 1],
  "GET /api/v1/operational-webhook/endpoint": [60, 1],
  "GET /api/v1/operational-webhook/endpoint/:endpoint": [10, 4],
  "GET /api/v1/operational-webhook/endpoint/:endpoint/secret": [10, 4],
  "GET /api/v1/operational-webhook/endpoint/:endpoint/headers": [10, 4],
  "GET /api/v1/event-type": [510, 1],
  "GET /api/v1/event-type/:name": [2, 1],
  "POST /api/v1/app": [10, 2],
  "PUT /api/v1/app/:app": [10, 4],
  "PATCH /api/v1/app/:app": [10, 4],
  "POST /api/v1/app/:app/endpoint": [1_010, 3],
  "PUT /api/v1/app/:app/endpoint/:endpoint": [20, 7],
  "PATCH /api/v1/app/:app/endpoint/:endpoint": [20, 6],
  "POST /api/v1/app/:app/endpoint/:endpoint/secret/rotate": [10, 5],
  "PUT /api/v1/app/:app/endpoint/:endpoint/headers": [10, 5],
  "PATCH /api/v1/app/:app/endpoint/:endpoint/transformation": [10, 5],
  "PATCH /api/v1/app/:app/endpoint/:endpoint/headers": [10, 5],
  "POST /api/v1/app/:app/msg": [2_500, 11],
  "POST /api/v1/app/:app/msg/:msg/endpoint/:endpoint/resend": [1_200, 6],
  "POST /api/v1/app/:app/msg/precheck/active": [1_010, 2],
  "POST /api/v1/app/:app/poller/:sink/consumer/:consumer/seek": [50, 5],
  "POST /api/v1/app/:app/endpoint/:endpoint/recover": [510, 13],
  "POST /api/v1/app/:app/msg/bulk-expunge": [10, 2],
  "POST /api/v1/app/:app/msg/expunge-all-contents": [100, 12],
  "POST /api/v1/app/:app/endpoint/:endpoint/replay-missing": [510, 13],
  "POST /api/v1/app/:app/endpoint/:endpoint/bulk-replay": [510, 13],
  "POST /api/v1/auth/app-portal-access/:app": [8, 3],
  "POST /api/v1/auth/dashboard-access/:app": [8, 3],
  "POST /api/v1/auth/logout": [0, 0],
  "POST /api/v1/operational-webhook/endpoint": [10, 4],
  "PUT /api/v1/operational-webhook/endpoint/:endpoint": [10, 7],
  "POST /api/v1/operational-webhook/endpoint/:endpoint/secret/rotate": [10, 5],
  "PUT /api/v1/operational-webhook/endpoint/:endpoint/headers": [10, 5],
  "PATCH /api/v1/operational-webhook/endpoint/:endpoint/headers": [10, 5],
  "POST /api/v1/event-type": [510, 2],
  "PUT /api/v1/event-type/:name": [510, 4],
  "PATCH /api/v1/event-type/:name": [510, 4],
  "POST /api/v1/event-type/import/openapi": [1_020, 3],
  "POST /api/v1/app/:app/endpoint/:endpoint/send-example": [20, 4],
  "DELETE /api/v1/app/:app/msg/:msg/attempt/:attempt/content": [1_200, 4],
  "DELETE /api/v1/operational-webhook/endpoint/:endpoint": [10, 4],
  "DELETE /api/v1/event-type/:name": [510, 4],
  "DELETE /api/v1/app/:app/endpoint/:endpoint": [145, 6],
  // Tools of agents cost as much as the routes of the services that they call.
  "POST /mcp explain_delivery": [1_200, 3],
  "POST /mcp search": [2_500, 10],
  "POST /mcp list_failing_destinations": [50_000, 12],
  "POST /mcp get_event": [6_000, 3],
  "POST /mcp list_deliveries": [5_000, 5],
  "POST /mcp get_attempt": [1_200, 2],
  "POST /mcp list_destinations": [100, 1],
  "POST /mcp get_destination": [2, 1],
  "POST /mcp destination_health": [11_000, 3],
  "POST /mcp preview_filter": [2_300, 6],
  "POST /mcp preview_policy": [2, 1],
  "POST /mcp stats": [75_000, 12],
  "POST /mcp get_replay": [2, 1],
  "POST /mcp get_action": [2, 1],
  "POST /mcp list_changes": [60, 1],
  "POST /mcp retry_deliveries": [1_200, 5],
  "POST /mcp cancel_deliveries": [1_200, 10],
  "POST /mcp start_replay": [500, 10],
  "POST /mcp cancel_replay": [10, 4],
  // They are counted with the alert that they publish in the background.
  "POST /mcp pause_destination": [60, 15],
  "POST /mcp resume_destination": [60, 15],
  "POST /mcp set_limits": [10, 4],
  "POST /mcp set_filter": [10, 4],
  "POST /mcp rotate_secret": [10, 3],
  "POST /mcp send_test_event": [5, 2],
  "POST /mcp events/list": [510, 1],
  "POST /mcp events/poll": [2_300, 6],
  "POST /mcp events/subscribe": [1_020, 8],
  "POST /mcp events/unsubscribe": [20, 6],
  // With the tenant's thousand destinations; what waits for ten of them is cancelled at once.
  "DELETE /api/v1/app/:app": [7_000, 46],
  // Ten thousand are waiting deliveries, of which a tick checks the age limits of 24,000 at most. Nine thousand are for a
  // thousand new events, each of which is checked once, and three thousand for those that are counted.
  // The tenant's thousand destinations and keys, and all sessions that have not expired: no index finds a tenant's.
  "DELETE /v1/tenants/{tenant}": [30_000, 20],
  // The rest of it: the route above has deleted it.
  "POST /dashboard/settings/delete": [30_000, 22],
  tick: [30_000, 75],
  watch: [50_000, 12],
};

/** Scans that are bounded nevertheless: what is scanned, a part of the statement, and what bounds it. */
const bounded: readonly (readonly [scan: string, within: string, by: string])[] = [
  [
    "deliveries USING COVERING INDEX deliveries_retrying",
    "SELECT 1 FROM deliveries INDEXED BY deliveries_retrying WHERE state = 'retrying' LIMIT",
    "5,001 entries of the index",
  ],
  [
    "deliveries USING COVERING INDEX deliveries_retrying",
    "SELECT destination_id, event_id FROM deliveries INDEXED BY deliveries_retrying WHERE state = 'retrying' LIMIT",
    "10,000 entries of the index",
  ],
  [
    "deliveries USING COVERING INDEX deliveries_retrying",
    "SELECT destination_id, 1 AS count FROM deliveries WHERE state = 'retrying' ORDER BY next_attempt_at LIMIT 10000",
    "10,000 entries of the index, in its order",
  ],
  [
    "deliveries USING COVERING INDEX deliveries_retrying",
    "SELECT destination_id FROM deliveries WHERE state = 'retrying' ORDER BY next_attempt_at LIMIT 1000",
    "1,000 entries of the index, in its order",
  ],
  [
    "deliveries USING INDEX deliveries_retrying",
    "WHERE state = 'retrying' ORDER BY next_attempt_at LIMIT 5000 ) d",
    "5,000 entries of the index, in its order",
  ],
  [
    "deliveries USING INDEX deliveries_waiting",
    "SELECT 'waiting' AS state, reason, 1 AS count, NULL AS id FROM deliveries INDEXED BY deliveries_waiting WHERE state = 'waiting' LIMIT",
    "1,000 entries of the index",
  ],
  [
    "deliveries USING INDEX deliveries_dead",
    "SELECT 'dead', reason, 1, NULL FROM deliveries INDEXED BY deliveries_dead WHERE state = 'dead' LIMIT",
    "1,000 entries of the index",
  ],
  [
    "deliveries USING INDEX deliveries_retrying",
    "SELECT 'retrying', reason, 1, destination_id FROM deliveries INDEXED BY deliveries_retrying WHERE state = 'retrying' LIMIT",
    "1,000 entries of the index",
  ],
  [
    "deliveries USING INDEX deliveries_waiting",
    "WHERE state = 'waiting' LIMIT 5000 ) d",
    "5,000 entries of the index",
  ],
  ["bundles", "SELECT plan FROM bundles ORDER BY id DESC LIMIT 1000", "the newest 1,000 by their key"],
  [
    "event_types USING INDEX event_types_posted",
    "CROSS JOIN event_types INDEXED BY event_types_posted",
    "types that are validated or have versions, among 500 at most",
  ],
  [
    "event_types USING INDEX event_types_posted",
    "FROM event_types INDEXED BY event_types_posted WHERE version > 1",
    "types that are validated or have versions, among 500 at most",
  ],
  ["event_types", "SELECT 1 FROM event_types LIMIT 500", "500 types at most are in the catalogue"],
  [
    "destinations USING INDEX sqlite_autoindex_destinations_1",
    'where "destinations"."deleted_at" is null order by "destinations"."id" limit',
    "a page in the order of its key; deleted ones are passed over until they are removed",
  ],
  [
    "destinations USING INDEX destinations_by_tenant",
    "SELECT 1 FROM destinations WHERE deleted_at IS NULL LIMIT 10000",
    "10,000 entries of the index",
  ],
  [
    "api_keys USING INDEX api_keys_unrevoked",
    'where "api_keys"."revoked_at" is null order by "api_keys"."id" limit',
    "a page in the order of its key",
  ],
  [
    "erasures USING INDEX erasures_running",
    "SELECT 1 FROM erasures INDEXED BY erasures_running WHERE state = 'running' AND tenant = ?2",
    "the index holds what is running alone",
  ],
  ["erasures", "order by erasures.rowid desc limit", "a page in the order of its key"],
  [
    "replays",
    "SELECT rowid AS place FROM replays WHERE true ORDER BY rowid DESC LIMIT",
    "the newest 1,000 by key",
  ],
  [
    "replays USING INDEX replays_under_way",
    "from replays INDEXED BY replays_under_way where (state IN ('running', 'paused')",
    "the index holds what is under way alone, one at most of a destination",
  ],
  [
    "replays USING INDEX replays_under_way",
    "WHERE state IN ('running', 'paused') AND EXISTS ( SELECT 1 FROM destinations d",
    "the index holds what is under way alone, one at most of a destination",
  ],
];

const NOT_MADE: Cost = { rowsRead: Number.NaN, queries: Number.NaN, status: "" };

let costs: ReadonlyMap<string, Cost>;
let statements: readonly string[];

const described = operations.map(({ method, path }) => `${method} ${path}`);
// A preflight is answered from the configuration, before there is a key.
const others = [...createDashboard().routes, ...createPortal().routes, ...createSvixApi().routes]
  .filter(({ method, path }) => method !== "ALL" && method !== "OPTIONS" && !/:version|:name\{/.test(path))
  .map(({ method, path }) => `${method} ${path}`);
const tools = [...[...readingTools, ...changingTools].map(({ name }) => name), ...eventMethods].map(
  (name) => `POST /mcp ${name}`,
);

beforeAll(async () => {
  await inviteEveryone();
  const toured = await tour(Object.keys(ceilings).filter((route) => route.includes("/")));
  await env.DB.prepare(
    "UPDATE deliveries SET state = 'dead' WHERE state = 'retrying' AND event_id % 3",
  ).run();
  const again = await tour([FEW_RETRIES]);
  costs = new Map([...again.costs, ...toured.costs, [FEW_RETRIES, again.costs.get(FEW_RETRIES) ?? NOT_MADE]]);
  const prepared = [...toured.statements, ...again.statements];
  statements = [...new Set(prepared)].map((sql) => sql.replaceAll(/\s+/g, " "));
  const lines = [...costs].map(([route, { rowsRead, queries }]) => {
    const [rows = "none", most = "none"] = ceilings[route] ?? [];
    return `| ${route} | ${rowsRead} | ${rows} | ${queries} | ${most} |`;
  });
  console.log(
    ["| route | rows read | at most | queries | at most |", "|---|---|---|---|---|", ...lines].join("\n"),
  );
});

test("every route of both APIs, every tool of agents and every page has a limit", () => {
  expect(Object.keys(ceilings)).toEqual(expect.arrayContaining([...described, ...others, ...tools]));
});

test.each(
  Object.entries(ceilings),
)("%s stays below its ceiling of %j rows read and queries", (route, most) => {
  const { rowsRead, queries } = costs.get(route) ?? NOT_MADE;
  expect(rowsRead).toBeLessThanOrEqual(most[0]);
  expect(queries).toBeLessThanOrEqual(most[1]);
});

test("no request fails in a crowded database", () => {
  // The secrets of these destinations were never sealed, so they cannot be shown and have no public keys.
  const failed = [...costs].filter(
    ([route, { status }]) => /\b5\d\d\b/.test(status) && !/\/(secret|jwks\.json)$/.test(route),
  );
  expect(failed).toEqual([]);
});

test("no statement scans a growing table, except those with a stated bound", async () => {
  const found: string[] = [];
  for (const sql of statements) {
    for (const scan of await scansIn(env.DB, sql)) {
      const isBounded = bounded.some(([what, within]) => scan === what && sql.includes(within));
      if (!isBounded) found.push(`SCAN ${scan} in ${sql}`);
    }
  }
  expect(found).toEqual([]);
  const unused = bounded.filter(([, within]) => !statements.some((sql) => sql.includes(within)));
  expect(unused).toEqual([]);
});
