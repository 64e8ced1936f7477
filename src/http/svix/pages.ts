/**
 * Requests from pages of the sender's product (CORS), as svix-react makes them. Pages of the origins that may show the
 * portal may call the API with a key. Cookies play no part.
 */
import type { MiddlewareHandler } from "hono";
import type { ApiContext, ApiEnv } from "../context.ts";

function allowedOrigin(c: ApiContext): string | undefined {
  const { portalOrigins = [] } = c.get("services")?.config ?? {};
  return portalOrigins.find((origin) => origin === c.req.header("origin"));
}

/** Lets such a page read every answer. */
export const readableByPages: MiddlewareHandler<ApiEnv> = async (c, next) => {
  await next();
  const origin = allowedOrigin(c);
  if (origin === undefined) return;
  c.header("access-control-allow-origin", origin);
  c.header("access-control-expose-headers", "Retry-After");
  c.header("vary", "Origin", { append: true });
};

const HOUR_S = "3600";

/** Answers a browser's preflight request; a page of another origin learns nothing. */
export const preflight: MiddlewareHandler<ApiEnv> = async (c, next) => {
  if (allowedOrigin(c) === undefined) return next();
  return c.body(null, 204, {
    "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
    "access-control-allow-headers": c.req.header("access-control-request-headers") ?? "authorization",
    "access-control-max-age": HOUR_S,
  });
};
