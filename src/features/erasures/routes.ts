/** The routes of erasures. */
import { createRoute, z } from "@hono/zod-openapi";
import { mapOk } from "../../core/result.ts";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { answerOf } from "../../http/problems.ts";
import { answers, jsonRequest, reply, routeTo } from "../../http/routes.ts";
import { cursorParam, encodeCursor, idParam, limitParam, pageOf, strict } from "../parameters.ts";
import { erasureSchema, newErasure } from "./schema.ts";
import { beginErasure, erasureView, getErasure, getErasures } from "./service.ts";

export function registerErasures(api: Api): void {
  api.openapi(postErasure, async (c) =>
    reply(c, mapOk(await beginErasure(callerIn(c), c.req.valid("json")), erasureView), 202),
  );

  api.openapi(listRoute, async (c) => {
    const { limit, cursor: before } = c.req.valid("query");
    const listed = await getErasures(callerIn(c), { before, limit });
    if (listed.kind !== "ok") return answerOf(listed);
    const { erasures, next } = listed.value;
    const next_cursor = next === undefined ? null : encodeCursor(next);
    return c.json({ data: erasures.map(erasureView), next_cursor }, 200);
  });

  api.openapi(showRoute, async (c) =>
    reply(c, mapOk(await getErasure(callerIn(c), c.req.valid("param").id), erasureView)),
  );
}

const tags = ["Erasures"];

const postErasure = createRoute({
  ...routeTo("post", "/v1/erasures", beginErasure, jsonBody()),
  summary: "Erase the content of events",
  tags,
  description:
    "Removes bodies, request headers, tags, and what receivers have answered, for good; the events stay listed. Deliveries " +
    "that have not ended are cancelled (`erased`). An attempt that is under way at that moment may still arrive. The " +
    "erasure completes a quarter of an hour after it has gone through at the earliest: it looks once more then.",
  request: { body: jsonRequest(newErasure) },
  responses: answers(202, erasureSchema, "The erasure; it begins at once.", "body", 404, 409),
});

const listRoute = createRoute({
  ...routeTo("get", "/v1/erasures", getErasures),
  summary: "List erasures",
  tags,
  request: { query: strict({ limit: limitParam, cursor: cursorParam(z.int().positive()) }) },
  responses: answers(200, pageOf(erasureSchema), "A page of erasures, the newest first.", 422),
});

const showRoute = createRoute({
  ...routeTo("get", "/v1/erasures/{id}", getErasure),
  summary: "Show an erasure",
  tags,
  request: { params: idParam },
  responses: answers(200, erasureSchema, "What it erases, and what it has erased so far.", 404),
});
