/** An object whose unknown fields are refused with the names of the known ones. */
import { z } from "@hono/zod-openapi";

export function strict<S extends z.ZodRawShape>(shape: S) {
  return z.strictObject(shape, { error: `expected an object of ${Object.keys(shape).join(", ")}` });
}
