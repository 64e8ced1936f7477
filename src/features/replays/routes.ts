/** The routes of replays. */
import { createRoute, z } from "@hono/zod-openapi";
import { mapOk } from "../../core/result.ts";
import { permitting } from "../../http/auth.ts";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { answerOf, problemOf, problemSchema } from "../../http/problems.ts";
import { answers, jsonRequest, reply, routeTo } from "../../http/routes.ts";
import { cursorParam, encodeCursor, idParam, limitParam, pageOf, strict } from "../parameters.ts";
import { MOST_DESTINATIONS, newReplay, replaySchema, replayStates, replaysAtOnce } from "./schema.ts";
import {
  cancelReplay,
  getReplay,
  getReplays,
  pauseReplay,
  replayView,
  resumeReplay,
  startReplay,
  startReplays,
} from "./service.ts";

export function registerReplays(api: Api): void {
  api.openapi(postReplay, async (c) =>
    reply(c, mapOk(await startReplay(callerIn(c), c.req.valid("json")), replayView), 201),
  );

  api.use(postReplays.path, async (c, next) => (c.req.method === "POST" ? next() : c.notFound()));
  api.openapi(postReplays, async (c) => {
    const started = await startReplays(callerIn(c), c.req.valid("json"));
    if (started.kind !== "ok") return answerOf(started);
    const data = started.value.map(({ id: destination_id, result }) =>
      result.kind === "ok"
        ? { destination_id, replay: replayView(result.value) }
        : { destination_id, problem: problemOf(result) },
    );
    return c.json({ data }, 200);
  });

  api.openapi(listRoute, async (c) => {
    const { destination_id: destinationId, state, limit, cursor: before } = c.req.valid("query");
    const listed = await getReplays(callerIn(c), { destinationId, state, before, limit });
    if (listed.kind !== "ok") return answerOf(listed);
    const { replays, next } = listed.value;
    const next_cursor = next === undefined ? null : encodeCursor(next);
    return c.json({ data: replays.map(replayView), next_cursor }, 200);
  });

  api.openapi(showRoute, async (c) =>
    reply(c, mapOk(await getReplay(callerIn(c), c.req.valid("param").id), replayView)),
  );
}

export function registerReplayStatus(api: Api): void {
  const routes = [
    [pause, pauseReplay],
    [resume, resumeReplay],
    [cancel, cancelReplay],
  ] as const;
  for (const [route, change] of routes)
    api.openapi(route, async (c) =>
      reply(c, mapOk(await change(callerIn(c), c.req.valid("param").id), replayView)),
    );
}

const tags = ["Replays"];

const postReplay = createRoute({
  ...routeTo("post", "/v1/replays", startReplay, jsonBody()),
  summary: "Start a replay",
  tags,
  description:
    "Sends the dead deliveries of a range of time again, or the delivered ones, or sends what is missing. A destination " +
    "has one replay at a time.",
  request: { body: jsonRequest(newReplay) },
  responses: answers(201, replaySchema, "The replay; it starts at once.", "body", 404, 409),
});

const startedReplays = z
  .object({
    data: z
      .array(
        z.object({
          destination_id: z.string(),
          replay: replaySchema.optional(),
          problem: problemSchema
            .optional()
            .describe("Why it is not replayed, as the answer about it alone would say."),
        }),
      )
      .describe("For each destination, in the order given, either `replay` or `problem`."),
  })
  .openapi("StartedReplays");

const postReplays = createRoute({
  ...routeTo("post", "/v1/replays/batch", startReplays, jsonBody()),
  summary: "Start replays of several destinations",
  tags,
  description: `A replay of each of up to ${MOST_DESTINATIONS} destinations. Each is started or refused by itself.`,
  request: { body: jsonRequest(replaysAtOnce) },
  responses: answers(200, startedReplays, "What became of each.", "body"),
});

const listRoute = createRoute({
  ...routeTo("get", "/v1/replays", getReplays),
  summary: "List replays",
  tags,
  description:
    "The newest first. With `state`, a page examines at most a thousand replays: it may be short, or empty, and still " +
    "have a `next_cursor`.",
  request: {
    query: strict({
      destination_id: z.string().optional().describe("Only replays of this destination."),
      state: z.enum(replayStates).optional().describe("Only replays in this state."),
      limit: limitParam,
      cursor: cursorParam(z.int().positive()),
    }),
  },
  responses: answers(200, pageOf(replaySchema), "A page of replays.", 422),
});

const showRoute = createRoute({
  ...routeTo("get", "/v1/replays/{id}", getReplay),
  summary: "Show a replay",
  tags,
  request: { params: idParam },
  responses: answers(200, replaySchema, "The replay.", 404),
});

const common = {
  method: "post" as const,
  tags: ["Replays"],
  middleware: [permitting(pauseReplay.permission)],
  request: { params: idParam },
  responses: answers(200, replaySchema, "The replay.", 404, 409),
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
  middleware: [permitting(cancelReplay.permission)],
  summary: "Cancel a replay",
  description: "It requeues nothing more. What it has requeued is still delivered. May be repeated.",
});
