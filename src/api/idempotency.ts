/**
 * The header `Idempotency-Key`: a sender's name for a request, so that sending it again does nothing twice.
 * A key is kept as long as the event that was posted under it.
 */
import { z } from "@hono/zod-openapi";

const KEY_EXPECTED = "expected 1 to 255 printable ASCII characters";

export const REPLAYED = "idempotent-replayed";

const key = z
  .string()
  .regex(/^[\x20-\x7e]{1,255}$/, { error: KEY_EXPECTED })
  .optional();

/** Of a request that creates one thing. */
export const creationHeaders = z.object({
  "idempotency-key": key.openapi({
    description: "Sent again, by whoever creates for the same tenant, it creates nothing more: 409.",
    example: "signup-4711",
  }),
});

export const idempotencyHeaders = z.object({
  "idempotency-key": key.openapi({
    description:
      "Sent again with the same content, the request gets its first answer; with other content, 409. " +
      "Keys belong to a tenant: a batch's to that of its last event.",
    example: "order-4711-paid",
  }),
});

/** For the description of an answer. */
export const replayedHeader = z.object({
  [REPLAYED]: z
    .literal("true")
    .optional()
    .openapi({ description: "Present when the events were stored before, by a request with the same key." }),
});
