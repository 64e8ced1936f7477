/** The contenders on Workers: Breakwater itself, and a bare Worker that does the least that any Worker could. */
import { readFileSync } from "node:fs";
import { type ApiClient, apiClient } from "../../tools/stack.ts";
import { type Contender, KEY, PER_ENDPOINT, type Running, SECRET, typeOf } from "./contender.ts";
import { startChild } from "./processes.ts";

const UNLIMITED_PER_SECOND = 10_000;

const runtime = `workerd through Miniflare ${versionOf("miniflare")}, D1 and Queues simulated, D1 on disk`;

export const breakwater: Contender = {
  name: "Breakwater",
  settings: runtime,
  missing: () => undefined,
  start: (endpoints) => startedWith(endpoints),
};

/** Breakwater with delayed calls to D1 and to objects (bench/distance/worker.ts). */
export function breakwaterAt(distanceMs: number): Contender {
  const host = ["bench/distance/worker.ts", { DISTANCE_MS: String(distanceMs) }];
  return { ...breakwater, start: (endpoints) => startedWith(endpoints, ...host) };
}

async function startedWith(endpoints: readonly string[], ...given: readonly unknown[]): Promise<Running> {
  const [url, host] = await startChild<string>("./breakwater-host.ts", given);
  await createDestinations(apiClient(url, KEY), endpoints);
  return { url, headers: { authorization: `Bearer ${KEY}` }, pids: [host.pid], stop: host.stop };
}

/** Not competitors: they show how much of Breakwater's figures is due to the simulator. */
export const bareWorker = workerOf("A bare Worker", "bare-worker.js", {
  isUnsigned: true,
  settings: `${runtime}; store, queue, send, note the end, and nothing else`,
});

export const dutiesWorker = workerOf("A Worker with the same duties", "duties-worker.js", {
  settings: `${runtime}; what the bare one does, with intake, gates, signatures and timeouts`,
});

function workerOf(
  name: string,
  script: string,
  about: Pick<Contender, "settings" | "isUnsigned">,
): Contender {
  return {
    name,
    ...about,
    missing: () => undefined,
    start: async (endpoints) => {
      const [url, host] = await startChild<string>("./bare-host.ts", [endpoints, script]);
      return { url, headers: {}, pids: [host.pid], stop: host.stop };
    },
  };
}

/** Creates a destination for each endpoint, in order: `bench.0` goes to the first, and so on. Returns their ids. */
export async function createDestinations(
  api: ApiClient,
  endpoints: readonly string[],
  tenant?: string,
): Promise<string[]> {
  const ids: string[] = [];
  for (const [i, url] of endpoints.entries()) {
    const { id } = await api.post<{ id: string }>("/v1/destinations", {
      ...(tenant !== undefined && { tenant }),
      url,
      event_types: [typeOf(i)],
      secret: SECRET,
      max_concurrency: PER_ENDPOINT,
      rate_per_second: UNLIMITED_PER_SECOND,
      rate_burst: UNLIMITED_PER_SECOND,
    });
    ids.push(id);
  }
  return ids;
}

export function versionOf(name: string): string {
  const manifest = new URL(`../../node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(manifest, "utf8")).version;
}
