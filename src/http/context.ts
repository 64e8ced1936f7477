/**
 * The context of a request while it is handled: the services it may use and the principal that makes it. Route files
 * register themselves on an `Api`; they never see `env`.
 */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context, MiddlewareHandler } from "hono";
import type { Principal } from "../core/principal.ts";
import type { Caller } from "../features/service.ts";
import type { Services } from "../services.ts";

export type ApiEnv = {
  Bindings: Env;
  Variables: {
    services: Services;
    /** Set on every route under /v1 except /v1/health. */
    principal: Principal;
    /** The size of the request body, where a route takes one. */
    bodyBytes: number;
    /** The line number of each event of a batch, where the body is NDJSON. */
    lines: readonly number[] | undefined;
  };
};

export type Api = OpenAPIHono<ApiEnv>;
export type ApiContext = Context<ApiEnv>;

export type ServicesFor = (env: Env, ctx: Pick<ExecutionContext, "waitUntil">) => Services;

/** Middleware: sets the services that the request may use. */
export function withServices(services: ServicesFor): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    c.set("services", services(c.env, c.executionCtx));
    await next();
  };
}

/** The caller of the request, for a service. */
export function callerIn(c: ApiContext): Caller {
  return { services: c.get("services"), principal: c.get("principal") };
}
