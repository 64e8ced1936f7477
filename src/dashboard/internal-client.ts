/**
 * Calls the API inside this Worker. Forms change things through the same routes as programs do, so validation, scopes
 * and tenants exist only once. The session takes the place of the API key.
 */
import { createApp } from "../api/app.ts";
import type { FieldError } from "../api/problems.ts";
import type { Services } from "../services.ts";
import { bySession, type DashboardContext } from "./session.ts";

export type Refused = Readonly<{
  ok: false;
  status: number;
  /** The resource that exists already, after a repeated request. */
  location?: string;
  detail: string;
  errors: readonly FieldError[];
}>;

/** The status of the page that shows a refusal: that of our own trouble, or 422 for whatever the form can be changed to mend. */
export function statusOfRefused({ status }: Pick<Refused, "status">): 422 | 500 | 503 {
  return status === 500 || status === 503 ? status : 422;
}

/** The refusal of a form that cannot be read, before the API sees it. */
export function unreadable(errors: readonly FieldError[]): Refused {
  return { ok: false, status: 422, detail: "The form cannot be read", errors };
}

/** `json` is as described in the API's OpenAPI document. */
type ApiResult = Readonly<{ ok: true; json: Readonly<Record<string, unknown>> }> | Refused;

/** @param key the form's Idempotency-Key, so that a form takes effect once, however often it is submitted */
export type CallApi = (
  c: DashboardContext,
  method: string,
  path: string,
  body?: unknown,
  key?: string,
) => Promise<ApiResult>;

type ServicesOf = (env: Env, ctx: Pick<ExecutionContext, "waitUntil">) => Services;

/** The API's own answer, as it is: for what is handed on and not shown on a page. */
export type FetchApi = (c: DashboardContext, request: ApiRequest) => Promise<Response>;

type ApiRequest = Readonly<{ method: string; path: string; body?: unknown; key?: string | undefined }>;

/** The API app is created at the first call: reading pages does not wait for it. */
export function internalClient(services: ServicesOf): Readonly<{ callApi: CallApi; fetchApi: FetchApi }> {
  let api: ReturnType<typeof createApp> | undefined;
  const fetchApi: FetchApi = async (c, { method, path, body, key }) => {
    api ??= createApp({ services, authenticate: bySession });
    const headers = {
      authorization: `Bearer ${c.get("visitor").token}`,
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(key !== undefined && { "idempotency-key": key }),
    };
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
    return api.fetch(new Request(new URL(path, c.req.url), init), c.env, c.executionCtx);
  };
  const callApi: CallApi = async (c, method, path, body, key) =>
    resultOf(await fetchApi(c, { method, path, body, key }));
  return { callApi, fetchApi };
}

async function resultOf(response: Response): Promise<ApiResult> {
  const text = await response.text();
  const json = text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
  if (response.ok) return { ok: true, json };
  const { detail = "The request could not be completed", errors = [] } = json as Partial<Refused>;
  const location = response.headers.get("location");
  return { ok: false, status: response.status, ...(location && { location }), detail, errors };
}
