/**
 * Attempts: the entries of deliveries' logs, the newest first; the endpoints of a message; and resending.
 *
 * The lists read stored deliveries, and call no gate. Those by endpoint page through deliveries, which have any number
 * of attempts: an iterator names the last delivery and attempt that were shown, so that new ones since then move
 * nothing.
 */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { databaseNumberOf } from "../../core/placement.ts";
import type { Application } from "../../features/applications/sql.ts";
import { attemptId, attemptIn, removeAttemptContent } from "../../features/deliveries/attempts.ts";
import { retryDelivery } from "../../features/deliveries/repairs.ts";
import { findDeliveries, findOneDelivery } from "../../features/deliveries/service.ts";
import { cursorParam } from "../../features/parameters.ts";
import { deliveryId, deliveryKey, eventId as idOfEvent } from "../../ids.ts";
import { allOf, type Databases } from "../../store/databases.ts";
import { type AttemptEntry, entriesIn, type StoredState } from "../../store/delivery.ts";
import { type FoundDelivery, type Positions, START } from "../../store/delivery-list.ts";
import { isoTime } from "../../time.ts";
import { requires } from "../auth.ts";
import type { ApiContext, ApiEnv } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { answerOf } from "../problems.ts";
import { endpointOf, endpointView, type NamedEndpoint, namedEndpoint } from "./endpoints.ts";
import { messageNumberOf, messageOf, messageQuery, storedMessage } from "./messages.ts";
import {
  applicationOf,
  callerWithin,
  flag,
  granted,
  listOf,
  noContent,
  notFoundProblem,
  pageBefore,
  pageQuery,
  queryOf,
  refuse,
  refuseFields,
  unsupported,
} from "./shapes.ts";

const MESSAGE = "/api/v1/app/:app/msg/:msg";

export function registerAttempts(app: Hono<ApiEnv>): void {
  app.get("/api/v1/app/:app/attempt/endpoint/:endpoint", requires("read"), attemptsOfEndpoint);
  app.get("/api/v1/app/:app/attempt/msg/:msg", requires("read"), attemptsOfMessage);

  app.get(`${MESSAGE}/endpoint`, requires("read"), async (c) => {
    const query = queryOf(c, z.object(pageQuery));
    const application = await applicationOf(c);
    const { deliveries } = await messageOf(c, application);
    const shown = deliveries.flatMap((delivery) => {
      const { destination } = delivery;
      if (destination === null || destination.deletedAt !== null) return [];
      return [{ ...endpointView(destination, application), ...stateView(delivery) }];
    });
    return c.json(pageAfter(shown, query));
  });

  app.get(`${MESSAGE}/attempt/:attempt`, requires("read"), async (c) => {
    const query = queryOf(c, z.object({ with_content: flag }));
    const { application, id, delivery } = await attemptOf(c);
    const found = await findOneDelivery(callerWithin(c, application), delivery);
    const shown =
      found.kind === "ok" && attemptsOf(found.value, query.with_content).find((one) => one.id === id);
    return shown ? c.json(shown) : missingOf(c, application, notFoundProblem("attempt", id));
  });

  app.delete(`${MESSAGE}/attempt/:attempt/content`, requires("admin"), async (c) => {
    const { application, id } = await attemptOf(c);
    const removed = await removeAttemptContent(callerWithin(c, application), id);
    if (removed.kind === "not_found") return missingOf(c, application, notFoundProblem("attempt", id));
    return noContent(c, removed);
  });

  app.post(
    `${MESSAGE}/endpoint/:endpoint/resend`,
    requires("admin"),
    jsonBody({ mayBeEmpty: true }),
    async (c) => {
      const { application, row } = await endpointOf(c);
      const number = await messageNumberOf(c, application);
      if (number === undefined) return notFoundProblem("message", c.req.param("msg"));
      const retried = await retryDelivery(callerWithin(c, application), deliveryId(number, row.id));
      if (retried.kind === "not_found") return missingOf(c, application, answerOf(retried));
      granted(retried);
      return c.json({}, 202);
    },
  );
}

