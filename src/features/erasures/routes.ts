/** The routes of erasures. */
import { createRoute, z } from "@hono/zod-openapi";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import {
  cursorParam,
  encodeCursor,
  idParam,
  jsonAnswer,
  jsonRequest,
  limitParam,
  pageOf,
  strict,
} from "../../http/parameters.ts";
import { answerOf, problemResponses } from "../../http/problems.ts";
import { routeTo } from "../../http/routes.ts";
import { erasureSchema, newErasure } from "./schema.ts";
import { beginErasure, erasureView, getErasure, getErasures } from "./service.ts";

export function registerErasures(api: Api): void {
  api.openapi(postErasure, async (c) => {
    const begun = await beginErasure(callerIn(c), c.req.valid("json"));
    return begun.kind === "ok" ? c.json(erasureView(begun.value), 202) : answerOf(begun);
  });

  api.openapi(listRoute, async (c) => {
    const { limit, cursor: before } = c.req.valid("query");
    const listed = await getErasures(callerIn(c), { before, limit });
    if (listed.kind !== "ok") return answerOf(listed);
    const { erasures, next } = listed.value;
    const next_cursor = next === undefined ? null : encodeCursor(next);
    return c.json({ data: erasures.map(erasureView), next_cursor }, 200);
  });

  api.openapi(showRoute, async (c) => {
    const found = await getErasure(callerIn(c), c.req.valid("param").id);
    return found.kind === "ok" ? c.json(erasureView(found.value), 200) : answerOf(found);
  });
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
  responses: {
    202: jsonAnswer(erasureSchema, "The erasure; it begins at once."),
    ...problemResponses(400, 401, 403, 404, 409, 413, 415, 422),
  },
});

const listRoute = createRoute({
  ...routeTo("get", "/v1/erasures", getErasures),
  summary: "List erasures",
  tags,
  request: { query: strict({ limit: limitParam, cursor: cursorParam(z.int().positive()) }) },
  responses: {
    200: jsonAnswer(pageOf(erasureSchema), "A page of erasures, the newest first."),
    ...problemResponses(401, 403, 422, 429),
  },
});

const showRoute = createRoute({
  ...routeTo("get", "/v1/erasures/{id}", getErasure),
  summary: "Show an erasure",
  tags,
  request: { params: idParam },
  responses: {
    200: jsonAnswer(erasureSchema, "What it erases, and what it has erased so far."),
    ...problemResponses(401, 403, 404, 429),
  },
});
