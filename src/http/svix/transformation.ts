/**
 * An endpoint's transformation. In the Svix API it is code; Breakwater has templates, so code is refused, and a template shows as a
 * transformation without code, which is switched off the same way.
 */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { sendsAsIs } from "../../core/transform/versions.ts";
import { updateDestination } from "../../features/destinations/service.ts";
import type { Destination } from "../../store/destination.ts";
import { currentTransform } from "../../store/transforms.ts";
import { isoTime } from "../../time.ts";
import { requires } from "../auth.ts";
import type { ApiEnv } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { answerOf, invalid } from "../problems.ts";
import { endpointOf } from "./endpoints.ts";
import { bodyOf, callerWithin, unsupported } from "./shapes.ts";

const TRANSFORMATION = "/api/v1/app/:app/endpoint/:endpoint/transformation";

const transformationPatch = z.object({
  code: z.string({ error: "expected a text, or null" }).nullish(),
  enabled: z.boolean({ error: "expected true or false" }).nullish(),
  variables: z.record(z.string(), z.unknown(), { error: "expected an object" }).nullish(),
});

/** One that an edit by hand has made unreadable is on too: nothing is sent until it is replaced or removed. */
function isOn(row: Destination): boolean {
  const current = currentTransform(row);
  return current === undefined || (current !== null && !sendsAsIs(current));
}

export function registerTransformation(app: Hono<ApiEnv>): void {
  app.get(TRANSFORMATION, requires("read"), async (c) => {
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    const current = currentTransform(found.row);
    const updatedAt = current ? isoTime(current.at) : null;
    return c.json({ code: null, enabled: isOn(found.row), updatedAt, variables: {} });
  });

  app.patch(TRANSFORMATION, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, transformationPatch);
    if (input instanceof Response) return input;
    const { code, enabled, variables } = input;
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    const errors = [
      ...(code ? [unsupported("code", "null: transform of the destination takes a template")] : []),
      ...(enabled && !isOn(found.row)
        ? [unsupported("enabled", "false: there is no template to switch on")]
        : []),
      ...(Object.keys(variables ?? {}).length > 0 ? [unsupported("variables", "none")] : []),
    ];
    if (errors.length > 0) return invalid(errors);
    if (enabled || (enabled !== false && code === undefined)) return c.body(null, 204);
    const { application, row } = found;
    const change = { id: row.id, change: { transform: null }, requestUrl: c.req.url };
    const updated = await updateDestination(callerWithin(c, application), change);
    return updated.kind === "ok" ? c.body(null, 204) : answerOf(updated);
  });
}
