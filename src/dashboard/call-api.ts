/** Calls the API inside this Worker as whoever is signed in. */
import { type ApiResult, internalClient } from "../api/internal-client.ts";
import type { DashboardContext } from "./session.ts";

export type CallApi = (
  c: DashboardContext,
  method: string,
  path: string,
  body?: unknown,
  key?: string,
) => Promise<ApiResult>;

export function callApiAs(services: Parameters<typeof internalClient>[0]): CallApi {
  const call = internalClient(services);
  return (c, ...request) => call(c, c.get("visitor").principal, ...request);
}
