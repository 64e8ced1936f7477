/** Rate limits of requests: middleware over `src/rate-limits.ts`. */
import type { MiddlewareHandler } from "hono";
import { addressBlock } from "../core/credentials.ts";
import type { Principal } from "../core/principal.ts";
import {
  ANONYMOUS_REFUSAL,
  type CallerLimit,
  isOverAnonymousLimit,
  overCallerLimit,
} from "../rate-limits.ts";
import type { Services } from "../services.ts";
import type { ApiEnv } from "./context.ts";
import { answerOf } from "./problems.ts";

/** Middleware: 429 when the key posts events too often. */
export const withinIngestLimit = within("ingest");

/** Middleware for a route that reads with another method than GET: 429 when the key reads too often. */
export const withinAnyReadLimit = within("read");

const withinWriteLimit = within("write");

/** Routes that count by a limit of their own: posts of events, and reads with another method than GET. */
const COUNTED_ELSEWHERE = [
  /^\/v1\/events(\/batch)?$/,
  /^\/v1\/destinations\/[^/]+\/(transform\/)?preview$/,
  /^\/(api|ingest)\/v1\/app\/[^/]+\/msg$/,
];

/** Middleware: 429 when the key reads too often, or changes things too often. */
export const withinLimits: MiddlewareHandler<ApiEnv> = (c, next) => {
  if (isReading(c.req.method)) return withinAnyReadLimit(c, next);
  return COUNTED_ELSEWHERE.some((path) => path.test(c.req.path)) ? next() : withinWriteLimit(c, next);
};

/** 429 when a page of this principal is requested, or a form sent, too often; else undefined. */
export function overPageLimit(services: Services, method: string, principal: Principal) {
  return overCallerLimit(services, isReading(method) ? "read" : "write", principal);
}

function isReading(method: string): boolean {
  return method === "GET" || method === "HEAD" || method === "OPTIONS";
}

/** 429 when requests without a valid key come too often from the address of this one; else undefined. */
export async function overAnonymousLimit(services: Services, request: Request) {
  const client = clientOf(request);
  if (client === undefined || !(await isOverAnonymousLimit(services, client))) return undefined;
  return answerOf(ANONYMOUS_REFUSAL);
}

/**
 * The key by which a request without a valid key is counted. Undefined without the header, which Cloudflare
 * sets on every request from outside.
 */
export function clientOf(request: Request): string | undefined {
  const address = request.headers.get("cf-connecting-ip");
  return address === null ? undefined : addressBlock(address);
}

/** Middleware for a route that needs no key and costs a query: 429 when it is requested too often from one address. */
export const withinAnonymousLimit: MiddlewareHandler<ApiEnv> = async (c, next) =>
  (await overAnonymousLimit(c.get("services"), c.req.raw)) ?? next();

function within(name: CallerLimit): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const refusal = await overCallerLimit(c.get("services"), name, c.get("principal"));
    return refusal ? answerOf(refusal) : next();
  };
}
