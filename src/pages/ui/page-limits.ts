/** Answers for all pages: to internal failures, to forms that cannot be read, and to too many requests. */
import type { Context, Env, MiddlewareHandler } from "hono";
import type { Principal } from "../../core/principal.ts";
import { readWhole } from "../../http/json-body.ts";
import { serverStatusOf } from "../../http/problems.ts";
import { clientOf, overPageLimit } from "../../http/rate-limit.ts";
import { faultOf, logToConsole } from "../../log.ts";
import { ANONYMOUS_REFUSAL, isOverAnonymousLimit } from "../../rate-limits.ts";
import type { Services } from "../../services.ts";
import type { PageAnswer } from "./surface.ts";

type PagesEnv = Env &
  Readonly<{ Variables: Readonly<{ services: Services; visitor: Readonly<{ principal: Principal }> }> }>;

/**
 * The answer to an internal failure, with a log line.
 * @param show the page that says so
 */
export function onPageError<E extends PagesEnv>(show: (c: Context<E>, status: 500 | 503) => PageAnswer) {
  return (error: Error, c: Context<E>): PageAnswer => {
    // The services themselves may have failed.
    const log = (c.get("services") as Services | undefined)?.log ?? logToConsole;
    if ("getResponse" in error) return (error.getResponse as () => Response)();
    const status = serverStatusOf(error);
    log({ what: "page_failed", method: c.req.method, path: c.req.path, status, fault: faultOf(error) });
    return show(c, status);
  };
}

/** Middleware for known visitors: 429 when one requests pages, or sends forms, too often. */
export function withinPageLimit<E extends PagesEnv>(
  show: (c: Context<E>, seconds: number) => PageAnswer,
): MiddlewareHandler<E> {
  return async (c, next) => {
    const { principal } = c.get("visitor");
    const refusal = await overPageLimit(c.get("services"), c.req.method, principal);
    if (refusal) return show(c, refusal.retryAfterS ?? 0);
    await next();
    return;
  };
}

/** Beyond that of every form but one: the longest code of a transformation, percent-encoded, is 192 KiB. */
const MOST_FORM_BYTES = 512 * 1024;

/**
 * Middleware: 400 for a form that cannot be read, such as one of parts without a boundary, and 413 for one that is too large:
 * anyone can send them, before there is a session. Both count as requests without a valid key, so that they are 429 beyond
 * their limit.
 * @param larger forms that may be larger than the others
 */
export function readableForm<E extends PagesEnv>(
  show: Readonly<{
    unreadable: (c: Context<E>, status: 400 | 413) => PageAnswer;
    tooMany: (c: Context<E>, seconds: number) => PageAnswer;
  }>,
  larger: readonly Readonly<{ path: string; bytes: number }>[] = [],
): MiddlewareHandler<E> {
  return async (c, next) => {
    const most = larger.find(({ path }) => path === c.req.path)?.bytes ?? MOST_FORM_BYTES;
    const fault = c.req.method === "POST" ? await formFault(c, most) : undefined;
    if (fault !== undefined) {
      const client = clientOf(c.req.raw);
      const isOver = client !== undefined && (await isOverAnonymousLimit(c.get("services"), client));
      return isOver ? show.tooMany(c, ANONYMOUS_REFUSAL.retryAfterS ?? 0) : show.unreadable(c, fault);
    }
    await next();
    return;
  };
}

/** Handlers get the form that has been read here. */
async function formFault({ req }: Context, most: number): Promise<400 | 413 | undefined> {
  const body = await readWhole(req.raw, most);
  if (!body) return 413;
  const { url, method, headers } = req.raw;
  req.raw = new Request(url, { method, headers, body });
  if (!/^\s*multipart\/form-data/i.test(req.header("content-type") ?? "")) return undefined;
  return req.parseBody().then(
    () => undefined,
    () => 400,
  );
}
