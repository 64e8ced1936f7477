/** Calls the API inside this Worker as whoever is signed in. */
import type { FieldError, Refused } from "../../core/result.ts";
import { type ApiResult, internalClient, internalFetch } from "../../http/internal-client.ts";
import type { ApiPath } from "../../http/internal-path.ts";

import type { DashboardContext } from "./session.ts";

export type CallApi = (
  c: DashboardContext,
  method: string,
  path: ApiPath,
  body?: unknown,
  key?: string,
) => Promise<ApiResult>;

export function callApiAs(services: Parameters<typeof internalClient>[0]): CallApi {
  const call = internalClient(services);
  return (c, ...request) => call(c, c.get("visitor").principal, ...request);
}

/** The answer to a GET as the API gives it, for what is handed on and not shown on a page. */
export type FetchApi = (c: DashboardContext, path: ApiPath) => Promise<Response>;

export function fetchApiAs(services: Parameters<typeof internalFetch>[0]): FetchApi {
  const call = internalFetch(services);
  return (c, path) => call(c, c.get("visitor").principal, "GET", path);
}

/** The refusal of a form that cannot be read, before the API sees it. */
export function unreadable(errors: readonly FieldError[]): Refused {
  return { kind: "invalid", detail: "The form cannot be read", errors };
}