/** The attempt that the path names, whether there is one or not; the 404 where it cannot be one of the message. */
async function attemptOf(c: ApiContext) {
  const application = await applicationOf(c);
  const id = c.req.param("attempt") ?? "";
  const { delivery = "" } = attemptIn(id) ?? {};
  const key = deliveryKey(delivery);
  const isOfMessage = key !== undefined && key.eventId === (await messageNumberOf(c, application));
  if (!isOfMessage) refuse(await missingOf(c, application, notFoundProblem("attempt", id)));
  return { application, id, delivery };
}

/** The 404 of the message, if it is missing; else that of the object within it. Only for this, a message is read whole. */
async function missingOf(c: ApiContext, application: Application, ofThing: Response): Promise<Response> {
  await messageOf(c, application);
  return ofThing;
}

const STATUS_EXPECTED = "expected 0 (success), 1 (pending), 2 (fail), 3 (sending) or 4 (canceled)";

export const statusParam = z.enum(["0", "1", "2", "3", "4"], STATUS_EXPECTED).transform(Number).optional();

const attemptQuery = {
  ...messageQuery,
  status: statusParam,
  status_code_class: z
    .enum(["0", "100", "200", "300", "400", "500"], "expected 0, 100, 200, 300, 400 or 500")
    .transform(Number)
    .optional(),
  with_msg: flag,
};

const position = z.object({ destinationId: z.string(), eventId: z.int().nonnegative() });

const MOST_DELIVERIES = 100;

/**
 * The position in each database after which to continue, and for a delivery that was shown in part, until when (epoch
 * ms).
 */
export const windowIterator = cursorParam(
  z.object({
    before: z.array(position).min(1),
    part: z.object({ event: z.int().nonnegative(), at: z.int() }).optional(),
  }),
);

const endpointQuery = z.object({ ...attemptQuery, iterator: windowIterator });

type EndpointQuery = z.infer<typeof endpointQuery>;

async function attemptsOfEndpoint(c: ApiContext): Promise<Response> {
  const query = queryOf(c, endpointQuery);
  refuseTypes(query);
  refuseFields([query.with_msg && unsupported("query.with_msg", "false: messages are shown by themselves")]);
  const { pageOf } = await deliveryRecordsOf(c, await endpointOf(c), query, {});
  const isWanted = wantedBy(query);
  const page = pageOf(query.limit, (delivery) =>
    attemptsOf(delivery, query.with_content)
      .filter(isWanted)
      .map((entry) => ({ entry, at: Date.parse(entry.timestamp) })),
  );
  return c.json(page);
}

/** Filters take one type or none: a walk through deliveries compares one. */
export function refuseTypes({ event_types: types = [] }: Pick<WindowQuery, "event_types">): void {
  refuseFields([types.length > 1 && unsupported("query.event_types", "one event type, or none")]);
}

type WindowQuery = Pick<EndpointQuery, "limit" | "iterator" | "event_types" | "tag" | "channel">;

type WindowFilter = Readonly<{
  state?: StoredState | undefined;
  since?: number | undefined;
  until?: number | undefined;
}>;

/** The window of an endpoint's deliveries that the query's iterator names, or the first one. */
export async function deliveryRecordsOf(
  c: ApiContext,
  { application, row }: NamedEndpoint,
  { limit, iterator, event_types: types = [], tag, channel }: WindowQuery,
  filter: WindowFilter,
) {
  const services = c.get("services");
  const { before, part } = iterator ?? {};
  const listed = await findDeliveries(callerWithin(c, application), {
    ...{ destination_id: row.id, type: types[0], tag, channel, cursor: before, ...filter },
    limit: Math.min(limit, MOST_DELIVERIES),
  });
  const { found, next } = granted(listed);
  /**
   * The next entries, at most `most`.
   * @param entriesOf those of a delivery, the newest first, each with a time of its own (epoch ms)
   */
  const pageOf = <T>(most: number, entriesOf: (delivery: FoundDelivery) => readonly Timed<T>[]) => {
    const data: T[] = [];
    for (const [i, delivery] of found.entries()) {
      const { eventId: event } = delivery;
      const left = entriesOf(delivery).filter(({ at }) => part?.event !== event || at < part.at);
      const shown = left.slice(0, most - data.length);
      data.push(...shown.map(({ entry }) => entry));
      if (shown.length === left.length) continue;
      const from = positionsBefore(services, before, found.slice(0, i), delivery);
      const last = shown.at(-1)?.at ?? (part?.event === event ? part.at : undefined);
      return pageBefore(data, { before: from, ...(last !== undefined && { part: { event, at: last } }) });
    }
    return pageBefore(data, next && { before: next });
  };
  return { found, pageOf };
}

