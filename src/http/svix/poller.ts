/** Polling endpoints: destinations of the kind `poll`, which are made over Breakwater's own API. */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { channelShape } from "../../core/routing.ts";
import { zodOf } from "../../core/zod-of.ts";
import { eventType, timeParam } from "../../features/parameters.ts";
import { type LoadedPage, pollInLoop, readFromPosition, seekPoll } from "../../features/polling/service.ts";
import { permitting } from "../auth.ts";
import type { ApiContext, ApiEnv } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { answerOf } from "../problems.ts";
import { namedEndpoint } from "./endpoints.ts";
import { loadedMessageViews } from "./messages.ts";
import { applicationOf, bodyOf, callerWithin, notFoundProblem, pageQuery, queryOf } from "./shapes.ts";

const POLLER = "/api/v1/app/:app/poller/:sink";

export function registerPoller(app: Hono<ApiEnv>): void {
  app.get(POLLER, permitting(readFromPosition.permission), async (c) => {
    const query = queryOf(c, readQuery);
    if (query instanceof Response) return query;
    const found = await inboxOf(c);
    if (found instanceof Response) return found;
    const { caller, id } = found;
    const { limit, iterator, after, event_type: type, channel } = query;
    const read = await readFromPosition(caller, { id, limit, iterator, after });
    if (read.kind !== "ok") return answerOf(read);
    const page = await pageOf(found, read.value);
    const isWanted = (one: (typeof page.data)[number]) =>
      (type ?? one.eventType) === one.eventType && (channel === undefined || one.channels?.includes(channel));
    return c.json({ ...page, data: page.data.filter(isWanted) });
  });

  app.get(`${POLLER}/consumer/:consumer`, permitting(pollInLoop.permission), async (c) => {
    const query = queryOf(c, z.object(pageQuery));
    if (query instanceof Response) return query;
    const found = await inboxOf(c);
    if (found instanceof Response) return found;
    const { caller, id } = found;
    const polled = await pollInLoop(caller, { id, consumer: c.req.param("consumer"), ...query });
    return polled.kind === "ok" ? c.json(await pageOf(found, polled.value)) : answerOf(polled);
  });

  app.post(`${POLLER}/consumer/:consumer/seek`, permitting(seekPoll.permission), jsonBody(), async (c) => {
    const input = await bodyOf(c, seekInput);
    if (input instanceof Response) return input;
    const found = await inboxOf(c);
    if (found instanceof Response) return found;
    const consumer = c.req.param("consumer");
    const done = await seekPoll(found.caller, { id: found.id, consumer, since: input.after });
    return done.kind === "ok" ? c.json({ iterator: `${consumer}.0` }) : answerOf(done);
  });
}

const readQuery = z.object({
  ...pageQuery,
  after: timeParam.optional(),
  event_type: eventType.optional(),
  channel: zodOf(channelShape).optional(),
});

const seekInput = z.object({ after: timeParam });

/** The destination that the path names by id or `uid`, and whose request it is; or the 404. */
async function inboxOf(c: ApiContext) {
  const application = await applicationOf(c);
  if (application instanceof Response) return application;
  const name = c.req.param("sink") ?? "";
  const row = await namedEndpoint(c.get("services").db, application, name);
  if (row === undefined) return notFoundProblem("polling endpoint", name);
  return { application, id: row.id, caller: callerWithin(c, application) };
}

async function pageOf(
  { application, caller }: Exclude<Awaited<ReturnType<typeof inboxOf>>, Response>,
  { deliveries, iterator, isLast }: LoadedPage,
) {
  const events = deliveries.map(({ event }) => event);
  const views = await loadedMessageViews(caller, application, events);
  const data = views.map((view, i) => {
    const fault = deliveries[i]?.fault;
    return fault === undefined ? view : { ...view, payload: {}, fault };
  });
  return { data, iterator, done: isLast };
}
