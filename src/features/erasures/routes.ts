/** The routes of erasures. */
import { z } from "@hono/zod-openapi";
import type { Api } from "../../http/context.ts";
import { answers, serve } from "../../http/routes.ts";
import { cursorParam, limitParam, pageOf, pageWithNext, strict } from "../parameters.ts";
import { erasureSchema, newErasure } from "./schema.ts";
import { beginErasure, erasureView, getErasure, getErasures } from "./service.ts";

export function registerErasures(api: Api): void {
  serve(api, "post", "/v1/erasures", beginErasure, {
    summary: "Erase the content of events",
    tags,
    description:
      "Permanently removes bodies, request headers, tags and receivers' responses; the events stay listed. Deliveries " +
      "that have not ended are cancelled (`erased`). An attempt that is under way at that moment may still arrive. The " +
      "erasure completes after a second pass, a quarter of an hour after the first.",
    body: newErasure,
    view: erasureView,
    responses: answers(202, erasureSchema, "The erasure; it begins at once.", "body", 404, 409),
  });

  serve(api, "get", "/v1/erasures", getErasures, {
    summary: "List erasures",
    tags,
    query: strict({ limit: limitParam, cursor: cursorParam(z.int().positive()) }),
    input: ({ query: { limit, cursor: before } }) => ({ before, limit }),
    view: ({ erasures, next }) => pageWithNext(erasures.map(erasureView), next),
    responses: answers(200, pageOf(erasureSchema), "A page of erasures, the newest first.", 422),
  });

  serve(api, "get", "/v1/erasures/{id}", getErasure, {
    summary: "Show an erasure",
    tags,
    view: erasureView,
    responses: answers(200, erasureSchema, "What it erases, and what it has erased so far.", 404),
  });
}

const tags = ["Erasures"];
