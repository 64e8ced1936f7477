/**
 * Attempts: the entries of deliveries' logs, the newest first; the endpoints of a message; and resending.
 *
 * The lists read what is stored of deliveries, and call no gate. Those by endpoint page through deliveries, which have as
 * many attempts as they took: an iterator names the last delivery and attempt that were shown, so that what is new since then
 * moves nothing.
 */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { databaseNumberOf } from "../../core/placement.ts";
import type { Application } from "../../features/applications/sql.ts";
import { changed } from "../../features/audit/routes.ts";
import { deliveryId, deliveryKey, eventId as idOfEvent } from "../../ids.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";
import { archiveOf, emptyExchange, mayBeArchived } from "../../store/archive.ts";
import { allOf } from "../../store/databases.ts";
import { forgetExcerpt } from "../../store/deliveries.ts";
import { deliveriesByEvent } from "../../store/deliveries-by-event.ts";
import type { AttemptEntry, StoredState } from "../../store/delivery.ts";
import { overBy } from "../../store/delivery-filter.ts";
import { type FoundDelivery, type Positions, START, storedDeliveries } from "../../store/delivery-list.ts";
import { findDelivery } from "../../store/planned-deliveries.ts";
import type { TimeRange } from "../../store/time-ranges.ts";
import { isoTime } from "../../time.ts";
import { requires } from "../auth.ts";
import type { ApiContext, ApiEnv } from "../context.ts";
import { apiPath } from "../internal-path.ts";
import { jsonBody } from "../json-body.ts";
import { cursorParam, encodeCursor } from "../parameters.ts";
import { invalid, problem } from "../problems.ts";
import { endpointOf, endpointView, type NamedEndpoint, namedEndpoint } from "./endpoints.ts";
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
    const found = await attemptOf(c);
    return found instanceof Response
      ? found
      : c.json(attemptView(found.delivery, found.entry, query.with_content));
  });

  app.delete(`${MESSAGE}/attempt/:attempt/content`, requires("admin"), async (c) => {
    const found = await attemptOf(c);
    if (found instanceof Response) return found;
    const { application, delivery, entry } = found;
    if (delivery.kind === "planned" || !ENDED.includes(delivery.row.state)) return problem(409, UNDER_WAY);
    const services = c.get("services");
    if (!(await isEmptied(services, delivery, entry))) return problem(503, NOT_REMOVED);
    await forgetExcerpt(services, delivery, entry.at);
    changed(c, "attempt.content_removed", { id: attemptId(delivery, entry), tenant: application.id });
    return c.body(null, 204);
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
      const retried = await callNative(c, "POST", apiPath`/v1/deliveries/${id}/retry`);
      if (retried.ok) return c.json({}, 202);
      return retried.status === 404 ? missingOf(c, found.application, () => retried.answer) : retried.answer;
    },
  );
}

const ENDED: readonly string[] = ["delivered", "dead", "cancelled"];
const NOT_REMOVED = "What is kept of the attempt in R2 cannot be removed at the moment; nothing was changed";
const UNDER_WAY = "The delivery is under way: its log can be changed once it has ended";

type FoundAttempt = Readonly<{ application: Application; delivery: FoundDelivery; entry: AttemptEntry }>;

