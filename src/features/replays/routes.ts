/** The routes of replays. */
import { z } from "@hono/zod-openapi";
import type { Api } from "../../http/context.ts";
import { problemOf, problemSchema } from "../../http/problems.ts";
import { answers, postOnly, serve } from "../../http/routes.ts";
import { cursorParam, documented, limitParam, pageOf, pageWithNext, strict } from "../parameters.ts";
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

const tags = ["Replays"];

const startedReplays = documented("StartedReplays", {
  data: z
    .array(
      z.object({
        destination_id: z.string(),
        replay: replaySchema.optional(),
        problem: problemSchema
          .optional()
          .describe("Why it is not replayed: the problem that a separate request would get."),
      }),
    )
    .describe("For each destination, in the order given, either `replay` or `problem`."),
});

export function registerReplays(api: Api): void {
  serve(api, "post", "/v1/replays", startReplay, {
    summary: "Start a replay",
    tags,
    description:
      "Sends the dead deliveries of a range of time again, or the delivered ones, or sends what is missing. A destination " +
      "has one replay at a time.",
    body: newReplay,
    view: replayView,
    responses: answers(201, replaySchema, "The replay; it starts at once.", "body", 404, 409),
  });

  api.use("/v1/replays/batch", postOnly);
  serve(api, "post", "/v1/replays/batch", startReplays, {
    summary: "Start replays of several destinations",
    tags,
    description: `A replay of each of up to ${MOST_DESTINATIONS} destinations. Each is started or refused separately.`,
    body: replaysAtOnce,
    view: (started) => ({
      data: started.map(({ id: destination_id, result }) =>
        result.kind === "ok"
          ? { destination_id, replay: replayView(result.value) }
          : { destination_id, problem: problemOf(result) },
      ),
    }),
    responses: answers(200, startedReplays, "What became of each.", "body"),
  });

  serve(api, "get", "/v1/replays", getReplays, {
    summary: "List replays",
    tags,
    description:
      "The newest first. With `state`, a page examines at most a thousand replays: it may be short, or empty, and still " +
      "have a `next_cursor`.",
    query: strict({
      destination_id: z.string().optional().describe("Only replays of this destination."),
      state: z.enum(replayStates).optional().describe("Only replays in this state."),
      limit: limitParam,
      cursor: cursorParam(z.int().positive()),
    }),
    input: ({ query: { destination_id: destinationId, state, limit, cursor: before } }) => ({
      ...{ destinationId, state, limit, before },
    }),
    view: ({ replays, next }) => pageWithNext(replays.map(replayView), next),
    responses: answers(200, pageOf(replaySchema), "A page of replays.", 422),
  });

  serve(api, "get", "/v1/replays/{id}", getReplay, {
    summary: "Show a replay",
    tags,
    view: replayView,
    responses: answers(200, replaySchema, "The replay.", 404),
  });

  const common = {
    tags,
    view: replayView,
    responses: answers(200, replaySchema, "The replay.", 404, 409),
  };
  serve(api, "post", "/v1/replays/{id}/pause", pauseReplay, {
    ...common,
    summary: "Pause a replay",
    description:
      "It requeues nothing until it is resumed. What it has requeued is still delivered. May be repeated.",
  });
  serve(api, "post", "/v1/replays/{id}/resume", resumeReplay, {
    ...common,
    summary: "Resume a replay",
    description: "It continues where it was, at most at its initial rate. May be repeated.",
  });
  serve(api, "post", "/v1/replays/{id}/cancel", cancelReplay, {
    ...common,
    summary: "Cancel a replay",
    description: "It requeues nothing more. What it has requeued is still delivered. May be repeated.",
  });
}
