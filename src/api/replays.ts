/** Replays: begun, shown and listed. */
import { createRoute, z } from "@hono/zod-openapi";
import { idRangeOf } from "../db/bundles.ts";
import { type Destination, findDestination } from "../db/destinations.ts";
import { beginReplay, countCandidates, LARGEST, partsOf } from "../db/replay-steps.ts";
import {
  changeReplay,
  findReplay,
  listReplays,
  type Replay,
  type ReplayChange,
  replayUnderWay,
  summedUp,
  withParts,
} from "../db/replays.ts";
import type { ReplayState } from "../db/schema.ts";
import { sumOver } from "../db/shards.ts";
import { newReplayId } from "../ids.ts";
import { enqueueReplayStep } from "../replay/run.ts";
import type { Services } from "../services.ts";
import { isoTime } from "../time.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { jsonBody } from "./json-body.ts";
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
} from "./parameters.ts";
import { type FieldError, invalid, noSuch, problem, problemResponses } from "./problems.ts";

// §§ A replay in JSON: what may be posted, and what is shown.

const RATE_EXPECTED = "expected a whole number from 1 to 6000";
const INCLUDE_EXPECTED = 'expected "dead" or "delivered"';
const TYPES_EXPECTED = "expected a list of 1 to 100 event types or patterns";

const replayStates = ["running", "paused", "completed", "cancelled"] as const;

const newReplay = strict({
  destination_id: z.string({ error: "expected the id of a destination" }),
  since: timeParam.openapi({
    description: "Events accepted then or later; a time that has passed.",
    example: "2026-11-20T09:00:00Z",
  }),
  until: timeParam.openapi({
    description: "Events accepted before that; a time after `since`.",
    example: "2026-11-20T10:00:00Z",
  }),
  event_types: z
    .array(eventTypePattern, { error: TYPES_EXPECTED })
    .min(1, { error: TYPES_EXPECTED })
    .max(100, { error: TYPES_EXPECTED })
    .nullish(),
  rate_per_minute: z
    .int({ error: RATE_EXPECTED })
    .min(1, { error: RATE_EXPECTED })
    .max(6000, { error: RATE_EXPECTED })
    .default(100)
    .openapi({ description: "How it begins; it goes up to ten times that, and down to a tenth." }),
  include: z.enum(["dead", "delivered"], { error: INCLUDE_EXPECTED }).default("dead").openapi({
    description: "`delivered` sends history again: the same ids, the same bytes.",
  }),
}).openapi("NewReplay");

const time = z.iso.datetime();

const replaySchema = z
  .object({
    id: z.string(),
    tenant: z.string(),
    destination_id: z.string(),
    include: z.enum(["dead", "delivered"]),
    event_types: z.array(z.string()).nullable(),
    since: time,
    until: time,
    rate_per_minute: z.number(),
    state: z.enum(replayStates),
    reason: z.string().nullable().openapi({
      description: "Why it is slow (`doubtful`), still (`stuck`, `destination_paused`) or cancelled.",
    }),
    total: z.int().openapi({ description: "Deliveries that it meant when it began." }),
    moved: z.int().openapi({ description: "Those of them that it has set to wait for sending." }),
    delivered: z.int().openapi({ description: "Those of them that have been delivered since." }),
    failed: z.int().openapi({ description: "Those of them that have ended otherwise since." }),
    pace_per_minute: z.number().openapi({ description: "How fast it is at the moment." }),
    created_at: time,
    updated_at: time,
    ended_at: time.nullable(),
  })
  .openapi("Replay");

// §§ What is shown of a replay.

function replayView(replay: Replay): z.infer<typeof replaySchema> {
  return {
    id: replay.id,
    tenant: replay.tenant,
    destination_id: replay.destinationId,
    include: replay.include,
    event_types: replay.eventTypes && [...replay.eventTypes],
    since: isoTime(replay.since),
    until: isoTime(replay.until),
    rate_per_minute: replay.ratePerMinute,
    state: replay.state,
    reason: replay.reason,
    total: replay.total,
    moved: replay.requeued,
    delivered: replay.delivered,
    failed: replay.failed,
    pace_per_minute: Math.round(replay.pace * 10) / 10,
    created_at: isoTime(replay.createdAt),
    updated_at: isoTime(replay.updatedAt),
    ended_at: isoTime(replay.endedAt),
  };
}

const tags = ["Replays"];

const postReplay = createRoute({
  method: "post",
  path: "/v1/replays",
  summary: "Begin a replay",
  tags,
  description:
    "Sends again what is dead, or what has been delivered, of the events accepted in a time. A destination has " +
    "one replay at a time.",
  middleware: [requires("admin"), jsonBody()],
  request: { body: jsonRequest(newReplay) },
  responses: {
    201: jsonAnswer(replaySchema, "The replay: it begins at once."),
    ...problemResponses(400, 401, 403, 404, 409, 413, 415, 422),
  },
});

