/**
 * Rate limits of API keys, of the service bindings of a tenant, and of addresses whose requests have no valid key. The
 * platform's rate-limit bindings count at each of Cloudflare's locations, without a query or a written row. What is the
 * operator's own (`ADMIN_KEY`, a service binding without a tenant) is not limited, nor is anything where a binding is
 * absent.
 */
import type { MiddlewareHandler } from "hono";
import { addressBlock } from "../core/credentials.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { type ApiEnv, callerOf, type Principal } from "./context.ts";
import { answerOf, type ProblemResponse, type Refusal } from "./problems.ts";

/** The period of the limits in wrangler.toml: after so many seconds requests are allowed again. */
const PERIOD_SECONDS = 10;

const limits = {
  ingest: {
    binding: "ingestLimit",
    detail: "posts more often than its limit. Post in batches, or less often",
  },
  read: {
    binding: "readLimit",
    detail: "reads more often than its limit. Read larger pages, or less often",
  },
  anonymous: {
    binding: "anonymousLimit",
    detail: "Too many requests without a valid key come from this address. Send a valid key, or wait",
  },
} as const;

type CallerLimit = "ingest" | "read";

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
  return answerOf(overLimit(limits.anonymous.detail));
}

/** Middleware for a route that needs no key and costs a query: 429 when it is requested too often from one address. */
export const withinAnonymousLimit: MiddlewareHandler<ApiEnv> = async (c, next) => {
  const refusal = await overAnonymousLimit(c.get("services"), c.req.raw);
  if (refusal) return refusal;
  await next();
  return;
};

function within(name: CallerLimit): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const refusal = await overCallerLimit(c.get("services"), name, c.get("principal"));
    if (refusal) return answerOf(refusal);
    await next();
    return;
  };
}

/** 429 when the principal posts or reads too often; else undefined. */
export async function overCallerLimit(
  services: Services,
  name: CallerLimit,
  principal: Principal,
): Promise<Refusal<429> | undefined> {
  const { key } = principal;
  if (key === undefined || (await isAllowed(services, name, key))) return undefined;
  return overLimit(`${callerOf(principal)} ${limits[name].detail}`);
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

function overLimit(detail: string): Refusal<429> {
  return { status: 429, detail, retryAfterS: PERIOD_SECONDS };
}
