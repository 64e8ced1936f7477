/**
 * The API, called inside this Worker. What a form changes is changed by the route that a program would
 * have called: the same validation, scopes and tenants, and nothing of it twice. The session is its key.
 */
import { createApp } from "../api/app.ts";
import type { FieldError } from "../api/problems.ts";
import type { Services } from "../services.ts";
import { bySession, type DashboardContext } from "./session.ts";

export type Refused = Readonly<{
  ok: false;
  status: number;
  /** Where what was asked for is already. */
  location?: string;
  detail: string;
  errors: readonly FieldError[];
}>;

/** What a route answered. `json` is as the API's description has it. */
export type ApiResult = Readonly<{ ok: true; json: Readonly<Record<string, unknown>> }> | Refused;

/** @param key names the form that asks, so that it does once what it does, however often it is sent */
export type CallApi = (
  c: DashboardContext,
  method: string,
  path: string,
  body?: unknown,
  key?: string,
) => Promise<ApiResult>;

type ServicesOf = (env: Env, ctx: Pick<ExecutionContext, "waitUntil">) => Services;

/** Made at the first call: whoever only looks at pages does not wait for it. */
export function internalClient(services: ServicesOf): CallApi {
  let api: ReturnType<typeof createApp> | undefined;
  return async (c, method, path, body, key) => {
    api ??= createApp({ services, authenticate: bySession });
    const headers = {
      authorization: `Bearer ${c.get("visitor").token}`,
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(key !== undefined && { "idempotency-key": key }),
    };
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
    const request = new Request(new URL(path, c.req.url), init);
    return answerOf(await api.fetch(request, c.env, c.executionCtx));
  };
}

async function answerOf(response: Response): Promise<ApiResult> {
  const text = await response.text();
  const json = text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
  if (response.ok) return { ok: true, json };
  const { detail = "It could not be done", errors = [] } = json as Partial<Refused>;
  const location = response.headers.get("location");
  return { ok: false, status: response.status, ...(location && { location }), detail, errors };
}