type Timed<T> = Readonly<{ entry: T; at: number }>;

/** Where each database's deliveries continue after those that are shown whole, with the next one as the first. */
function positionsBefore(
  services: Databases,
  before: Positions | undefined,
  shown: readonly FoundDelivery[],
  next: FoundDelivery,
): Positions {
  return allOf(services).map((_, number) => {
    const isHere = ({ eventId }: FoundDelivery) => databaseNumberOf(eventId) === number;
    const last = shown.findLast(isHere);
    if (last) return { destinationId: last.destinationId, eventId: last.eventId };
    // A position before it, so that newer ones are left out.
    if (isHere(next)) return { destinationId: next.destinationId, eventId: next.eventId + 1 };
    return before?.[number] ?? START;
  });
}

const messageAttemptQuery = z.object({ ...attemptQuery, endpoint_id: z.string().optional() });

async function attemptsOfMessage(c: ApiContext): Promise<Response> {
  const query = queryOf(c, messageAttemptQuery);
  const application = await applicationOf(c);
  const { event, deliveries } = await messageOf(c, application);
  const services = c.get("services");
  const { endpoint_id: name, event_types: types, tag, channel } = query;
  const endpoint = name === undefined ? undefined : await namedEndpoint(services.db, application, name);
  const isWanted = wantedBy(query);
  const isOfMessage =
    (types?.includes(event.type) ?? true) &&
    (tag === undefined || event.tags.includes(tag)) &&
    (channel === undefined || event.channels.includes(channel));
  const attempts = deliveries
    .filter(({ destinationId }) => name === undefined || destinationId === endpoint?.id)
    .flatMap((delivery) => attemptsOf(delivery, query.with_content))
    .filter((one) => isOfMessage && isWanted(one))
    .toSorted((a, b) => (a.timestamp < b.timestamp ? 1 : -1));
  const page = pageAfter(attempts, query);
  if (query.with_msg !== true) return c.json(page);
  const msg = await storedMessage(c, application, event, query.with_content);
  return c.json({ ...page, data: page.data.map((one) => ({ ...one, msg })) });
}

/** The page after the entry with the id; empty if there is no such entry. */
function pageAfter<T extends { id: string }>(
  entries: readonly T[],
  { limit, iterator }: { limit: number; iterator?: string | undefined },
) {
  const at = iterator === undefined ? -1 : entries.findIndex(({ id }) => id === iterator);
  const rest = iterator !== undefined && at < 0 ? [] : entries.slice(at + 1);
  return listOf(rest, limit, ({ id }) => id);
}

type AttemptFilter = Pick<EndpointQuery, "status" | "status_code_class" | "before" | "after">;

type Attempt = ReturnType<typeof attemptsOf>[number];

function wantedBy({ status, status_code_class: ofClass, before, after }: AttemptFilter) {
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
  const log = delivery.kind === "stored" ? entriesIn(delivery.row.log) : [];
  return log.toReversed().map((entry) => attemptView(delivery, entry, withContent));
}

function attemptView(delivery: FoundDelivery, entry: AttemptEntry, withContent: boolean) {
  const { eventId, destinationId, destination } = delivery;
  const { at, latencyMs, status, error, excerpt } = entry;
  const isSuccess = error === undefined && status !== undefined && status >= 200 && status < 300;
  return {
    id: attemptId(deliveryId(eventId, destinationId), at),
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

const statusOfState = {
  delivered: "success",
  dead: "fail",
  cancelled: "canceled",
  waiting: "pending",
  in_flight: "pending",
  retrying: "pending",
} as const;

export function stateView(delivery: FoundDelivery) {
  const [status, at] =
    delivery.kind === "planned"
      ? (["pending", delivery.deliverAt] as const)
      : ([statusOfState[delivery.row.state], delivery.row.nextAttemptAt] as const);
  return { ...statusView(status), nextAttempt: status === "pending" ? isoTime(at) : null };
}
