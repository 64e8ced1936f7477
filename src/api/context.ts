/**
 * What a request carries from one step to the next: the services it may use and who is asking. Route files
 * register themselves on an `Api`; they never see `env`.
 */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Services } from "../services.ts";
import type { Principal } from "./auth.ts";

export type ApiEnv = {
  Bindings: Env;
  Variables: {
    services: Services;
    /** Set on every route under /v1 but /v1/health. */
    principal: Principal;
    /** The size of the JSON body as it came, where a route takes one. */
    bodyBytes: number;
    /** The line that each event of a batch stood on, where it came as lines. */
    lines: readonly number[] | undefined;
  };
};

export type Api = OpenAPIHono<ApiEnv>;
export type ApiContext = Context<ApiEnv>;
