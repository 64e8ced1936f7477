/** Removing the content of messages: erasures of events. The rest of a message stays listed. */
import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { missing } from "../../core/result.ts";
import type { Application } from "../../features/applications/sql.ts";
import { beginErasure } from "../../features/erasures/service.ts";
import type { Erasure } from "../../features/erasures/sql.ts";
import { eventId } from "../../ids.ts";
import { isoTime } from "../../time.ts";
import { requires } from "../auth.ts";
import { type ApiContext, type ApiEnv, callerIn } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { messageNumber } from "./messages.ts";
import { applicationOf, bodyOf, granted } from "./shapes.ts";

const LIST = "/api/v1/app/:app/msg";

/** Messages of one request: an erasure takes several queries, of which a request has a bounded number. */
const MOST_MESSAGES = 50;

export function registerContent(app: Hono<ApiEnv>): void {
  app.post(`${LIST}/bulk-expunge`, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, bulk);
    const application = await applicationOf(c);
    const results: [string, "expunged" | "not-found"][] = [];
    for (const name of new Set(input.ids)) {
      const erased = await erase(c, application, name);
      if (erased.kind !== "not_found") granted(erased);
      results.push([name, erased.kind === "ok" ? "expunged" : "not-found"]);
    }
    return c.json({ results: Object.fromEntries(results) });
  });

  app.post(`${LIST}/expunge-all-contents`, requires("admin"), jsonBody({ mayBeEmpty: true }), async (c) => {
    const { id: tenant } = await applicationOf(c);
    const begun = await beginErasure(callerIn(c), { tenant, everything: true });
    const { data: _, ...task } = erasureTask(granted(begun));
    return c.json(task, 202);
  });
}

const IDS_EXPECTED = `expected a list of at most ${MOST_MESSAGES} ids or eventIds of messages`;

const bulk = z.object({
  ids: z
    .array(z.string(IDS_EXPECTED).max(256, IDS_EXPECTED), IDS_EXPECTED)
    .max(MOST_MESSAGES, IDS_EXPECTED)
    .default([]),
});

async function erase(c: ApiContext, application: Application, name: string) {
  const number = await messageNumber(c.get("services"), application, name);
  if (number === undefined) return missing("message", name);
  return beginErasure(callerIn(c), { tenant: application.id, event_id: eventId(number) });
}

const STATUSES = { running: "running", completed: "finished", incomplete: "failed" } as const;

export function erasureTask({ id, state, events, createdAt, endedAt }: Erasure) {
  return {
    id,
    status: STATUSES[state],
    task: "application.purge_content" as const,
    data: { messagesPurged: events },
    updatedAt: isoTime(endedAt ?? createdAt),
  };
}
