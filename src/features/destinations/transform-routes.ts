/** The routes of transformations: tried, their versions, and restoring one. */
import { createRoute, z } from "@hono/zod-openapi";
import { mapOk } from "../../core/result.ts";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { withinAnyReadLimit } from "../../http/rate-limit.ts";
import { answers, jsonRequest, optionalJson, reply, routeTo } from "../../http/routes.ts";
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

export function registerTransforms(api: Api): void {
  api.openapi(preview, async (c) => {
    const { id } = c.req.valid("param");
    return reply(c, await previewTransform(callerIn(c), { ...c.req.valid("json"), id }));
  });

  api.openapi(versions, async (c) =>
    reply(c, await getTransformVersions(callerIn(c), c.req.valid("param").id)),
  );

  api.openapi(restoration, async (c) => {
    const input = { ...c.req.valid("param"), ...c.req.valid("json"), requestUrl: c.req.url };
    return reply(
      c,
      mapOk(await restoreTransform(callerIn(c), input), (row) =>
        destinationViewFor(callerIn(c).principal, row),
      ),
    );
  });
}

const tags = ["Destinations"];

const preview = createRoute({
  ...routeTo(
    "post",
    "/v1/destinations/{id}/transform/preview",
    previewTransform,
    withinAnyReadLimit,
    jsonBody({ mayBeEmpty: true }),
  ),
  summary: "Preview a transformation",
  tags,
  description:
    `What a template or code, or the saved one, makes of the last events that the destination takes, at most ${MOST_TRIED}, and of a ` +
    "type's example. Nothing is changed or sent.",
  request: { params: idParam, body: optionalJson(transformDraft) },
  responses: answers(200, transformPreviewSchema, "Each event before and after.", "body", 404),
});

const versions = createRoute({
  ...routeTo("get", "/v1/destinations/{id}/transform/versions", getTransformVersions),
  summary: "List the versions of a transformation",
  tags,
  request: { params: idParam },
  responses: answers(200, transformVersions, "The versions.", 404),
});

const restoration = createRoute({
  ...routeTo("post", "/v1/destinations/{id}/transform/restore", restoreTransform, jsonBody()),
  summary: "Restore a version of a transformation",
  tags,
  description:
    "Makes an earlier version the newest, under a new number, for events that are accepted from now on.",
  request: {
    params: idParam,
    body: jsonRequest(
      strict({ version: z.int({ error: "expected a whole number" }) }).openapi("TransformRestoration"),
    ),
  },
  responses: answers(200, destinationSchema, "The destination with it.", "body", 404, 409),
});
