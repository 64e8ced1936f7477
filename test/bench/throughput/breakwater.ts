/** Breakwater itself: the bundled Worker on the local runtime, without the proxy of `wrangler dev`. */
import { readFileSync } from "node:fs";
import { type ApiClient, apiClient } from "../../../src/local/api-client.ts";
import { type Contender, KEY, PER_ENDPOINT, SECRET, typeOf } from "./contender.ts";
import { startChild } from "./processes.ts";

const UNLIMITED_PER_SECOND = 10_000;

export const breakwater: Contender = {
  name: "Breakwater",
  settings: `Worker in workerd through Miniflare ${versionOf("miniflare")}, D1 and queues simulated, state on disk`,
  missing: () => undefined,
  start: async (endpoints) => {
    const [url, host] = await startChild<string>("./breakwater-host.ts", []);
    await createDestinations(apiClient(url, KEY), endpoints);
    return { url, headers: { authorization: `Bearer ${KEY}` }, pids: [host.pid], stop: host.stop };
  },
};

async function createDestinations(api: ApiClient, endpoints: readonly string[]): Promise<void> {
  for (const [i, url] of endpoints.entries()) {
    await api.post("/v1/destinations", {
      url,
      event_types: [typeOf(i)],
      secret: SECRET,
      max_concurrency: PER_ENDPOINT,
      rate_per_second: UNLIMITED_PER_SECOND,
      rate_burst: UNLIMITED_PER_SECOND,
    });
  }
}

export function versionOf(name: string): string {
  const manifest = new URL(`../../../node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(manifest, "utf8")).version;
}
