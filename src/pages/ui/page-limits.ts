/** Requests that a page refuses before it does anything: forms that cannot be read, and too many requests. */

import type { Context, Env, MiddlewareHandler } from "hono";
import type { Principal } from "../../core/principal.ts";

import { ANONYMOUS_REFUSAL, clientOf, isOverAnonymousLimit, overPageLimit } from "../../http/rate-limit.ts";
import type { Services } from "../../services.ts";

type Shown = Response | Promise<Response>;
type VisitorEnv = Env &
  Readonly<{ Variables: Readonly<{ services: Services; visitor: Readonly<{ principal: Principal }> }> }>;

/** Middleware where a visitor is known: 429 when it requests pages, or sends forms, too often. */
export function withinPageLimit<E extends VisitorEnv>(
  show: (c: Context<E>, seconds: number) => Shown,
): MiddlewareHandler<E> {
  return async (c, next) => {
    const { principal } = c.get("visitor");
    const refusal = await overPageLimit(c.get("services"), c.req.method, principal);
    if (refusal) return show(c, refusal.retryAfterS ?? 0);
    await next();
    return;
  };
}

/**
 * Middleware: 400 for a form that cannot be read, such as one of parts without a boundary. It counts as a request without a
 * valid key, so that it is 429 beyond their limit.
 */
export function readableForm<E extends Env & Readonly<{ Variables: Readonly<{ services: Services }> }>>(
  show: Readonly<{
    unreadable: (c: Context<E>) => Shown;
    tooMany: (c: Context<E>, seconds: number) => Shown;
  }>,
): MiddlewareHandler<E> {
  return async (c, next) => {
    if (c.req.method === "POST" && !(await isReadable(c))) {
      const client = clientOf(c.req.raw);
      const isOver = client !== undefined && (await isOverAnonymousLimit(c.get("services"), client));
      return isOver ? show.tooMany(c, ANONYMOUS_REFUSAL.retryAfterS ?? 0) : show.unreadable(c);
    }
    await next();
    return;
  };
}

/** Handlers get what has been read here. */
async function isReadable({ req }: Context): Promise<boolean> {
  if (!/^\s*multipart\/form-data/i.test(req.header("content-type") ?? "")) return true;
  return req.parseBody().then(
    () => true,
    () => false,
  );
}
