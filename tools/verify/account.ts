/** The account that a deployment is in, and Cloudflare's API for it. */
import type { Run, Skipped } from "./check.ts";

export type Account = Readonly<{ api: string; id: string; token: string }>;

/**
 * The account of the environment's variables. Its token appears in no output and no error.
 * @param instead what to do for a local stack, which has no account
 * @param permissions what the token must be able to do
 */
export function accountOf({ isLocal }: Run, instead: string, permissions: string): Account | Skipped {
  if (isLocal) return { skipped: `a local stack; ${instead}` };
  const { CLOUDFLARE_API_TOKEN: token, CLOUDFLARE_ACCOUNT_ID: id } = process.env;
  if (!token || !id)
    return { skipped: `needs CLOUDFLARE_ACCOUNT_ID and a CLOUDFLARE_API_TOKEN that ${permissions}` };
  return { api: process.env.CLOUDFLARE_API_BASE_URL ?? "https://api.cloudflare.com/client/v4", id, token };
}

/**
 * Calls Cloudflare's API and returns the result.
 * @param path below the account
 * @param body sent as JSON
 * @throws the status of an unsuccessful answer
 */
export async function callAccount<T>(
  { api, id, token }: Account,
  path: string,
  { method = "GET", body }: Readonly<{ method?: string; body?: unknown }> = {},
): Promise<T> {
  const response = await fetch(`${api}/accounts/${id}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    signal: AbortSignal.timeout(30_000),
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const { result } = (await response.json()) as { result: T | null };
  if (!response.ok || (result === null && method === "GET"))
    throw new Error(`${method} ${path} was answered ${response.status}`);
  return result as T;
}
