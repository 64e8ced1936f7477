/**
 * Attempts: the entries of deliveries' logs, the newest first; the endpoints of a message; and resending.
 *
 * The lists read what is stored of deliveries, and call no gate. Those by endpoint page through deliveries, which have as
 * many attempts as they took: an iterator names a window of deliveries and how many of their attempts were shown.
 */
import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { requires } from "../api/auth.ts";
import type { ApiContext, ApiEnv } from "../api/context.ts";
import { jsonBody } from "../api/json-body.ts";
import { cursorParam, encodeCursor } from "../api/parameters.ts";
import { invalid } from "../api/problems.ts";
import type { Application } from "../db/applications.ts";
import { deliveriesByEvent } from "../db/deliveries-by-event.ts";
import { overBy } from "../db/delivery-filter.ts";
import { type FoundDelivery, storedDeliveries } from "../db/delivery-list.ts";
import { findDelivery } from "../db/planned-deliveries.ts";
import type { AttemptEntry } from "../db/schema.ts";
import { deliveryId, deliveryKey, eventId as idOfEvent } from "../ids.ts";
import { isoTime } from "../time.ts";
import { endpointOf, endpointView, namedEndpoint } from "./endpoints.ts";
import { eventIdsOf, messageNumberOf, messageOf, messageQuery, messageView } from "./messages.ts";
import type { CallNative } from "./native-api.ts";
import { applicationOf, flag, listOf, missing, pageQuery, queryOf, unsupported } from "./shapes.ts";

const MESSAGE = "/api/v1/app/:app/msg/:msg";

export function registerAttempts(app: Hono<ApiEnv>, callNative: CallNative): void {
  app.get("/api/v1/app/:app/attempt/endpoint/:endpoint", requires("read"), attemptsOfEndpoint);
  app.get("/api/v1/app/:app/attempt/msg/:msg", requires("read"), attemptsOfMessage);

  app.get(`${MESSAGE}/endpoint`, requires("read"), async (c) => {
    const query = queryOf(c, z.object(pageQuery));
    if (query instanceof Response) return query;
    const application = await applicationOf(c);
    if (application instanceof Response) return application;
    const found = await messageOf(c, application);
    if (found instanceof Response) return found;
    const shown = found.deliveries.flatMap((delivery) => {
      const { destination } = delivery;
      if (destination === null || destination.deletedAt !== null) return [];
      return [{ ...endpointView(destination, application), ...stateView(delivery) }];
    });
    return c.json(pageAfter(shown, query));
  });

  app.get(`${MESSAGE}/attempt/:attempt`, requires("read"), async (c) => {
    const query = queryOf(c, z.object({ with_content: flag }));
    if (query instanceof Response) return query;
    const application = await applicationOf(c);
    if (application instanceof Response) return application;
    const id = c.req.param("attempt");
    const key = deliveryKey(`dlv_${/^atmpt_(\w{13}_\w{20})_/.exec(id)?.[1]}`);
    const services = c.get("services");
    const found =
      key !== undefined && key.eventId === (await messageNumberOf(c, application))
        ? await findDelivery(services, key, application.id, overBy(services))
        : undefined;
    const shown = (found ? attemptsOf(found, query.with_content) : []).find((one) => one.id === id);
    return shown ? c.json(shown) : missingOf(c, application, () => missing("attempt", id));
  });

  app.post(
    `${MESSAGE}/endpoint/:endpoint/resend`,
    requires("admin"),
    jsonBody({ mayBeEmpty: true }),
    async (c) => {
      const found = await endpointOf(c);
      if (found instanceof Response) return found;
      const number = await messageNumberOf(c, found.application);
      if (number === undefined) return missing("message", c.req.param("msg"));
      const id = deliveryId(number, found.row.id);
      const retried = await callNative(c, "POST", `/v1/deliveries/${id}/retry`);
      if (retried.ok) return c.json({}, 202);
      return retried.status === 404 ? missingOf(c, found.application, () => retried.answer) : retried.answer;
    },
  );
}

/** The 404 of the message, where there is none; else that of the thing of it. A message is read whole for this alone. */
async function missingOf(
  c: ApiContext,
  application: Application,
  ofThing: () => Response,
): Promise<Response> {
  const message = await messageOf(c, application);
  return message instanceof Response ? message : ofThing();
}

const STATUS_EXPECTED = "expected 0 (success), 1 (pending), 2 (fail), 3 (sending) or 4 (canceled)";
const CLASS_EXPECTED = "expected 0, 100, 200, 300, 400 or 500";

const attemptQuery = {
  ...messageQuery,
  status: z.enum(["0", "1", "2", "3", "4"], { error: STATUS_EXPECTED }).transform(Number).optional(),
  status_code_class: z
    .enum(["0", "100", "200", "300", "400", "500"], { error: CLASS_EXPECTED })
    .transform(Number)
    .optional(),
  with_msg: flag,
};

const position = z.object({ destinationId: z.string(), eventId: z.int().nonnegative() });

/** A window of deliveries, and how many of their attempts have been shown. */
const attemptIterator = z.object({
  before: z.array(position).min(1).optional(),
  deliveries: z.int().min(1).max(100),
  shown: z.int().nonnegative(),
});

const endpointQuery = z.object({ ...attemptQuery, iterator: cursorParam(attemptIterator) });

/** Deliveries that a page looks at. */
const MOST_DELIVERIES = 100;

