/** The parts that route descriptions are made of. */
import { z } from "@hono/zod-openapi";

/** The path parameter `id`. Whether anything has that id is for the handler to say: 404, not 422. */
export const idParam = z.object({ id: z.string().openapi({ description: "As it was shown." }) });

/** A required JSON body; put `jsonBody()` before it. */
export function jsonRequest<S extends z.ZodType>(schema: S) {
  return { required: true, content: { "application/json": { schema } } };
}

/** A JSON body that may be left out; put `jsonBody({ mayBeEmpty: true })` before it. */
export function optionalJson<S extends z.ZodType>(schema: S) {
  return { ...jsonRequest(schema), required: false };
}

/** A JSON body that may come as another type too. For the description alone: what it is once read stays JSON. */
export function alsoAs<B extends ReturnType<typeof jsonRequest>>(type: string, schema: object, body: B): B {
  return { ...body, content: { ...body.content, [type]: { schema } } };
}

export function jsonAnswer<S extends z.ZodType>(schema: S, description: string, headers?: z.ZodObject) {
  return { description, content: { "application/json": { schema } }, ...(headers && { headers }) };
}
