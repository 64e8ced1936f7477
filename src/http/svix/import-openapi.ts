/** Imports the webhooks of an OpenAPI document into the catalogue of event types: all of them or none. */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { parse } from "yaml";
import { importEventTypes } from "../../features/event-types/service.ts";
import { requires } from "../auth.ts";
import { type ApiContext, type ApiEnv, callerIn } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { answerOf, invalid, problem } from "../problems.ts";
import { isFaulty, type WebhookType, webhooksIn } from "./openapi-webhooks.ts";
import { bodyOf } from "./shapes.ts";

const MAX_BYTES = 1024 * 1024;
export function registerImport(app: Hono<ApiEnv>): void {
  const body = jsonBody({ maxBytes: MAX_BYTES });
  app.post("/api/v1/event-type/import/openapi", requires("admin"), body, importDocument);
}

const FLAG_EXPECTED = "expected true or false";

const importInput = z.object({
  spec: z.record(z.string(), z.unknown(), { error: "expected an OpenAPI document as an object" }).nullish(),
  specRaw: z.string({ error: "expected an OpenAPI document as YAML or JSON" }).nullish(),
  dryRun: z.boolean({ error: FLAG_EXPECTED }).nullish(),
  replaceAll: z.boolean({ error: FLAG_EXPECTED }).nullish(),
});

async function importDocument(c: ApiContext): Promise<Response> {
  const input = await bodyOf(c, importInput);
  if (input instanceof Response) return input;
  const { spec, specRaw, dryRun = false, replaceAll = false } = input;
  if ((spec == null) === (specRaw == null)) return problem(400, "The body needs either spec or specRaw");
  const field = spec == null ? "specRaw" : "spec";
  const document = spec ?? parsed(specRaw ?? "");
  if (document === undefined) return invalid([{ field, ...NO_DOCUMENT }]);
  const read = webhooksIn(document);
  if (isFaulty(read))
    return invalid(
      read.map(({ pointer, fault, expected }) => ({ field, fault: `${pointer || "/"} ${fault}`, expected })),
    );
  const wish = { field, isDryRun: dryRun === true, replaces: replaceAll === true };
  const imported = await importEventTypes(callerIn(c), { types: read, ...wish });
  if (imported.kind !== "ok") return answerOf(imported);
  const modified = imported.value;
  const toModify = read.filter(({ name }) => modified.includes(name)).map(shownType);
  return c.json({ data: { modified, to_modify: wish.isDryRun ? toModify : null } });
}

const NO_DOCUMENT = { fault: "cannot be read as YAML or JSON", expected: "an OpenAPI document: an object" };

/**
 * YAML is a superset of JSON. Undefined for what is neither, is no object, or nests deeper than the stack. The library
 * refuses aliases that multiply; those that are left are copied.
 */
function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(JSON.stringify(parse(text, { logLevel: "silent" })));
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** As the document has it. */
function shownType({ name, description, deprecated, schema }: WebhookType) {
  const schemas = schema === undefined ? null : { "1": schema };
  return { name, description, schemas, deprecated, groupName: null, featureFlags: null };
}
