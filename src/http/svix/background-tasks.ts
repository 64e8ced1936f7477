/**
 * Background tasks: replays of endpoints. `recover` sends what has failed once more, `bulk-replay` what has failed or what
 * was delivered, and `replay-missing` what the endpoint has never got. A task has the id of its replay.
 */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { checked } from "../../core/field-errors.ts";
import { type FieldError, invalidFields } from "../../core/result.ts";
import { getErasure, getErasures } from "../../features/erasures/service.ts";
import type { Erasure } from "../../features/erasures/sql.ts";
import { cursorParam, encodeCursor, timeParam } from "../../features/parameters.ts";
import { newReplay } from "../../features/replays/schema.ts";
import { getReplay, getReplays, startReplay } from "../../features/replays/service.ts";
import { type Replay, replayUnderWay } from "../../store/replays.ts";
import { isoTime } from "../../time.ts";
import { requires } from "../auth.ts";
import { type ApiContext, type ApiEnv, callerIn } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { answerOf, invalid } from "../problems.ts";
import { erasureTask } from "./content.ts";
import { endpointOf } from "./endpoints.ts";
import { bodyOf, notFoundProblem, pageQuery, queryOf, renamedRefusal, unsupported } from "./shapes.ts";

const ENDPOINT = "/api/v1/app/:app/endpoint/:endpoint";
const LIST = "/api/v1/background-task";

export function registerBackgroundTasks(app: Hono<ApiEnv>): void {
  app.post(`${ENDPOINT}/recover`, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, range);
    return input instanceof Response ? input : replayTask(c, { ...input, include: "dead" });
  });

  app.post(`${ENDPOINT}/replay-missing`, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, range);
    return input instanceof Response ? input : replayTask(c, { ...input, include: "missing" });
  });

  app.post(`${ENDPOINT}/bulk-replay`, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, bulk);
    if (input instanceof Response) return input;
    const { status, channel, statusCodeClass } = input;
    const errors = [
      ...(channel == null ? [] : [unsupported("channel", "none: use a tag or event types")]),
      ...(statusCodeClass == null ? [] : [unsupported("statusCodeClass", "none")]),
      ...(status == null ? [bothKinds] : []),
    ];
    if (errors.length > 0) return invalid(errors);
    return replayTask(c, { ...input, include: status === 0 ? "delivered" : "dead" });
  });

  app.get(LIST, requires("read"), listTasks);

  app.get(`${LIST}/:task`, requires("read"), async (c) => {
    const name = c.req.param("task");
    if (name.startsWith("era_")) return shownErasure(c, name);
    const found = await getReplay(callerIn(c), name);
    return found.kind === "ok" && isTask(found.value)
      ? c.json(taskView(found.value))
      : notFoundProblem("background task", name);
  });
}

const range = z.object({ since: timeParam, until: timeParam.nullish() });

const STATUS_EXPECTED = "expected 0 (the delivered ones) or 2 (the failed ones)";

const bulk = range.extend({
  eventTypes: z.unknown().optional(),
  tag: z.unknown().optional(),
  channel: z.unknown().optional(),
  statusCodeClass: z.unknown().optional(),
  status: z.union([z.literal(0), z.literal(2)], { error: STATUS_EXPECTED }).nullish(),
});

const bothKinds: FieldError = {
  field: "status",
  fault: "is missing: a replay is of one kind",
  expected: STATUS_EXPECTED.replace("expected ", ""),
};

type Asked = Readonly<{
  include: Replay["include"];
  /** Epoch ms. */
  since: number;
  until?: number | null | undefined;
  eventTypes?: unknown;
  tag?: unknown;
}>;

const NAMES = { event_types: "eventTypes" };

async function replayTask(c: ApiContext, asked: Asked): Promise<Response> {
  const found = await endpointOf(c);
  if (found instanceof Response) return found;
  const { db, now } = c.get("services");
  const { since, until, include, eventTypes, tag } = asked;
  const body = {
    destination_id: found.row.id,
    include,
    since: isoTime(since),
    // A `since` in the future is the fault that is reported, and not the end that follows from it.
    until: isoTime(until ?? Math.max(now(), since + 1)),
    event_types: eventTypes,
    tag,
  };
  const read = checked(newReplay, body);
  const started = "data" in read ? await startReplay(callerIn(c), read.data) : invalidFields(read);
  if (started.kind === "ok") {
    const { id, updatedAt } = started.value;
    return c.json({ id, status: "running", task: taskOf(include), updatedAt: isoTime(updatedAt) }, 202);
  }
  // The SDKs count their own repeats of a request: such a one gets the task that it has started.
  const isRepeat = started.kind === "conflict" && c.req.header("svix-retry-count") !== undefined;
  const other = isRepeat ? await replayUnderWay(db, found.row.id) : undefined;
  if (other?.include !== include || other.since !== since) return answerOf(renamedRefusal(started, NAMES));
  const { data: _, ...view } = taskView(other);
  return c.json(view, 202);
}

