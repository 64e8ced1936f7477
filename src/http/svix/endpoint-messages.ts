/** The messages of an endpoint: counts by status, lists, and the precheck of one that it would get. */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { channelsInEffect, eventChannels, refusalOf } from "../../core/routing.ts";
import { zodOf } from "../../core/zod-of.ts";
import { findEventsById } from "../../features/events/service.ts";
import { eventType, rangeErrors, timeParam } from "../../features/parameters.ts";
import type { StoredState } from "../../store/delivery.ts";
import { activeRoutes } from "../../store/destinations.ts";
import { countWithinBytes } from "../../store/event-list.ts";
import { countOutcomes } from "../../store/stats.ts";
import { requires } from "../auth.ts";
import type { ApiContext, ApiEnv } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import {
  deliveryRecordsOf,
  refuseTypes,
  stateView,
  statuses,
  statusParam,
  windowIterator,
} from "./attempts.ts";
import { endpointOf } from "./endpoints.ts";
import { messageQuery, messageViews } from "./messages.ts";
import {
  applicationOf,
  bodyOf,
  callerWithin,
  flag,
  granted,
  inQuery,
  queryOf,
  refuseFields,
} from "./shapes.ts";

const ENDPOINT = "/api/v1/app/:app/endpoint/:endpoint";

export function registerEndpointMessages(app: Hono<ApiEnv>): void {
  app.get(`${ENDPOINT}/stats`, requires("read"), async (c) => {
    const query = queryOf(c, statsQuery);
    refuseFields(inQuery(rangeErrors(query.since, query.until)));
    const { row } = await endpointOf(c);
    const count = await countOutcomes(c.get("services"), row.id, query);
    return c.json({
      success: count.delivered,
      pending: count.waiting + count.retrying,
      sending: count.in_flight,
      fail: count.dead,
      canceled: count.cancelled,
    });
  });

  app.get(`${ENDPOINT}/msg`, requires("read"), messagesOfEndpoint);

  app.post("/api/v1/app/:app/msg/precheck/active", requires("read"), jsonBody(), async (c) => {
    const input = await bodyOf(c, precheckInput);
    const { id } = await applicationOf(c);
    const routes = await activeRoutes(c.get("services").db, id);
    const event = { type: input.eventType, channels: input.channels ?? [], data: () => null };
    const takes = ({ eventTypes: types, channels }: (typeof routes)[number]) =>
      refusalOf({ types, channels: channelsInEffect(channels), filter: null }, event) === undefined;
    return c.json({ active: routes.some(takes) });
  });
}

const statsQuery = z.object({ since: timeParam.optional(), until: timeParam.optional() });

const precheckInput = z.object({
  eventType,
  channels: zodOf(eventChannels).nullish(),
});

const messagesQuery = z.object({
  ...messageQuery,
  iterator: windowIterator,
  status: statusParam,
  // Statuses that the Svix API shows as one without it are one here too.
  expanded_statuses: flag,
});

/** The states that are one status; if a status covers several, the answer distinguishes them. */
const stateOf: Readonly<Partial<Record<number, StoredState>>> = {
  [statuses.success]: "delivered",
  [statuses.fail]: "dead",
  [statuses.canceled]: "cancelled",
};

/** The newest first, each with the status of its delivery. A page may be short, and still have a next one. */
async function messagesOfEndpoint(c: ApiContext): Promise<Response> {
  const query = queryOf(c, messagesQuery);
  const { limit, status, before: until, after, with_content: withContent } = query;
  refuseTypes(query);
  const since = after === undefined ? undefined : after + 1;
  refuseFields(rangeErrors(since, until).map((error) => ({ ...error, field: "query.before" })));
  const endpoint = await endpointOf(c);
  const { application } = endpoint;
  const filter = { state: status === undefined ? undefined : stateOf[status], since, until };
  const { found, pageOf } = await deliveryRecordsOf(c, endpoint, query, filter);
  const ofStatus = found.filter((one) => status === undefined || stateView(one).status === status);
  const ids = ofStatus.map(({ eventId }) => eventId);
  const events = granted(await findEventsById(callerWithin(c, application), ids));
  const listed = ofStatus.flatMap(({ eventId }) => events.get(eventId) ?? []).slice(0, limit);
  const most = countWithinBytes(listed, () => withContent !== false);
  const { data: wanted, ...page } = pageOf(most, (delivery) => {
    const event = ofStatus.includes(delivery) ? events.get(delivery.eventId) : undefined;
    return event ? [{ entry: { event, state: stateView(delivery) }, at: 0 }] : [];
  });
  const asked = wanted.map(({ event }) => event);
  const views = await messageViews(c, application, asked, withContent);
  const data = views.map((view, i) => ({ ...view, ...wanted[i]?.state }));
  return c.json({ data, ...page });
}
