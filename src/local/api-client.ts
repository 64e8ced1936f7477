/** Breakwater's public HTTP API, as its users call it. Whatever is not a success is an error that says why. */

const API_PATIENCE_MS = 20_000;

export type ApiClient = Readonly<{
  get: <T>(path: string) => Promise<T>;
  post: <T>(path: string, body: unknown) => Promise<T>;
  remove: (path: string) => Promise<void>;
}>;

export function apiClient(url: string, key: string): ApiClient {
  async function call(method: string, path: string, body?: unknown): Promise<string> {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      signal: AbortSignal.timeout(API_PATIENCE_MS),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text.slice(0, 300)}`);
    return text;
  }
  return {
    get: async (path) => JSON.parse(await call("GET", path)),
    post: async (path, body) => JSON.parse(await call("POST", path, body)),
    remove: async (path) => void (await call("DELETE", path)),
  };
}