const STATUSES = ["running", "finished", "failed"] as const;
const TASKS = ["endpoint.recover", "endpoint.bulk-replay", "endpoint.replay"] as const;
const TASKS_KNOWN = [
  "application.stats",
  "message.broadcast",
  "sdk.generate",
  "event-type.aggregate",
] as const;

const listQuery = z.object({
  ...pageQuery,
  iterator: cursorParam(z.int().positive()),
  status: z.enum(STATUSES, { error: `expected ${STATUSES.join(", ")}` }).optional(),
  task: z
    .enum([...TASKS, ...TASKS_KNOWN, "application.purge_content"], {
      error: `expected ${TASKS.join(", ")}`,
    })
    .optional(),
  order: z.enum(["descending"], { error: "expected descending: the newest task comes first" }).optional(),
});

/** The newest first. A page may be short, and still have a next one: it is filtered after it is read. */
async function listTasks(c: ApiContext): Promise<Response> {
  const query = queryOf(c, listQuery);
  if (query instanceof Response) return query;
  if (query.task === "application.purge_content") return listPurges(c, query);
  const { limit, iterator: before, status, task } = query;
  const filter = { destinationId: undefined, state: undefined, before, limit };
  const listed = await getReplays(callerIn(c), filter);
  if (listed.kind !== "ok") return answerOf(listed);
  const { replays, next } = listed.value;
  const data = replays
    .filter(isTask)
    .map(taskView)
    .filter((one) => (status ?? one.status) === one.status && (task ?? one.task) === one.task);
  const iterator = next === undefined ? null : encodeCursor(next);
  return c.json({ data, iterator, prevIterator: null, done: next === undefined });
}

/** Erasures of whole tenants are listed where this task is asked for: they are jobs of another kind, in another order. */
async function listPurges(
  c: ApiContext,
  { limit, iterator: before, status }: z.infer<typeof listQuery>,
): Promise<Response> {
  const listed = await getErasures(callerIn(c), { before, limit: Math.min(limit, 100) });
  if (listed.kind !== "ok") return answerOf(listed);
  const { erasures, next } = listed.value;
  const data = erasures
    .filter(isPurge)
    .map(erasureTask)
    .filter((one) => (status ?? one.status) === one.status);
  const iterator = next === undefined ? null : encodeCursor(next);
  return c.json({ data, iterator, prevIterator: null, done: next === undefined });
}

async function shownErasure(c: ApiContext, id: string): Promise<Response> {
  const found = await getErasure(callerIn(c), id);
  if (found.kind === "ok" && isPurge(found.value)) return c.json(erasureTask(found.value));
  return found.kind === "forbidden" ? answerOf(found) : notFoundProblem("background task", id);
}

function isPurge({ tenant, kind }: Erasure): boolean {
  return kind === "tenant" && tenant.startsWith("app_");
}

/** Tenants of the native API are no applications, and their replays no tasks. */
function isTask({ tenant }: Replay): boolean {
  return tenant.startsWith("app_");
}

const tasks = {
  dead: "endpoint.recover",
  delivered: "endpoint.bulk-replay",
  missing: "endpoint.replay",
} as const satisfies Record<Replay["include"], (typeof TASKS)[number]>;

function taskOf(include: Replay["include"]): (typeof TASKS)[number] {
  return tasks[include];
}

const statusOf = {
  running: "running",
  paused: "running",
  completed: "finished",
  cancelled: "failed",
} as const satisfies Record<Replay["state"], (typeof STATUSES)[number]>;

function taskView({ id, state, include, requeued, updatedAt }: Replay) {
  return {
    id,
    status: statusOf[state],
    task: taskOf(include),
    data: { messagesSent: requeued },
    updatedAt: isoTime(updatedAt),
  };
}
