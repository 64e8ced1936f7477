/**
 * Calls Breakwater's own API inside this Worker, with the caller's key. What is written goes through the same routes as
 * any other change, so that validation, scopes and limits exist only once.
 */

import type { FieldError } from "../../core/result.ts";
import type { Services } from "../../services.ts";
import { createApp } from "../app.ts";
import type { Authenticate } from "../auth.ts";
import type { ApiContext } from "../context.ts";
import type { ApiPath } from "../internal-path.ts";
import { type Problem, problem } from "../problems.ts";
import { renamedField } from "./shapes.ts";

export type NativeResult =
  | Readonly<{ ok: true; json: Readonly<Record<string, unknown>> }>
  /** `answer` is a problem whose fields have the names of the Svix API. `location` names what exists already. */
  | Readonly<{ ok: false; answer: Response; status: number; location: string | null }>;

type Options = Readonly<{
  body?: object;
  key?: string | undefined;
  /** How the Svix API calls the fields that have another name there. */
  names?: Readonly<Record<string, string>>;
}>;

export type CallNative = (
  c: ApiContext,
  method: string,
  path: ApiPath,
  options?: Options,
) => Promise<NativeResult>;

type ServicesOf = (env: Env, ctx: Pick<ExecutionContext, "waitUntil">) => Services;

/** The API app is created at the first call: reading does not wait for it. */
export function nativeApi(services: ServicesOf, authenticate: Authenticate): CallNative {
  let api: ReturnType<typeof createApp> | undefined;
  return async (c, method, path, { body, key, names = {} } = {}) => {
    api ??= createApp({ services, authenticate, countsRequests: false });
    const headers = {
      authorization: c.req.header("authorization") ?? "",
      ...(body && { "content-type": "application/json" }),
      ...(key !== undefined && { "idempotency-key": key }),
    };
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const response = await api.fetch(new Request(new URL(path, c.req.url), init), c.env, c.executionCtx);
    const text = await response.text();
    const json = text === "" ? {} : JSON.parse(text);
    if (response.ok) return { ok: true, json };
    return refusedWith(response, json, names);
  };
}

function refusedWith(
  { status, headers }: Response,
  { status: code, detail, errors }: Problem,
  names: Readonly<Record<string, string>>,
): NativeResult {
  const renamed = errors?.map(
    (error) => ({ ...error, field: renamedField(error.field, names) }) as FieldError,
  );
  const retryAfter = headers.get("retry-after");
  const later = retryAfter === null ? undefined : { "retry-after": retryAfter };
  const answer = problem(code as Parameters<typeof problem>[0], detail, renamed, later);
  return { ok: false, answer, status, location: headers.get("location") };
}
