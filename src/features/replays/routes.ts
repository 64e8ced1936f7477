/**
 * Replays: started, listed, shown, paused, resumed and cancelled. A replay requeues the ended deliveries of a
 * destination, or plans missing ones, at a rate that follows how they do (replay/).
 */

import { createRoute, z } from "@hono/zod-openapi";
import { type ReplayReason, replayReasons } from "../../core/reasons.ts";
import type { FieldError } from "../../core/result.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import {
  cursorParam,
  encodeCursor,
  eventTypePattern,
  idParam,
  jsonAnswer,
  jsonRequest,
  limitParam,
  pageOf,
  rangeErrors,
  strict,
  timeParam,
} from "../../http/parameters.ts";
import { invalid, notFound, problem, problemResponses } from "../../http/problems.ts";
import { newReplayId } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { keptOfTenant } from "../../store/content-retention.ts";
import { sumOver } from "../../store/databases.ts";
import { type Destination, findDestination } from "../../store/destinations.ts";
import { beginReplay, countCandidates, LARGEST, partsOf } from "../../store/replay-steps.ts";
import {
  changeReplay,
  findReplay,
  listReplays,
  type Replay,
  type ReplayChange,
  replayUnderWay,
  summedUp,
  withParts,
} from "../../store/replays.ts";
import type { ReplayState } from "../../store/schema.ts";
import { idRangeOf } from "../../store/time-ranges.ts";
import { isoTime } from "../../time.ts";
import { changed } from "../audit/routes.ts";
import { eventTag } from "../events/options.ts";
import { enqueueReplayStep } from "./job.ts";

export function registerReplays(api: Api): void {
  api.openapi(postReplay, async (c) => {
    const services = c.get("services");
    const input = c.req.valid("json");
    const errors = [
      ...rangeErrors(input.since, input.until),
      ...futureErrors(input.since, services.now()),
      ...matchingErrors(input),
    ];
    if (errors.length > 0) return invalid(errors);
    const id = input.destination_id;
    const destination = await findDestination(services.db, id, c.get("principal").tenant);
    if (destination === undefined) return notFound("destination", id);
    const started = await start(services, destination, input);
    if (started.kind === "too_many") return invalid([tooMany]);
    if (started.kind === "occupied") return occupied(services, id);
    const { replay } = started;
    services.log({ what: "replay_begun", replay: replay.id, destination: id, include: replay.include });
    services.background(enqueueReplayStep(services, replay.id, services.now()));
    changed(c, "replay.started", replay);
    return c.json(replayView(replay), 201);
  });

  api.openapi(getReplays, async (c) => {
    const { destination_id: destinationId, state, limit, cursor: before } = c.req.valid("query");
    const { tenant } = c.get("principal");
    const filter = { tenant, destinationId, state, before, limit };
    const { replays, next } = await listReplays(c.get("services"), filter);
    const data = replays.map(replayView);
    return c.json({ data, next_cursor: next === undefined ? null : encodeCursor(next) }, 200);
  });

  api.openapi(getReplay, async (c) => {
    const { id } = c.req.valid("param");
    const replay = await findReplay(c.get("services"), id, c.get("principal").tenant);
    return replay ? c.json(replayView(replay), 200) : notFound("replay", id);
  });
}

export function registerReplayStatus(api: Api): void {
  const routes = [
    [pause, transitions.pause, "replay.paused"],
    [resume, transitions.resume, "replay.resumed"],
    [cancel, transitions.cancel, "replay.cancelled"],
  ] as const;
  for (const [route, transition, action] of routes) {
    api.openapi(route, async (c) => {
      const services = c.get("services");
      const { id } = c.req.valid("param");
      const before = await findReplay(services, id, c.get("principal").tenant);
      if (before === undefined) return notFound("replay", id);
      const after = await changeState(services, before, transition);
      if (after.state !== transition.to) return problem(409, `The replay has ended: it is ${after.state}`);
      if (after.state !== before.state) changed(c, action, after);
      return c.json(replayView(after), 200);
    });
  }
}

const RATE_EXPECTED = "expected a whole number from 1 to 6000";
const INCLUDE_EXPECTED = 'expected "dead", "delivered" or "missing"';
const includes = ["dead", "delivered", "missing"] as const;
const TYPES_EXPECTED = "expected a list of 1 to 100 event types or patterns";

const replayStates = ["running", "paused", "completed", "cancelled"] as const;

