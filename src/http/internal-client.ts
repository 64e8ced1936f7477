/**
 * Calls the API inside this Worker, for pages: their forms change things through the same routes as programs do, so
 * validation, scopes and tenants exist only once. The visitor's principal takes the place of an API key.
 */

import type { Principal } from "../core/principal.ts";
import type { FieldError, Refused as ServiceRefused } from "../core/result.ts";
import { newTokenId } from "../secrets/tokens.ts";
import type { Services } from "../services.ts";
import { createApp } from "./app.ts";

import type { ApiPath } from "./internal-path.ts";
import { idempotencyKey } from "./parameters.ts";
import { kindOfStatus } from "./problems.ts";

export type Refused = ServiceRefused &
  Readonly<{
    ok: false;
    status: number;
    /** The resource that exists already, after a repeated request. */
    location?: string;
    errors: readonly FieldError[];
  }>;

/** `json` is as described in the API's OpenAPI document. */
export type ApiResult = Readonly<{ ok: true; json: Readonly<Record<string, unknown>> }> | Refused;

/** The request of a page: a context of Hono has all of it. */
type PageRequest = Readonly<{ env: Env; executionCtx: unknown; req: Readonly<{ url: string }> }>;

/** @param key the form's Idempotency-Key, so that a form takes effect once, however often it is submitted */
type Call<Result> = (
  page: PageRequest,
  principal: Principal,
  method: string,
  path: ApiPath,
  body?: unknown,
  key?: string,
) => Promise<Result>;

export type InternalClient = Call<ApiResult>;

type ServicesOf = (env: Env, ctx: Pick<ExecutionContext, "waitUntil">) => Services;

export function internalClient(services: ServicesOf): InternalClient {
  const fetchInternally = internalFetch(services);
  return async (...request) => resultOf(await fetchInternally(...request));
}

/**
 * The API's own answer, as it is: for what is handed on, and not shown on a page. The API app is created at the first
 * call: reading pages does not wait for it.
 */
export function internalFetch(services: ServicesOf): Call<Response> {
  /** Whose call it is, by a token that exists for the time of the call and never leaves this function. */
  const callers = new Map<string, Principal>();
  let api: ReturnType<typeof createApp> | undefined;
  return async ({ env, executionCtx, req }, principal, method, path, body, key) => {
    api ??= createApp({
      services,
      authenticate: async (_, token) => callers.get(token),
      countsRequests: false,
    });
    const token = newTokenId();
    const headers = {
      authorization: `Bearer ${token}`,
      ...(body !== undefined && { "content-type": "application/json" }),
      // What no header can be is sent as an empty one, which the API refuses by its name.
      ...(key !== undefined && { "idempotency-key": idempotencyKey.safeParse(key).data ?? "" }),
    };
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
    callers.set(token, principal);
    try {
      const request = new Request(new URL(path, req.url), init);
      return await api.fetch(request, env, executionCtx as ExecutionContext);
    } finally {
      callers.delete(token);
    }
  };
}

async function resultOf(response: Response): Promise<ApiResult> {
  const text = await response.text();
  const json = text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
  if (response.ok) return { ok: true, json };
  const { detail = "The request could not be completed", errors = [] } = json as Partial<Refused>;
  const location = response.headers.get("location");
  const retryAfterS = Number(response.headers.get("retry-after") ?? Number.NaN);
  return {
    ok: false,
    kind: kindOfStatus(response.status),
    status: response.status,
    ...(location && { location }),
    ...(Number.isFinite(retryAfterS) && { retryAfterS }),
    detail,
    errors,
  };
}
