/**
 * Messages that an endpoint has got and would get: counts of its messages by status, the messages, and the precheck of one.
 */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import type { FieldError } from "../../core/result.ts";
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
import { answerOf, invalid } from "../problems.ts";
import { deliveryRecordsOf, oneType, stateView, statuses, statusParam, windowIterator } from "./attempts.ts";
import { endpointOf } from "./endpoints.ts";
import { messageQuery, messageViews } from "./messages.ts";
import { applicationOf, bodyOf, callerWithin, flag, queryOf } from "./shapes.ts";

const ENDPOINT = "/api/v1/app/:app/endpoint/:endpoint";

export function registerEndpointMessages(app: Hono<ApiEnv>): void {
  app.get(`${ENDPOINT}/stats`, requires("read"), async (c) => {
    const query = queryOf(c, statsQuery);
    if (query instanceof Response) return query;
    const errors = inQuery(rangeErrors(query.since, query.until));
    if (errors.length > 0) return invalid(errors);
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    const count = await countOutcomes(c.get("services"), found.row.id, query);
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
    if (input instanceof Response) return input;
    const application = await applicationOf(c);
    if (application instanceof Response) return application;
    const routes = await activeRoutes(c.get("services").db, application.id);
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

function inQuery(errors: readonly FieldError[]): FieldError[] {
  return errors.map((error) => ({ ...error, field: `query.${error.field}` }));
}

const messagesQuery = z.object({
  ...messageQuery,
  iterator: windowIterator,
  status: statusParam,
  // Statuses that the Svix API shows as one without it are one here too.
  expanded_statuses: flag,
});

/** The states that are one status; where a status stands for several, the answer distinguishes them. */
const stateOf: Readonly<Partial<Record<number, StoredState>>> = {
  [statuses.success]: "delivered",
  [statuses.fail]: "dead",
  [statuses.canceled]: "cancelled",
};

/** The newest first, each with the status of its delivery. A page may be short, and still have a next one. */
async function messagesOfEndpoint(c: ApiContext): Promise<Response> {
  const query = queryOf(c, messagesQuery);
  if (query instanceof Response) return query;
  const { limit, status, before: until, after, with_content: withContent, event_types: types = [] } = query;
  if (types.length > 1) return invalid([oneType]);
  const since = after === undefined ? undefined : after + 1;
  const errors = rangeErrors(since, until);
  if (errors.length > 0) return invalid([{ ...errors[0], field: "query.before" } as FieldError]);
  const endpoint = await endpointOf(c);
  if (endpoint instanceof Response) return endpoint;
  const { application } = endpoint;
  const filter = { state: status === undefined ? undefined : stateOf[status], since, until };
  const window = await deliveryRecordsOf(c, endpoint, query, filter);
  if (window instanceof Response) return window;
  const ofStatus = window.found.filter((one) => status === undefined || stateView(one).status === status);
  const ids = ofStatus.map(({ eventId }) => eventId);
  const found = await findEventsById(callerWithin(c, application), ids);
  if (found.kind !== "ok") return answerOf(found);
  const events = found.value;
  const listed = ofStatus.flatMap(({ eventId }) => events.get(eventId) ?? []).slice(0, limit);
  const most = countWithinBytes(listed, () => withContent !== false);
  const { data: wanted, ...page } = window.pageOf(most, (delivery) => {
    const event = ofStatus.includes(delivery) ? events.get(delivery.eventId) : undefined;
    return event ? [{ entry: { event, state: stateView(delivery) }, at: 0 }] : [];
  });
  const asked = wanted.map(({ event }) => event);
  const views = await messageViews(c, application, asked, withContent);
  const data = views.map((view, i) => ({ ...view, ...wanted[i]?.state }));
  return c.json({ data, ...page });
}
