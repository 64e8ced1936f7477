/**
 * Rate limits of API keys. The platform's rate-limit bindings count at each of Cloudflare's locations, without a query
 * or a written row. `ADMIN_KEY` is not limited, nor is any key where a binding is absent.
 */
import type { MiddlewareHandler } from "hono";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { ApiEnv } from "./context.ts";
import { problem } from "./problems.ts";

/** The period of the limits in wrangler.toml: after so many seconds requests are allowed again. */
const PERIOD_SECONDS = 10;

const limits = {
  ingest: {
    binding: "ingestLimit",
    detail: "The key posts more often than its limit. Post in batches, or less often",
  },
  read: {
    binding: "readLimit",
    detail: "The key reads more often than its limit. Read larger pages, or less often",
  },
} as const;

type LimitName = keyof typeof limits;

/** Middleware: 429 when the key posts events too often. */
export const withinIngestLimit = within("ingest");

const withinReads = within("read");

/** Middleware: 429 when the key reads too often. Other requests are not counted here. */
export const withinReadLimit: MiddlewareHandler<ApiEnv> = (c, next) =>
  c.req.method === "GET" || c.req.method === "HEAD" ? withinReads(c, next) : next();

function within(name: LimitName): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const { key } = c.get("principal");
    if (key !== undefined && !(await isAllowed(c.get("services"), name, key))) return overLimit(name);
    await next();
    return;
  };
}

/** A limiter that fails allows everything: it only protects, nothing is billed by it. */
async function isAllowed(services: Services, name: LimitName, key: string): Promise<boolean> {
  try {
    return (await services[limits[name].binding]?.limit({ key }))?.success ?? true;
  } catch (error) {
    services.log({ what: `${name}_limit_unreachable`, fault: faultOf(error) });
    return true;
  }
}

function overLimit(name: LimitName) {
  return problem(429, limits[name].detail, undefined, { "retry-after": String(PERIOD_SECONDS) });
}
