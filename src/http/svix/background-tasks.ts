/**
 * Background tasks: replays of endpoints. `recover` sends failed messages once more, `bulk-replay` failed or delivered
 * ones, and `replay-missing` those that the endpoint has never got. A task has the id of its replay.
 */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { atField } from "../../core/result.ts";
import { getErasure, getErasures } from "../../features/erasures/service.ts";
import type { Erasure } from "../../features/erasures/sql.ts";
import { cursorParam, timeParam } from "../../features/parameters.ts";
import { newReplay } from "../../features/replays/schema.ts";
import { getReplay, getReplays, startReplay } from "../../features/replays/service.ts";
import { type Replay, replayUnderWay } from "../../store/replays.ts";
import { isoTime } from "../../time.ts";
import { requires } from "../auth.ts";
import { type ApiContext, type ApiEnv, callerIn } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { answerOf } from "../problems.ts";
import { erasureTask } from "./content.ts";
import { endpointOf } from "./endpoints.ts";
import {
  bodyOf,
  granted,
  notFoundProblem,
  pageBefore,
  pageQuery,
  queryOf,
  refuseFields,
  unsupported,
  validated,
} from "./shapes.ts";

const ENDPOINT = "/api/v1/app/:app/endpoint/:endpoint";
const LIST = "/api/v1/background-task";

export function registerBackgroundTasks(app: Hono<ApiEnv>): void {
  for (const [path, include] of Object.entries({ recover: "dead", "replay-missing": "missing" } as const))
    app.post(`${ENDPOINT}/${path}`, requires("admin"), jsonBody(), async (c) =>
      replayTask(c, { ...(await bodyOf(c, range)), include }),
    );

  app.post(`${ENDPOINT}/bulk-replay`, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, bulk);
    const { status, channel, statusCodeClass } = input;
    refuseFields([
      channel != null && unsupported("channel", "none: use a tag or event types"),
      statusCodeClass != null && unsupported("statusCodeClass", "none"),
      status == null && atField("status", "is missing: a replay is of one kind", STATUSES_TAKEN),
    ]);
    return replayTask(c, { ...input, include: status === 0 ? "delivered" : "dead" });
  });

  app.get(LIST, requires("read"), listTasks);

  app.get(`${LIST}/:task`, requires("read"), async (c) => {
    const name = c.req.param("task");
    if (name.startsWith("era_")) return shownErasure(c, name);
    const found = await getReplay(callerIn(c), name);
    return found.kind === "ok" && isOfApplication(found.value)
      ? c.json(taskView(found.value))
      : notFoundProblem("background task", name);
  });
}

const range = z.object({ since: timeParam, until: timeParam.nullish() });

const STATUSES_TAKEN = "0 (the delivered ones) or 2 (the failed ones)";

const bulk = range.extend({
  eventTypes: z.unknown().optional(),
  tag: z.unknown().optional(),
  channel: z.unknown().optional(),
  statusCodeClass: z.unknown().optional(),
  status: z.union([z.literal(0), z.literal(2)], `expected ${STATUSES_TAKEN}`).nullish(),
});

type Asked = Readonly<{
  include: Replay["include"];
  /** Epoch ms. */
  since: number;
  until?: number | null | undefined;
  eventTypes?: unknown;
  tag?: unknown;
}>;

async function replayTask(c: ApiContext, asked: Asked): Promise<Response> {
  const { row } = await endpointOf(c);
  const { db, now } = c.get("services");
  const { since, until, include, eventTypes, tag } = asked;
  const names = { event_types: "eventTypes" };
  const replay = validated(
    newReplay,
    {
      destination_id: row.id,
      include,
      since: isoTime(since),
      // A `since` in the future is the reported fault, and not the end that follows from it.
      until: isoTime(until ?? Math.max(now(), since + 1)),
      event_types: eventTypes,
      tag,
    },
    names,
  );
  const started = await startReplay(callerIn(c), replay);
  // The SDKs count their own repeats of a request: a repeat gets the task that it has started.
  const isRepeat = started.kind === "conflict" && c.req.header("svix-retry-count") !== undefined;
  const other = isRepeat ? await replayUnderWay(db, row.id) : undefined;
  const isSame = other?.include === include && other.since === since;
  const { data: _, ...view } = taskView(isSame ? other : granted(started, names));
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
  status: z.enum(STATUSES, `expected ${STATUSES.join(", ")}`).optional(),
  task: z
    .enum([...TASKS, ...TASKS_KNOWN, "application.purge_content"], `expected ${TASKS.join(", ")}`)
    .optional(),
  order: z.enum(["descending"], "expected descending: the newest task comes first").optional(),
});

/** The newest first. A page may be short, and still have a next one: it is filtered after it is read. */
async function listTasks(c: ApiContext): Promise<Response> {
  const { limit, iterator: before, status, task } = queryOf(c, listQuery);
  const page = { before, limit };
  const { data, next } = await (task === "application.purge_content"
    ? purges(c, page)
    : replayTasks(c, page));
  const isAsked = (one: (typeof data)[number]) =>
    (status ?? one.status) === one.status && (task ?? one.task) === one.task;
  return c.json(pageBefore(data.filter(isAsked), next));
}

type TaskPage = Readonly<{ before: number | undefined; limit: number }>;
type Task = ReturnType<typeof taskView> | ReturnType<typeof erasureTask>;
type Tasks = Promise<Readonly<{ data: readonly Task[]; next: number | undefined }>>;

async function replayTasks(c: ApiContext, page: TaskPage): Tasks {
  const filter = { destinationId: undefined, state: undefined, ...page };
  const { replays, next } = granted(await getReplays(callerIn(c), filter));
  return { data: replays.filter(isOfApplication).map(taskView), next };
}

/** Erasures of whole tenants are listed if this task is requested: they are jobs of another kind, in another order. */
async function purges(c: ApiContext, { before, limit }: TaskPage): Tasks {
  const page = { before, limit: Math.min(limit, 100) };
  const { erasures, next } = granted(await getErasures(callerIn(c), page));
  return { data: erasures.filter(isPurge).map(erasureTask), next };
}

async function shownErasure(c: ApiContext, id: string): Promise<Response> {
  const found = await getErasure(callerIn(c), id);
  if (found.kind === "ok" && isPurge(found.value)) return c.json(erasureTask(found.value));
  return found.kind === "forbidden" ? answerOf(found) : notFoundProblem("background task", id);
}

function isPurge(erasure: Erasure): boolean {
  return erasure.kind === "tenant" && isOfApplication(erasure);
}

/** Tenants of the native API are no applications, and their replays and erasures no tasks. */
function isOfApplication({ tenant }: Pick<Replay, "tenant">): boolean {
  return tenant.startsWith("app_");
}

const tasks = {
  dead: "endpoint.recover",
  delivered: "endpoint.bulk-replay",
  missing: "endpoint.replay",
} as const satisfies Record<Replay["include"], (typeof TASKS)[number]>;

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
    task: tasks[include],
    data: { messagesSent: requeued },
    updatedAt: isoTime(updatedAt),
  };
}
