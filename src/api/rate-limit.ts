/**
 * Rate limits of API keys, and of addresses whose requests have no valid key. The platform's rate-limit bindings count at
 * each of Cloudflare's locations, without a query or a written row. `ADMIN_KEY` is not limited, nor is anything where a
 * binding is absent.
 */
import type { MiddlewareHandler } from "hono";
import { addressBlock } from "../core/credentials.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { ApiEnv } from "./context.ts";
import { type ProblemResponse, problem } from "./problems.ts";

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
  anonymous: {
    binding: "anonymousLimit",
    detail: "Too many requests without a valid key come from this address. Send a valid key, or wait",
  },
} as const;

type LimitName = keyof typeof limits;

/** Middleware: 429 when the key posts events too often. */
export const withinIngestLimit = within("ingest");

/** Middleware for a route that reads with another method than GET: 429 when the key reads too often. */
export const withinAnyReadLimit = within("read");

/** Middleware: 429 when the key reads too often. Other requests are not counted here. */
export const withinReadLimit: MiddlewareHandler<ApiEnv> = (c, next) =>
  c.req.method === "GET" || c.req.method === "HEAD" ? withinAnyReadLimit(c, next) : next();

/** 429 when requests without a valid key come too often from the address of this one; else undefined. */
export async function overAnonymousLimit(
  services: Services,
  request: Request,
): Promise<ProblemResponse<429> | undefined> {
  const address = request.headers.get("cf-connecting-ip");
  // Cloudflare sets the header on every request from outside; the dashboard's own calls inside this Worker lack it.
  if (address === null || (await isAllowed(services, "anonymous", addressBlock(address)))) return undefined;
  return overLimit("anonymous");
}

/** Middleware for a route that needs no key and costs a query: 429 when it is requested too often from one address. */
export const withinAnonymousLimit: MiddlewareHandler<ApiEnv> = async (c, next) => {
  const refusal = await overAnonymousLimit(c.get("services"), c.req.raw);
  if (refusal) return refusal;
  await next();
  return;
};

function within(name: "ingest" | "read"): MiddlewareHandler<ApiEnv> {
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
