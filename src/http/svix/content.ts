/** Removing the content of messages: erasures of events. What is left of a message stays listed. */
import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import type { Application } from "../../features/applications/sql.ts";
import { eventId } from "../../ids.ts";
import { requires } from "../auth.ts";
import type { ApiContext, ApiEnv } from "../context.ts";
import { apiPath } from "../internal-path.ts";
import { jsonBody } from "../json-body.ts";
import { messageNumber } from "./messages.ts";
import type { CallNative, NativeResult } from "./native-api.ts";
import { applicationOf, bodyOf } from "./shapes.ts";

const LIST = "/api/v1/app/:app/msg";

/** Messages of one request: an erasure takes several queries, of which a request has a bounded number. */
const MOST_MESSAGES = 50;

export function registerContent(app: Hono<ApiEnv>, callNative: CallNative): void {
  app.post(`${LIST}/bulk-expunge`, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, bulk);
    if (input instanceof Response) return input;
    const application = await applicationOf(c);
    if (application instanceof Response) return application;
    const results: [string, "expunged" | "not-found"][] = [];
    for (const name of new Set(input.ids)) {
      const erased = await erase(c, callNative, application, name);
      if (erased && !erased.ok && erased.status !== 404) return erased.answer;
      results.push([name, erased?.ok ? "expunged" : "not-found"]);
    }
    return c.json({ results: Object.fromEntries(results) });
  });

  app.post(`${LIST}/expunge-all-contents`, requires("admin"), jsonBody({ mayBeEmpty: true }), async (c) => {
    const application = await applicationOf(c);
    if (application instanceof Response) return application;
    const body = { tenant: application.id, everything: true };
    const begun = await callNative(c, "POST", apiPath`/v1/erasures`, { body });
    if (!begun.ok) return begun.answer;
    const { data: _, ...task } = erasureTask(begun.json);
    return c.json(task, 202);
  });
}

const IDS_EXPECTED = `expected a list of at most ${MOST_MESSAGES} ids or eventIds of messages`;

const bulk = z.object({
  ids: z
    .array(z.string({ error: IDS_EXPECTED }).max(256, { error: IDS_EXPECTED }), { error: IDS_EXPECTED })
    .max(MOST_MESSAGES, { error: IDS_EXPECTED })
    .default([]),
});

/** Undefined where nothing has the name. */
async function erase(
  c: ApiContext,
  callNative: CallNative,
  application: Application,
  name: string,
): Promise<NativeResult | undefined> {
  const number = await messageNumber(c.get("services"), application, name);
  if (number === undefined) return undefined;
  const body = { tenant: application.id, event_id: eventId(number) };
  return callNative(c, "POST", apiPath`/v1/erasures`, { body });
}

const STATUSES = { running: "running", completed: "finished", incomplete: "failed" } as const;

/** An erasure, as the native API shows it, as a background task. */
export function erasureTask({ id, state, events, created_at, ended_at }: Readonly<Record<string, unknown>>) {
  return {
    id,
    status: STATUSES[state as keyof typeof STATUSES],
    task: "application.purge_content" as const,
    data: { messagesPurged: events },
    updatedAt: ended_at ?? created_at,
  };
}