async function attemptsOfEndpoint(c: ApiContext): Promise<Response> {
  const query = queryOf(c, endpointQuery);
  if (query instanceof Response) return query;
  const { limit, event_types: types = [], tag, channel } = query;
  if (types.length > 1) return invalid([unsupported("query.event_types", "one event type, or none")]);
  if (query.with_msg === true)
    return invalid([unsupported("query.with_msg", "false: messages are shown by themselves")]);
  const found = await endpointOf(c);
  if (found instanceof Response) return found;
  const { application, row } = found;
  const services = c.get("services");
  const {
    before,
    deliveries,
    shown: done,
  } = query.iterator ?? {
    before: undefined,
    deliveries: Math.min(limit, MOST_DELIVERIES),
    shown: 0,
  };
  const tenant = application.id;
  const filter = {
    destinationId: row.id,
    tenant,
    type: types[0],
    channel,
    before,
    limit: deliveries,
    over: overBy(services),
  };
  const page = await (tag === undefined
    ? storedDeliveries(services, undefined, filter)
    : deliveriesByEvent(services, { tenant, tag, state: undefined }, filter));
  const all = page.found.flatMap((one) => attemptsOf(one, query.with_content)).filter(wantedBy(query));
  const data = all.slice(done, done + limit);
  const next =
    all.length > done + data.length
      ? { before, deliveries, shown: done + data.length }
      : page.next && { before: page.next, deliveries: Math.min(limit, MOST_DELIVERIES), shown: 0 };
  return c.json({ data, iterator: next ? encodeCursor(next) : null, prevIterator: null, done: !next });
}

const messageAttemptQuery = z.object({ ...attemptQuery, endpoint_id: z.string().optional() });

async function attemptsOfMessage(c: ApiContext): Promise<Response> {
  const query = queryOf(c, messageAttemptQuery);
  if (query instanceof Response) return query;
  const application = await applicationOf(c);
  if (application instanceof Response) return application;
  const found = await messageOf(c, application);
  if (found instanceof Response) return found;
  const { event } = found;
  const services = c.get("services");
  const { endpoint_id: name, event_types: types, tag, channel } = query;
  const endpoint = name === undefined ? undefined : await namedEndpoint(services.db, application, name);
  const isWanted = wantedBy(query);
  const isOfMessage =
    (types?.includes(event.type) ?? true) &&
    (tag === undefined || event.tags.includes(tag)) &&
    (channel === undefined || event.channels.includes(channel));
  const attempts = found.deliveries
    .filter(({ destinationId }) => name === undefined || destinationId === endpoint?.id)
    .flatMap((delivery) => attemptsOf(delivery, query.with_content))
    .filter((one) => isOfMessage && isWanted(one))
    .toSorted((a, b) => (a.timestamp < b.timestamp ? 1 : -1));
  const page = pageAfter(attempts, query);
  if (query.with_msg !== true) return c.json(page);
  const names = await eventIdsOf(services, application, [event.id]);
  const msg = messageView(event, names, query.with_content);
  return c.json({ ...page, data: page.data.map((one) => ({ ...one, msg })) });
}

/** The page after the entry with the id; after one that there is not, nothing. */
function pageAfter<T extends { id: string }>(
  entries: readonly T[],
  { limit, iterator }: { limit: number; iterator?: string | undefined },
) {
  const at = iterator === undefined ? -1 : entries.findIndex(({ id }) => id === iterator);
  const rest = iterator !== undefined && at < 0 ? [] : entries.slice(at + 1);
  return listOf(rest, limit, ({ id }) => id);
}

type Filter = Readonly<{
  status?: number | undefined;
  status_code_class?: number | undefined;
  before?: number | undefined;
  after?: number | undefined;
}>;

type Attempt = ReturnType<typeof attemptsOf>[number];

function wantedBy({ status, status_code_class: ofClass, before, after }: Filter) {
  return (one: Attempt) => {
    const at = Date.parse(one.timestamp);
    return (
      (status === undefined || one.status === status) &&
      (ofClass === undefined || Math.floor(one.responseStatusCode / 100) * 100 === ofClass) &&
      (before === undefined || at < before) &&
      (after === undefined || at > after)
    );
  };
}

const statuses = { success: 0, pending: 1, fail: 2, sending: 3, canceled: 4 } as const;

function statusView(statusText: keyof typeof statuses) {
  return { status: statuses[statusText] as number, statusText };
}

/** The attempts of a delivery, the newest first. */
function attemptsOf(delivery: FoundDelivery, withContent = true) {
  const log = delivery.kind === "stored" ? delivery.row.log : [];
  return log.toReversed().map((entry) => attemptView(delivery, entry, withContent));
}

function attemptView(
  { eventId, destinationId, destination }: FoundDelivery,
  { at, latencyMs, status, error, excerpt }: AttemptEntry,
  withContent: boolean,
) {
  const isSuccess = error === undefined && status !== undefined && status >= 200 && status < 300;
  return {
    id: `atmpt_${deliveryId(eventId, destinationId).slice(4)}_${at.toString(36)}`,
    msgId: idOfEvent(eventId),
    endpointId: destinationId,
    url: destination?.url ?? "",
    response: withContent ? (excerpt ?? error ?? "") : "",
    responseStatusCode: status ?? 0,
    responseDurationMs: latencyMs,
    ...statusView(isSuccess ? "success" : "fail"),
    triggerType: 0,
    timestamp: isoTime(at),
  };
}

function stateView(delivery: FoundDelivery) {
  if (delivery.kind === "planned")
    return { ...statusView("pending"), nextAttempt: isoTime(delivery.deliverAt) };
  const { state, nextAttemptAt } = delivery.row;
  switch (state) {
    case "delivered":
      return { ...statusView("success"), nextAttempt: null };
    case "dead":
      return { ...statusView("fail"), nextAttempt: null };
    case "cancelled":
      return { ...statusView("canceled"), nextAttempt: null };
    case "waiting":
    case "retrying":
      return { ...statusView("pending"), nextAttempt: isoTime(nextAttemptAt) };
  }
}
