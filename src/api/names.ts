/** How tenants and event types are spelled, wherever the API takes one. */
import { z } from "@hono/zod-openapi";

const TYPE_EXPECTED = "expected letters, digits, _ and -, in parts joined by dots, at most 128 characters";
const TENANT_EXPECTED = "expected 1 to 64 letters, digits and _ . : -";
const PATTERN_EXPECTED =
  'expected an event type, a prefix with ".*" after it, or "*", at most 128 characters';

export const eventType = z
  .string({ error: TYPE_EXPECTED })
  .max(128, { error: TYPE_EXPECTED, abort: true })
  .regex(/^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/, { error: TYPE_EXPECTED })
  .openapi({ example: "invoice.paid" });

export const tenantName = z
  .string({ error: TENANT_EXPECTED })
  .regex(/^[A-Za-z0-9_.:-]{1,64}$/, { error: TENANT_EXPECTED })
  .openapi({ example: "default" });

/** Which types a destination takes: `invoice.paid`, `invoice.*` or `*`. */
export const eventTypePattern = z
  .string({ error: PATTERN_EXPECTED })
  .max(128, { error: PATTERN_EXPECTED, abort: true })
  .regex(/^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.\*)?)$/, { error: PATTERN_EXPECTED })
  .openapi({ example: "invoice.*" });
