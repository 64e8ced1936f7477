/** API keys as the API takes and shows them. */
import { z } from "@hono/zod-openapi";
import { scopes } from "../../core/scopes.ts";
import { idPatterns } from "../../ids.ts";
import { cursorParam, documented, strict, tenantName, textField, time, wordList } from "../parameters.ts";

/** The expectation of an expiry. */
export const FUTURE_TIME = "a time in the future, as in 2027-01-31T00:00:00Z";

const scopeList = wordList(scopes, `a list of one or more of ${scopes.join(", ")}, each once`).openapi({
  example: ["events:write"],
  description:
    "The rights of the key. `events:write`: post events; `read`: read everything but secrets; `poll`: fetch events from " +
    "polled destinations; `admin`: everything else.",
});

export const newKeySchema = strict({
  name: textField("a string of at most 100 characters", { max: 100 })
    .nullish()
    .openapi({ example: "checkout service", description: "A name for people to recognise it by." }),
  scopes: scopeList,
  tenant: tenantName.optional().openapi({
    example: "default",
    description: "The only tenant that the key can access; all tenants when left out.",
  }),
  destination_id: textField("the id of a destination of the kind poll", { pattern: idPatterns.destination })
    .nullish()
    .describe(
      "The only destination that the key polls; it has only the scope `poll`, and is bound to the destination's tenant.",
    ),
  expires_at: z.iso
    .datetime({ error: `expected ${FUTURE_TIME}`, offset: true })
    .nullish()
    .describe(
      "When the key expires. When left out, it expires with the key that creates it, or never if that does not expire.",
    ),
  confirm: z
    .enum(["dashboard"], 'expected "dashboard"')
    .nullish()
    .describe(
      "`dashboard`: changes that an agent makes with this key wait until a person approves them in the dashboard. The key may " +
        "use the scope `admin` only by MCP. If omitted, no approval is needed.",
    ),
}).openapi("NewApiKey");

/** A new key as a visitor of the portal requests it. */
export const newPollKey = newKeySchema.pick({ name: true });

export const keySchema = documented("ApiKey", {
  id: z.string().openapi({ example: "key_8m2x0f7q9a4r6t1v3w5y" }),
  name: z.string().nullable().openapi({ example: "checkout service" }),
  tenant: z.string().nullable().openapi({ example: "default" }),
  scopes: z.array(z.enum(scopes)).openapi({ example: ["events:write"] }),
  destination_id: z
    .string()
    .nullable()
    .openapi({ description: "The only destination that it polls.", example: "dst_3k9w5n2c8h6p0d4z7x1b" }),
  confirm: z.enum(["dashboard"]).nullable().openapi({
    description: "Where a person approves an agent's changes with the key; null: nowhere.",
    example: "dashboard",
  }),
  made_in: z.enum(["portal"]).nullable().openapi({
    description: "`portal`: visitors of the tenant's portal made it, and manage it there.",
    example: null,
  }),
  created_at: time,
  expires_at: time.nullable(),
  last_used_at: time.nullable().describe("Accurate to the hour."),
});

export const createdKeySchema = keySchema
  .extend({
    key: z.string().openapi({
      example: "bw_8m2x0f7q9a4r6t1v3w5y_0123456789abcdefghjkmnpqrstvwxyz1hrexdl",
      description: "The key itself; it is shown only here, and not stored.",
    }),
  })
  .openapi("CreatedApiKey");

export const keyCursor = cursorParam(z.string().regex(idPatterns.key));

export type NewKey = z.infer<typeof newKeySchema>;
export type NewPollKey = z.infer<typeof newPollKey>;
export type KeyView = z.infer<typeof keySchema>;
