/** Imports the webhooks of an OpenAPI document into the catalogue of event types: all of them or none. */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { importEventTypes } from "../../features/event-types/import.ts";
import type { WebhookType } from "../../features/event-types/openapi-webhooks.ts";
import { requires } from "../auth.ts";
import { type ApiContext, type ApiEnv, callerIn } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { problem } from "../problems.ts";
import { bodyOf, granted, optionalBoolean, refuseFields } from "./shapes.ts";

const MAX_BYTES = 1024 * 1024;
export function registerImport(app: Hono<ApiEnv>): void {
  const body = jsonBody({ maxBytes: MAX_BYTES, exactNumbers: ["spec"] });
  app.post("/api/v1/event-type/import/openapi", requires("admin"), body, importDocument);
}

const importInput = z.object({
  spec: z.record(z.string(), z.unknown(), "expected an OpenAPI document as an object").nullish(),
  specRaw: z.string("expected an OpenAPI document as YAML or JSON").nullish(),
  dryRun: optionalBoolean,
  replaceAll: optionalBoolean,
});

async function importDocument(c: ApiContext): Promise<Response> {
  const { spec, specRaw, dryRun = false, replaceAll = false } = await bodyOf(c, importInput);
  if ((spec == null) === (specRaw == null)) return problem(400, "The body needs either spec or specRaw");
  const isDryRun = dryRun === true;
  const imported = await importEventTypes(callerIn(c), {
    document: spec ?? specRaw ?? "",
    field: spec == null ? "specRaw" : "spec",
    isDryRun,
    replaces: replaceAll === true,
  });
  const types = granted(imported);
  refuseFields(types.flatMap((type) => type.errors));
  const changed = types.filter(({ action }) => action !== "keep");
  const modified = changed.map(({ name }) => name);
  const toModify = changed.flatMap(({ webhook }) => (webhook ? [shownType(webhook)] : []));
  return c.json({ data: { modified, to_modify: isDryRun ? toModify : null } });
}

/** As the document has it. */
function shownType({ name, description, deprecated, schema }: WebhookType) {
  const schemas = schema === undefined ? null : { "1": schema };
  return { name, description, schemas, deprecated, groupName: null, featureFlags: null };
}
