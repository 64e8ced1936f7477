/** The parts of a route that calls one service, as `createRoute` takes them. */
import type { z } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import type { Permission } from "../core/principal.ts";
import { permitting } from "./auth.ts";
import type { ApiEnv } from "./context.ts";
import { jsonAnswer } from "./parameters.ts";
import type { ProblemStatus } from "./problem-types.ts";
import { problemResponses } from "./problems.ts";

/** The method and the path; the service's permission is required before the other middleware. */
export function routeTo<const M extends "get" | "post" | "put" | "patch" | "delete", const P extends string>(
  method: M,
  path: P,
  { permission }: Readonly<{ permission: Permission }>,
  ...others: MiddlewareHandler<ApiEnv>[]
) {
  return { method, path, middleware: [permitting(permission), ...others] };
}

/** A JSON answer of this status, and problems. */
export function answers<const S extends number, B extends z.ZodType, P extends ProblemStatus>(
  status: S,
  schema: B,
  description: string,
  problems: readonly P[],
) {
  type Answer = Record<S, ReturnType<typeof jsonAnswer<B>>>;
  return { ...({ [status]: jsonAnswer(schema, description) } as Answer), ...problemResponses(...problems) };
}
