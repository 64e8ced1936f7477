import { type ApiResult, internalClient } from "../../http/internal-client.ts";
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
