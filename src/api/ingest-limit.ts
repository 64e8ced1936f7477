/**
 * How much one API key may post: the platform's rate-limit binding counts at each of Cloudflare's locations
 * without a query or a written row. The operator's `ADMIN_KEY` is not counted, nor is anything where
 * the binding is absent.
 */
import type { MiddlewareHandler } from "hono";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { ApiEnv } from "./context.ts";
import { problem } from "./problems.ts";

/** The period of the limit in wrangler.toml: after so many seconds there is room again. */
const PERIOD_SECONDS = 10;

/** Lets a request pass while its key has room. */
export const withinIngestLimit: MiddlewareHandler<ApiEnv> = async (c, next) => {
  const { key } = c.get("principal");
  if (key !== undefined && !(await hasRoom(c.get("services"), key))) return overLimit();
  await next();
  return;
};

/** A limiter that fails lets everything in: it protects, and nothing is accounted by it. */
async function hasRoom({ ingestLimit, log }: Services, key: string): Promise<boolean> {
  try {
    return (await ingestLimit?.limit({ key }))?.success ?? true;
  } catch (error) {
    log({ what: "ingest_limit_unreachable", fault: faultOf(error) });
    return true;
  }
}

function overLimit() {
  const detail = "The key posts more than it may. Post in batches, or more slowly";
  return problem(429, detail, undefined, { "retry-after": String(PERIOD_SECONDS) });
}
