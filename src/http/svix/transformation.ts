/**
 * An endpoint's transformation. In the Svix API it is a function `handler(webhook)`, which is stored as a module of
 * Breakwater's form around it. A template, or code of that form, shows as a transformation without code, which is switched off
 * the same way.
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
import { endpointOf } from "./endpoints.ts";
import { bodyOf, callerWithin, noContent, optionalBoolean, refuseFields, unsupported } from "./shapes.ts";

const TRANSFORMATION = "/api/v1/app/:app/endpoint/:endpoint/transformation";

const transformationPatch = z.object({
  code: z.string("expected a text, or null").nullish(),
  enabled: optionalBoolean,
  variables: z.record(z.string(), z.unknown(), "expected an object").nullish(),
});

/**
 * Follows a function of the Svix API in the stored module, so that the function's lines keep their numbers. The
 * endpoint's address may only be extended: no request leaves it.
 */
const HANDLER_END = "\n// The function above, called as Svix does.\n";

function moduleOf(code: string, url: string): string {
  return `${code}${HANDLER_END}export default ((handle) => async ({ type, data }) => {
  const from = ${JSON.stringify(url)};
  const given = { method: "POST", url: from, eventType: type, headers: {}, payload: data, cancel: false };
  const { method, url, headers, payload, cancel } = await handle(given);
  if (cancel) return null;
  if (!String(url).startsWith(from)) throw new Error("url may only be extended");
  const path = url.slice(from.length) || undefined;
  return { method, headers, path, body: JSON.stringify(payload) };
})(handler);\n`;
}

/** The function of the Svix API in a stored module; null if there is none. */
function handlerOf(row: Destination): string | null {
  const { code = "" } = currentTransform(row) ?? {};
  const end = code.lastIndexOf(HANDLER_END);
  return end < 0 ? null : code.slice(0, end);
}

/** One that an edit by hand has made unreadable counts as switched on: nothing is sent until it is replaced or removed. */
function isOn(row: Destination): boolean {
  const current = currentTransform(row);
  return current === undefined || (current !== null && !sendsAsIs(current));
}

export function registerTransformation(app: Hono<ApiEnv>): void {
  app.get(TRANSFORMATION, requires("read"), async (c) => {
    const { row } = await endpointOf(c);
    const current = currentTransform(row);
    const updatedAt = current ? isoTime(current.at) : null;
    return c.json({ code: handlerOf(row), enabled: isOn(row), updatedAt, variables: {} });
  });

  app.patch(TRANSFORMATION, requires("admin"), jsonBody(), async (c) => {
    const { code, enabled, variables } = await bodyOf(c, transformationPatch);
    const { application, row } = await endpointOf(c);
    const staysOff = enabled === false || (!enabled && !isOn(row));
    refuseFields([
      code && staysOff && unsupported("enabled", "true: code that is switched off is not stored"),
      enabled &&
        !code &&
        !isOn(row) &&
        unsupported("enabled", "false: there is no template or code to switch on"),
      Object.keys(variables ?? {}).length > 0 && unsupported("variables", "none"),
    ]);
    if (!code && (enabled || (enabled !== false && code === undefined))) return c.body(null, 204);
    const transform = code ? { code: moduleOf(code, row.url) } : null;
    const change = { id: row.id, change: { transform }, requestUrl: c.req.url };
    const updated = await updateDestination(callerWithin(c, application), change);
    if (updated.kind === "invalid")
      refuseFields(
        (updated.errors ?? []).map((error) =>
          error.field === "transform.code" ? { ...error, field: "code" } : error,
        ),
      );
    return noContent(c, updated);
  });
}
