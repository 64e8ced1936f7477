/** Replays: begun, shown and listed. */
import { createRoute, z } from "@hono/zod-openapi";
import { sendForStep } from "../delivery/replay.ts";
import { newReplayId } from "../id.ts";
import { isoTime } from "../iso-time.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import { findDestination } from "../store/destinations.ts";
import { idRangeOf } from "../store/moments.ts";
import { partsOf, summedUp } from "../store/replay-parts.ts";
import { beginReplay, countCandidates, LARGEST } from "../store/replay-steps.ts";
import { findReplay, listReplays, replayUnderWay } from "../store/replays.ts";
import { sumOver } from "../store/shards.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import type { FieldError } from "./field-errors.ts";
import { jsonBody } from "./json-body.ts";
import { cursorParam, encodeCursor, limitParam, pageOf } from "./paging.ts";
import { invalid, noSuch, problem, problemResponses } from "./problems.ts";
import { newReplay, replaySchema, replayStates } from "./replay-schema.ts";
import { replayView } from "./replay-view.ts";
import { idParam, jsonAnswer, jsonRequest } from "./route-parts.ts";
import { strict } from "./strict.ts";
import { rangeErrors } from "./time-range.ts";

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
    services.background(sendForStep(services, began.id, services.now()));
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
