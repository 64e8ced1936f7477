/** An API key in JSON: as it is asked for, as it is shown. The key itself is in the answer to its creation alone. */
import { z } from "@hono/zod-openapi";
import { isoTime } from "../iso-time.ts";
import type { StoredKey } from "../store/keys.ts";
import { scopes } from "./auth.ts";
import type { FieldError } from "./field-errors.ts";
import { tenantName } from "./names.ts";
import { strict } from "./strict.ts";

const NAME_EXPECTED = "expected a string of at most 100 characters";
const SCOPES_EXPECTED = `expected a list of one or more of ${scopes.join(", ")}, each once`;
const TO_COME = "a time to come, as in 2027-01-31T00:00:00Z";

const time = z.iso.datetime();

const scopeList = z
  .array(z.enum(scopes, { error: SCOPES_EXPECTED }), { error: SCOPES_EXPECTED })
  .min(1, { error: SCOPES_EXPECTED })
  .refine((given) => new Set(given).size === given.length, { error: SCOPES_EXPECTED })
  .openapi({
    example: ["events:write"],
    description: "events:write posts events; read shows everything but secrets; admin does all the rest.",
  });

export const newKeySchema = strict({
  name: z
    .string({ error: NAME_EXPECTED })
    .max(100, { error: NAME_EXPECTED })
    .nullish()
    .openapi({ example: "checkout service", description: "For you to know it by." }),
  scopes: scopeList,
  tenant: tenantName.optional().openapi({
    example: "default",
    description: "The only tenant that it sees and touches; all of them when left out.",
  }),
  expires_at: z.iso
    .datetime({ error: `expected ${TO_COME}`, offset: true })
    .nullish()
    .openapi({
      description:
        "From then on it is refused; when left out, it stays until it is revoked, or as long as the key that asks.",
    }),
}).openapi("NewApiKey");

export const keySchema = z
  .object({
    id: z.string().openapi({ example: "key_8m2x0f7q9a4r6t1v3w5y" }),
    name: z.string().nullable().openapi({ example: "checkout service" }),
    tenant: z.string().nullable().openapi({ example: "default" }),
    scopes: z.array(z.enum(scopes)).openapi({ example: ["events:write"] }),
    created_at: time,
    expires_at: time.nullable(),
    last_used_at: time.nullable().openapi({ description: "To the hour." }),
  })
  .openapi("ApiKey");

export const createdKeySchema = keySchema
  .extend({
    key: z.string().openapi({
      example: "bw_8m2x0f7q9a4r6t1v3w5y_0123456789abcdefghjkmnpqrstvwxyz",
      description: "The key itself: shown this once, and not stored.",
    }),
  })
  .openapi("CreatedApiKey");

/** What is shown of a stored key. */
export function keyView(row: StoredKey): z.infer<typeof keySchema> {
  return {
    id: row.id,
    name: row.name,
    tenant: row.tenant,
    scopes: scopes.filter((scope) => Array.isArray(row.scopes) && row.scopes.includes(scope)),
    created_at: isoTime(row.createdAt),
    expires_at: isoTime(row.expiresAt),
    last_used_at: isoTime(row.lastUsedAt),
  };
}

/**
 * The fault of an expiry that has passed already, or that would let the key outlive the one that asks.
 * @param latest epoch ms at which the key that asks expires; undefined: never
 */
export function expiryErrors(
  expiresAt: number | null,
  latest: number | undefined,
  now: number,
): FieldError[] {
  if (expiresAt === null) return [];
  const at = isoTime(expiresAt);
  const field = "expires_at";
  if (expiresAt <= now) return [{ field, fault: `is ${at}, which has passed`, expected: TO_COME }];
  if (latest === undefined || expiresAt <= latest) return [];
  const fault = `is ${at}, when the key that asks has expired`;
  return [{ field, fault, expected: `${isoTime(latest)} at the latest` }];
}