const getReplays = createRoute({
  method: "get",
  path: "/v1/replays",
  summary: "List replays",
  tags,
  description:
    "The newest first. Narrowed to a state, a page looks at a thousand replays at most: it may be short, or " +
    "empty, and still have a next_cursor.",
  middleware: [requires("read")],
  request: {
    query: strict({
      destination_id: z.string().optional().openapi({ description: "Those of this destination." }),
      state: z.enum(replayStates).optional().openapi({ description: "Those that are in this state." }),
      limit: limitParam,
      cursor: cursorParam(z.int().positive()),
    }),
  },
  responses: {
    200: jsonAnswer(pageOf(replaySchema), "Replays, the newest first."),
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

export function registerReplays(api: Api): void {
  api.openapi(postReplay, async (c) => {
    const services = c.get("services");
    const input = c.req.valid("json");
    const errors = [...rangeErrors(input.since, input.until), ...futureErrors(input.since, services.now())];
    if (errors.length > 0) return invalid(errors);
    const id = input.destination_id;
    const destination = await findDestination(services.db, id, c.get("principal").tenant);
    if (destination === undefined) return noSuch("destination", id);
    const began = await begin(services, destination, input);
    if (began === "too many") return invalid([tooMany]);
    if (began === undefined) return occupied(services, id);
    services.log({ what: "replay_begun", replay: began.id, destination: id, include: began.include });
    services.background(enqueueReplayStep(services, began.id, services.now()));
    return c.json(replayView(began), 201);
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
    return replay ? c.json(replayView(replay), 200) : noSuch("replay", id);
  });
}

async function begin(services: Services, destination: Destination, input: z.infer<typeof newReplay>) {
  const { db, now, config } = services;
  const { id: destinationId, tenant } = destination;
  const { since, until, include, event_types: eventTypes = null, rate_per_minute: ratePerMinute } = input;
  const range = await idRangeOf(db, { since, until });
  const candidates = await sumOver(services, async (one) => {
    const within = one === db ? range : await idRangeOf(one, { since, until });
    return countCandidates(one, { include, destinationId }, within, LARGEST + 1);
  });
  if (candidates > LARGEST) return "too many";
  const at = { createdAt: now(), updatedAt: now(), nextStepAt: now() };
  const job = { id: newReplayId(), tenant, destinationId, include, eventTypes, since, until, ratePerMinute };
  const start = { state: "running" as const, pace: ratePerMinute, cursor: range.first - 1 };
  const began = await beginReplay(db, { ...job, ...start, ...at }, range, LARGEST, config.retentionMs);
  if (began === undefined) return undefined;
  const parts = await partsOf(services, began, config.retentionMs);
  return summedUp(
    began,
    parts.map(({ replay }) => replay),
  );
}

/** Nothing can have been accepted since a time that has not come. */
function futureErrors(since: number, now: number): FieldError[] {
  if (since <= now) return [];
  return [{ field: "since", fault: `is ${isoTime(since)}`, expected: "a time in the past" }];
}

const tooMany: FieldError = {
  field: "since",
  fault: `begins a time with more than ${LARGEST} deliveries`,
  expected: "a shorter time: replay it in parts",
};

async function occupied({ db }: Services, destination: string) {
  const other = await replayUnderWay(db, destination);
  const which = other ? `: ${other.id} is ${other.state}` : "; it has just ended";
  return problem(409, `The destination has a replay under way${which}. Wait for its end, or cancel it`);
}

// §§ Pausing, resuming and cancelling a replay. Each may be repeated: the answer is the replay.

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
  description: "It sets no more to wait until it is resumed.",
});
const resume = createRoute({
  ...common,
  path: "/v1/replays/{id}/resume",
  summary: "Resume a replay",
  description: "It goes on where it was, no faster than it began.",
});
const cancel = createRoute({
  ...common,
  path: "/v1/replays/{id}/cancel",
  summary: "Cancel a replay",
  description: "It sets no more to wait. What waits already is still sent.",
});

/** A change of state: from which states, and what it makes of the replay. */
type Turn = Readonly<{
  to: ReplayState;
  from: readonly ReplayState[];
  change: (replay: Replay, now: number) => ReplayChange;
}>;

const turns = {
  pause: { to: "paused", from: ["running"], change: () => ({ reason: "manual" }) },
  // It begins again no faster than it began.
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
} as const satisfies Record<string, Turn>;

export function registerReplayStatus(api: Api): void {
  const routes = [
    [pause, turns.pause],
    [resume, turns.resume],
    [cancel, turns.cancel],
  ] as const;
  for (const [route, turn] of routes) {
    api.openapi(route, async (c) => {
      const services = c.get("services");
      const { id } = c.req.valid("param");
      const before = await findReplay(services, id, c.get("principal").tenant);
      if (before === undefined) return noSuch("replay", id);
      const after = await turned(services, before, turn);
      if (after.state !== turn.to) return problem(409, `The replay is ${after.state}: it has ended`);
      return c.json(replayView(after), 200);
    });
  }
}

/** The replay after the turn; as it is when it can no longer be turned, or has been already. */
async function turned(services: Services, replay: Replay, { to, from, change }: Turn): Promise<Replay> {
  const now = services.now();
  const made = { ...change(replay, now), state: to };
  const after = await changeReplay(services.db, replay.id, from, made, now);
  if (after === undefined) return (await findReplay(services, replay.id, undefined)) ?? replay;
  services.log({ what: `replay_${to}`, replay: replay.id, destination: replay.destinationId });
  if (to === "running") services.background(enqueueReplayStep(services, replay.id, now));
  const [shown = after] = await withParts(services, [after]);
  return shown;
}