const newReplay = strict({
  destination_id: z.string({ error: "expected the id of a destination" }),
  since: timeParam.openapi({
    description: "Only events that were accepted at this time or later; a time in the past.",
    example: "2026-11-20T09:00:00Z",
  }),
  until: timeParam.openapi({
    description: "Only events that were accepted before this time; it is after `since`.",
    example: "2026-11-20T10:00:00Z",
  }),
  event_types: z
    .array(eventTypePattern, { error: TYPES_EXPECTED })
    .min(1, { error: TYPES_EXPECTED })
    .max(100, { error: TYPES_EXPECTED })
    .nullish()
    .openapi({ description: "Only events of these types; all when left out." }),
  tag: eventTag.nullish().openapi({ description: "Only events with this tag; all when left out." }),
  rate_per_minute: z
    .int({ error: RATE_EXPECTED })
    .min(1, { error: RATE_EXPECTED })
    .max(6000, { error: RATE_EXPECTED })
    .default(100)
    .openapi({ description: "The rate at first; it adapts between a tenth and ten times of this." }),
  include: z
    .enum(includes, { error: INCLUDE_EXPECTED })
    .default("dead")
    .openapi({
      description:
        "Which deliveries to send. `delivered` repeats history: the same ids, the same bytes. `missing` are events of the " +
        "destination's tenant that have no delivery to it, because it did not exist when they were accepted, or did not " +
        "take them.",
    }),
  matching: z
    .boolean({ error: "expected true or false" })
    .optional()
    .openapi({
      description:
        "Of `missing`: whether only events are sent that the destination takes by its present settings (`true`, unless " +
        "said otherwise), or all of its tenant's. Content that is not JSON goes only to destinations with " +
        '`body: "data"` in any case.',
    }),
}).openapi("NewReplay");

const time = z.iso.datetime();

const replaySchema = z
  .object({
    id: z.string(),
    tenant: z.string(),
    destination_id: z.string(),
    include: z.enum(includes),
    matching: z
      .boolean()
      .optional()
      .openapi({ description: "Of `missing` alone: whether the destination's settings apply." }),
    event_types: z.array(z.string()).nullable(),
    tag: z.string().nullable(),
    since: time,
    until: time,
    rate_per_minute: z.number(),
    state: z.enum(replayStates),
    reason: z
      .enum(replayReasons)
      .nullable()
      .openapi({
        description:
          "Why it is slower (`doubtful`: too many attempts fail), requeues nothing now (`stuck`: the destination is " +
          "blocked, or what was requeued still waits; `destination_paused`), or is paused or cancelled (`manual`, " +
          "`destination_deleted`).",
      }),
    total: z.int().nullable().openapi({
      description:
        "Deliveries that matched when it started. Null while a replay of `missing` goes on: they are found as it goes.",
    }),
    requeued: z.int().openapi({ description: "How many of them it has requeued, or planned." }),
    delivered: z.int().openapi({ description: "How many of those have been delivered since." }),
    failed: z.int().openapi({ description: "How many of those have ended otherwise since." }),
    current_rate_per_minute: z
      .number()
      .openapi({ description: "The rate now, adapted to how the deliveries do." }),
    created_at: time,
    updated_at: time,
    ended_at: time.nullable(),
  })
  .openapi("Replay");

const tags = ["Replays"];

const postReplay = createRoute({
  method: "post",
  path: "/v1/replays",
  summary: "Start a replay",
  tags,
  description:
    "Sends the dead deliveries of a range of time again, or the delivered ones, or sends what is missing. A destination " +
    "has one replay at a time.",
  middleware: [requires("admin", "resend"), jsonBody()],
  request: { body: jsonRequest(newReplay) },
  responses: {
    201: jsonAnswer(replaySchema, "The replay; it starts at once."),
    ...problemResponses(400, 401, 403, 404, 409, 413, 415, 422),
  },
});

const getReplays = createRoute({
  method: "get",
  path: "/v1/replays",
  summary: "List replays",
  tags,
  description:
    "The newest first. With `state`, a page examines at most a thousand replays: it may be short, or empty, and still " +
    "have a `next_cursor`.",
  middleware: [requires("read")],
  request: {
    query: strict({
      destination_id: z.string().optional().openapi({ description: "Only replays of this destination." }),
      state: z.enum(replayStates).optional().openapi({ description: "Only replays in this state." }),
      limit: limitParam,
      cursor: cursorParam(z.int().positive()),
    }),
  },
  responses: {
    200: jsonAnswer(pageOf(replaySchema), "A page of replays."),
    ...problemResponses(401, 403, 422, 429),
  },
});

const getReplay = createRoute({
  method: "get",
  path: "/v1/replays/{id}",
  summary: "Show a replay",
  tags,
  middleware: [requires("read")],
  request: { params: idParam },
  responses: { 200: jsonAnswer(replaySchema, "The replay."), ...problemResponses(401, 403, 404, 429) },
});

const common = {
  method: "post" as const,
  tags: ["Replays"],
  middleware: [requires("admin")],
  request: { params: idParam },
  responses: { 200: jsonAnswer(replaySchema, "The replay."), ...problemResponses(401, 403, 404, 409) },
};

const pause = createRoute({
  ...common,
  path: "/v1/replays/{id}/pause",
  summary: "Pause a replay",
  description:
    "It requeues nothing until it is resumed. What it has requeued is still delivered. May be repeated.",
});
const resume = createRoute({
  ...common,
  path: "/v1/replays/{id}/resume",
  summary: "Resume a replay",
  description: "It continues where it was, at most at its initial rate. May be repeated.",
});
const cancel = createRoute({
  ...common,
  path: "/v1/replays/{id}/cancel",
  middleware: [requires("admin", "resend")],
  summary: "Cancel a replay",
  description: "It requeues nothing more. What it has requeued is still delivered. May be repeated.",
});

