/** The routes of transformations: tried, their versions, and restoring one. */
import { z } from "@hono/zod-openapi";
import type { Api } from "../../http/context.ts";
import { withinAnyReadLimit } from "../../http/rate-limit.ts";
import { answers, serve } from "../../http/routes.ts";
import { idParam, strict } from "../parameters.ts";
import { destinationSchema, destinationViewFor } from "./schema.ts";
import {
  getTransformVersions,
  MOST_TRIED,
  previewTransform,
  restoreTransform,
  transformDraft,
  transformPreviewSchema,
  transformVersions,
} from "./transforms.ts";

const tags = ["Destinations"];

const restoration = strict({ version: z.int({ error: "expected a whole number" }) });

export function registerTransforms(api: Api): void {
  serve(api, "post", "/v1/destinations/{id}/transform/preview", previewTransform, {
    summary: "Preview a transformation",
    tags,
    description:
      `What a template or code, or the saved one, makes of the last events that the destination takes, at most ${MOST_TRIED}, and of a ` +
      "type's example. Nothing is changed or sent.",
    middleware: [withinAnyReadLimit],
    params: idParam,
    optionalBody: transformDraft,
    responses: answers(200, transformPreviewSchema, "Each event before and after.", "body", 404),
  });

  serve(api, "get", "/v1/destinations/{id}/transform/versions", getTransformVersions, {
    summary: "List the versions of a transformation",
    tags,
    params: idParam,
    responses: answers(200, transformVersions, "The versions.", 404),
  });

  serve(api, "post", "/v1/destinations/{id}/transform/restore", restoreTransform, {
    summary: "Restore a version of a transformation",
    tags,
    description:
      "Makes an earlier version the newest, under a new number, for events that are accepted from now on.",
    params: idParam,
    body: restoration.openapi("TransformRestoration"),
    input: ({ param, json, url: requestUrl }) => ({ ...param, ...json, requestUrl }),
    view: (row, { principal }) => destinationViewFor(principal, row),
    responses: answers(200, destinationSchema, "The destination with it.", "body", 404, 409),
  });
}