/** The attempt that the path names, or the 404. */
async function attemptOf(c: ApiContext): Promise<FoundAttempt | Response> {
  const application = await applicationOf(c);
  if (application instanceof Response) return application;
  const id = c.req.param("attempt") ?? "";
  const key = deliveryKey(`dlv_${/^atmpt_(\w{13}_\w{20})_/.exec(id)?.[1]}`);
  const services = c.get("services");
  const delivery =
    key !== undefined && key.eventId === (await messageNumberOf(c, application))
      ? await findDelivery(services, key, application.id, overBy(services))
      : undefined;
  const entry = delivery && logOf(delivery).find((one) => attemptId(delivery, one) === id);
  return entry ? { application, delivery, entry } : missingOf(c, application, () => missing("attempt", id));
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

export const statusParam = z
  .enum(["0", "1", "2", "3", "4"], { error: STATUS_EXPECTED })
  .transform(Number)
  .optional();

const attemptQuery = {
  ...messageQuery,
  status: statusParam,
  status_code_class: z
    .enum(["0", "100", "200", "300", "400", "500"], { error: CLASS_EXPECTED })
    .transform(Number)
    .optional(),
  with_msg: flag,
};

const position = z.object({ destinationId: z.string(), eventId: z.int().nonnegative() });

/** Deliveries that a page looks at. */
const MOST_DELIVERIES = 100;

/** The position in each database behind which to go on, and of a delivery that was shown in part, until when (epoch ms). */
export const windowIterator = cursorParam(
  z.object({
    before: z.array(position).min(1),
    part: z.object({ event: z.int().nonnegative(), at: z.int() }).optional(),
  }),
);

const endpointQuery = z.object({ ...attemptQuery, iterator: windowIterator });

async function attemptsOfEndpoint(c: ApiContext): Promise<Response> {
  const query = queryOf(c, endpointQuery);
  if (query instanceof Response) return query;
  const { limit, event_types: types = [] } = query;
  if (types.length > 1) return invalid([oneType]);
  if (query.with_msg === true)
    return invalid([unsupported("query.with_msg", "false: messages are shown by themselves")]);
  const found = await endpointOf(c);
  if (found instanceof Response) return found;
  const window = await deliveriesOf(c.get("services"), found, query, {});
  const isWanted = wantedBy(query);
  const { data, ...page } = window.pageOf(limit, (delivery) =>
    attemptsOf(delivery, query.with_content)
      .filter(isWanted)
      .map((entry) => ({ entry, at: Date.parse(entry.timestamp) })),
  );
  return c.json({ data, ...page });
}

/** Filters take one type or none: a walk through deliveries compares one. */
export const oneType = unsupported("query.event_types", "one event type, or none");

type WindowQuery = Readonly<{
  limit: number;
  iterator?: z.infer<typeof windowIterator>;
  event_types?: readonly string[] | undefined;
  tag?: string | undefined;
  channel?: string | undefined;
}>;

type WindowFilter = Readonly<{ state?: StoredState | undefined; accepted?: TimeRange | undefined }>;

/** The window of an endpoint's deliveries that the query's iterator names, or the first one. */
export async function deliveriesOf(
  services: Services,
  { application, row }: NamedEndpoint,
  { limit, iterator, event_types: types = [], tag, channel }: WindowQuery,
  { state, accepted }: WindowFilter,
) {
  const { before, part } = iterator ?? {};
  const tenant = application.id;
  const filter = {
    ...{ destinationId: row.id, tenant, type: types[0], channel, accepted },
    ...{ before, limit: Math.min(limit, MOST_DELIVERIES), over: overBy(services) },
  };
  const page = await (tag === undefined
    ? storedDeliveries(services, state, filter)
    : deliveriesByEvent(services, { tenant, tag, state }, filter));
  /**
   * The next entries, at most `most`.
   * @param entriesOf those of a delivery, the newest first, each with a time of its own (epoch ms)
   */
  const pageOf = <T>(most: number, entriesOf: (delivery: FoundDelivery) => readonly Timed<T>[]) => {
    const data: T[] = [];
    for (const [i, delivery] of page.found.entries()) {
      const { eventId: event } = delivery;
      const left = entriesOf(delivery).filter(({ at }) => part?.event !== event || at < part.at);
      const shown = left.slice(0, most - data.length);
      data.push(...shown.map(({ entry }) => entry));
      if (shown.length === left.length) continue;
      const from = positionsBefore(services, before, page.found.slice(0, i), delivery);
      const last = shown.at(-1)?.at ?? (part?.event === event ? part.at : undefined);
      const next = { before: from, ...(last !== undefined && { part: { event, at: last } }) };
      return { data, iterator: encodeCursor(next), prevIterator: null, done: false };
    }
    const iterator = page.next ? encodeCursor({ before: page.next }) : null;
    return { data, iterator, prevIterator: null, done: iterator === null };
  };
  return { found: page.found, pageOf };
}

type Timed<T> = Readonly<{ entry: T; at: number }>;

/** From where each database's deliveries go on after those that are shown whole, with the next one as the first. */
function positionsBefore(
  services: Services,
  before: Positions | undefined,
  shown: readonly FoundDelivery[],
  next: FoundDelivery,
): Positions {
  return allOf(services).map((_, number) => {
    const isHere = ({ eventId }: FoundDelivery) => databaseNumberOf(eventId) === number;
    const last = shown.findLast(isHere);
    if (last) return { destinationId: last.destinationId, eventId: last.eventId };
    // In front of it, so that what is newer by then stays out.
    if (isHere(next)) return { destinationId: next.destinationId, eventId: next.eventId + 1 };
    return before?.[number] ?? START;
  });
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

export const statuses = { success: 0, pending: 1, fail: 2, sending: 3, canceled: 4 } as const;

function statusView(statusText: keyof typeof statuses) {
  return { status: statuses[statusText] as number, statusText };
}

/** The attempts of a delivery, the newest first. */
function attemptsOf(delivery: FoundDelivery, withContent = true) {
  return logOf(delivery)
    .toReversed()
    .map((entry) => attemptView(delivery, entry, withContent));
}

function logOf(delivery: FoundDelivery): readonly AttemptEntry[] {
  return delivery.kind === "stored" ? delivery.row.log : [];
}

function attemptId({ eventId, destinationId }: FoundDelivery, { at }: AttemptEntry): string {
  return `atmpt_${deliveryId(eventId, destinationId).slice(4)}_${at.toString(36)}`;
}

/** Whether the archive has nothing of the attempt any more, and never will have. */
async function isEmptied(services: Services, delivery: FoundDelivery, entry: AttemptEntry): Promise<boolean> {
  const archive = archiveOf(services);
  if (archive === undefined || !mayBeArchived(services.config, entry)) return true;
  const { eventId: event, destinationId: destination } = delivery;
  try {
    await emptyExchange(archive, { event, destination, at: entry.at });
    return true;
  } catch (error) {
    services.log({ what: "exchanges_not_removed", exchanges: 1, error: faultOf(error) });
    return false;
  }
}

function attemptView(delivery: FoundDelivery, entry: AttemptEntry, withContent = true) {
  const { eventId, destinationId, destination } = delivery;
  const { at, latencyMs, status, error, excerpt } = entry;
  const isSuccess = error === undefined && status !== undefined && status >= 200 && status < 300;
  return {
    id: attemptId(delivery, entry),
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

export function stateView(delivery: FoundDelivery) {
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