type Started =
  | Readonly<{ kind: "started"; replay: Replay }>
  | Readonly<{ kind: "too_many" }>
  | Readonly<{ kind: "occupied" }>;

async function start(
  services: Services,
  destination: Destination,
  input: z.infer<typeof newReplay>,
): Promise<Started> {
  const { db, now, config } = services;
  const { id: destinationId, tenant } = destination;
  const { since, until, include, event_types: eventTypes = null, tag = null } = input;
  const { rate_per_minute: ratePerMinute } = input;
  const range = await idRangeOf(db, { since, until });
  const candidates = await sumOver(services, async (one) => {
    const within = one === db ? range : await idRangeOf(one, { since, until });
    return countCandidates(one, { include, destinationId }, within, LARGEST + 1);
  });
  if (candidates > LARGEST) return { kind: "too_many" };
  const at = { createdAt: now(), updatedAt: now(), nextStepAt: now() };
  const matching = input.matching === false ? 0 : 1;
  const asked = { include, matching, eventTypes, tag, since, until, ratePerMinute };
  const job = { id: newReplayId(), tenant, destinationId, ...asked };
  const state = { state: "running" as const, pace: ratePerMinute, cursor: range.first - 1 };
  const kept = await keptOfTenant(db, tenant, config.retentionMs);
  const began = await beginReplay(db, { ...job, ...state, ...at }, range, LARGEST, kept);
  if (began === undefined) return { kind: "occupied" };
  const parts = await partsOf(services, began, kept);
  const replay = summedUp(
    began,
    parts.map((part) => part.replay),
  );
  return { kind: "started", replay };
}

/** The error of a `since` in the future: nothing has been accepted since then. */
function futureErrors(since: number, now: number): FieldError[] {
  if (since <= now) return [];
  return [{ field: "since", fault: `is ${isoTime(since)}`, expected: "a time in the past" }];
}

function matchingErrors({ include, matching }: z.infer<typeof newReplay>): FieldError[] {
  if (matching === undefined || include === "missing") return [];
  const fault = `is ${matching}, and include is "${include}"`;
  return [{ field: "matching", fault, expected: 'include "missing" beside it, or nothing' }];
}

const tooMany: FieldError = {
  field: "since",
  fault: `begins a range with more than ${LARGEST} deliveries`,
  expected: "a shorter range: replay it in parts",
};

async function occupied({ db }: Services, destination: string) {
  const other = await replayUnderWay(db, destination);
  const which = other ? `: ${other.id} is ${other.state}` : "; it has just ended";
  return problem(409, `The destination already has a replay${which}. Wait until it ends, or cancel it`);
}

/** A change of state by an operator: from which states, and what else it changes. */
type Transition = Readonly<{
  to: ReplayState;
  from: readonly ReplayState[];
  change: (replay: Replay, now: number) => ReplayChange;
}>;

const transitions = {
  pause: { to: "paused", from: ["running"], change: () => ({ reason: "manual" }) },

  resume: {
    to: "running",
    from: ["paused"],
    change: ({ pace, ratePerMinute }, now) => ({
      reason: null,
      pace: Math.min(pace, ratePerMinute),
      nextStepAt: now,
    }),
  },
  cancel: {
    to: "cancelled",
    from: ["running", "paused"],
    change: (_, now) => ({ reason: "manual", endedAt: now }),
  },
} as const satisfies Record<string, Transition>;

/** The replay after the transition; as it is when it has ended or is in that state already. */
async function changeState(
  services: Services,
  replay: Replay,
  { to, from, change }: Transition,
): Promise<Replay> {
  const now = services.now();
  const made = { ...change(replay, now), state: to };
  const after = await changeReplay(services.db, replay.id, from, made, now);
  if (after === undefined) return (await findReplay(services, replay.id, undefined)) ?? replay;
  services.log({ what: `replay_${to}`, replay: replay.id, destination: replay.destinationId });
  if (to === "running") services.background(enqueueReplayStep(services, replay.id, now));
  const [shown = after] = await withParts(services, [after]);
  return shown;
}

function replayView(replay: Replay): z.infer<typeof replaySchema> {
  const { include, matching, state, total, requeued } = replay;
  const isMissing = include === "missing";
  return {
    id: replay.id,
    tenant: replay.tenant,
    destination_id: replay.destinationId,
    include,
    ...(isMissing && { matching: matching !== 0 }),
    event_types: replay.eventTypes && [...replay.eventTypes],
    tag: replay.tag,
    since: isoTime(replay.since),
    until: isoTime(replay.until),
    rate_per_minute: replay.ratePerMinute,
    state,
    reason: replay.reason as ReplayReason | null,
    total: isMissing ? (state === "completed" ? requeued : null) : total,
    requeued,
    delivered: replay.delivered,
    failed: replay.failed,
    current_rate_per_minute: Math.round(replay.pace * 10) / 10,
    created_at: isoTime(replay.createdAt),
    updated_at: isoTime(replay.updatedAt),
    ended_at: isoTime(replay.endedAt),
  };
}
