/**
 * How much one API key may ask for: the platform's rate-limit bindings count at each of Cloudflare's locations
 * without a query or a written row. The operator's `ADMIN_KEY` is not counted, nor is anything where
 * a binding is absent.
 */
import type { MiddlewareHandler } from "hono";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { ApiEnv } from "./context.ts";
import { problem } from "./problems.ts";

/** The period of the limits in wrangler.toml: after so many seconds there is room again. */
const PERIOD_SECONDS = 10;

type Limited = "ingestLimit" | "readLimit";

const details: Readonly<Record<Limited, string>> = {
  ingestLimit: "The key posts more than it may. Post in batches, or more slowly",
  readLimit: "The key reads more than it may. Read larger pages, or more slowly",
};

/** Lets a request to post pass while its key has room. */
export const withinIngestLimit = within("ingestLimit");

const withinReads = within("readLimit");

/** Lets a request that only looks pass while its key has room: of all others nothing is counted here. */
export const withinReadLimit: MiddlewareHandler<ApiEnv> = (c, next) =>
  c.req.method === "GET" || c.req.method === "HEAD" ? withinReads(c, next) : next();

function within(limit: Limited): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const { key } = c.get("principal");
    if (key !== undefined && !(await hasRoom(c.get("services"), limit, key))) return overLimit(limit);
    await next();
    return;
  };
}

/** A limiter that fails lets everything in: it protects, and nothing is accounted by it. */
async function hasRoom(services: Services, limit: Limited, key: string): Promise<boolean> {
  try {
    return (await services[limit]?.limit({ key }))?.success ?? true;
  } catch (error) {
    services.log({ what: `${LIMITED[limit]}_limit_unreachable`, fault: faultOf(error) });
    return true;
  }
}

const LIMITED = { ingestLimit: "ingest", readLimit: "read" } as const;

function overLimit(limit: Limited) {
  return problem(429, details[limit], undefined, { "retry-after": String(PERIOD_SECONDS) });
}
