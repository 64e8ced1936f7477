/** Polling endpoints: destinations of the kind `poll`, which are made over Breakwater's own API. */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import type { Result } from "../../core/result.ts";
import { channelShape } from "../../core/routing.ts";
import { zodOf } from "../../core/zod-of.ts";
import { eventType, timeParam } from "../../features/parameters.ts";
import { type LoadedPage, pollInLoop, readFromPosition, seekPoll } from "../../features/polling/service.ts";
import { permitting } from "../auth.ts";
import type { ApiContext, ApiEnv } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { namedEndpoint } from "./endpoints.ts";
import { loadedMessageViews } from "./messages.ts";
import { applicationOf, bodyOf, callerWithin, granted, pageQuery, queryOf, refuseUnknown } from "./shapes.ts";

const POLLER = "/api/v1/app/:app/poller/:sink";

export function registerPoller(app: Hono<ApiEnv>): void {
  app.get(POLLER, permitting(readFromPosition.permission), async (c) => {
    const { limit, iterator, after, event_type: type, channel } = queryOf(c, readQuery);
    const inbox = await inboxOf(c);
    const { caller, id } = inbox;
    const page = await pageOf(inbox, await readFromPosition(caller, { id, limit, iterator, after }));
    const isWanted = (one: (typeof page.data)[number]) =>
      (type ?? one.eventType) === one.eventType && (channel === undefined || one.channels?.includes(channel));
    return c.json({ ...page, data: page.data.filter(isWanted) });
  });

  app.get(`${POLLER}/consumer/:consumer`, permitting(pollInLoop.permission), async (c) => {
    const query = queryOf(c, z.object(pageQuery));
    const inbox = await inboxOf(c);
    const { caller, id } = inbox;
    const polled = await pollInLoop(caller, { id, consumer: c.req.param("consumer"), ...query });
    return c.json(await pageOf(inbox, polled));
  });

  app.post(`${POLLER}/consumer/:consumer/seek`, permitting(seekPoll.permission), jsonBody(), async (c) => {
    const { after: since } = await bodyOf(c, seekInput);
    const { caller, id } = await inboxOf(c);
    const consumer = c.req.param("consumer");
    granted(await seekPoll(caller, { id, consumer, since }));
    return c.json({ iterator: `${consumer}.0` });
  });
}

const readQuery = z.object({
  ...pageQuery,
  after: timeParam.optional(),
  event_type: eventType.optional(),
  channel: zodOf(channelShape).optional(),
});

const seekInput = z.object({ after: timeParam });

/** The destination that the path names by id or `uid`, with the caller; or the 404. */
async function inboxOf(c: ApiContext) {
  const application = await applicationOf(c);
  const name = c.req.param("sink") ?? "";
  const row = await namedEndpoint(c.get("services").db, application, name);
  if (row === undefined) return refuseUnknown("polling endpoint", name);
  return { application, id: row.id, caller: callerWithin(c, application) };
}

async function pageOf(
  { application, caller }: Awaited<ReturnType<typeof inboxOf>>,
  read: Result<LoadedPage>,
) {
  const { deliveries, iterator, isLast } = granted(read);
  const events = deliveries.map(({ event }) => event);
  const views = await loadedMessageViews(caller, application, events);
  const data = views.map((view, i) => {
    const fault = deliveries[i]?.fault;
    return fault === undefined ? view : { ...view, payload: {}, fault };
  });
  return { data, iterator, done: isLast };
}
