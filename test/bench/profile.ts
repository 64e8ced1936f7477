/**
 * `npm run bench:profile`: where the Worker's own CPU time goes for each event, at ingest and at delivery.
 *
 * A sampling profile of the Worker's isolate, the gates among it, in the local runtime. The simulated D1 and
 * queues run outside of it and are not in these figures.
 */
import { apiClient } from "../../src/local/api-client.ts";
import { startBreakwater } from "../support/breakwater-runtime.ts";
import { costsOf } from "./profile/costs.ts";
import { profiled } from "./profile/profiler.ts";
import { createDestinations } from "./throughput/breakwater.ts";
import { KEY, type Running } from "./throughput/contender.ts";
import { openEndpoints } from "./throughput/endpoints.ts";
import { post, type Shape } from "./throughput/load.ts";

const TOP = 25;
const ENDPOINTS = 10;
const PATIENCE_MS = 120_000;

const shapes: readonly Shape[] = [
  { name: "one by one", events: 3_000, perPost: 1, connections: 20 },
  { name: "in batches of 100", events: 8_000, perPost: 100, connections: 4 },
];

const endpoints = await openEndpoints(ENDPOINTS);
const vars = { ADMIN_KEY: KEY, ALLOW_PRIVATE_DESTINATIONS: "true" };
const runtime = await startBreakwater({ vars, inspected: true });
try {
  const headers = { authorization: `Bearer ${KEY}` };
  const running: Running = { url: runtime.url, headers, pids: [], stop: runtime.stop };
  await createDestinations(apiClient(runtime.url, KEY), endpoints.urls);
  for (const shape of shapes) {
    await play(running, shape);
    const profile = await profiled(await runtime.inspector(), () => play(running, shape));
    const costs = costsOf(profile);
    const perEvent = (us: number) => (us / shape.events).toFixed(1).padStart(8);
    console.log(`\n${shape.name}: µs of the Worker's CPU for each event, posted and delivered`);
    console.log(`${perEvent(costs.reduce((sum, { us }) => sum + us, 0))}  all`);
    for (const { name, us } of costs.slice(0, TOP)) console.log(`${perEvent(us)}  ${name}`);
  }
} finally {
  await runtime.stop();
}
process.exit(0);

async function play(running: Running, shape: Shape): Promise<void> {
  endpoints.forget();
  await post(running, shape, ENDPOINTS);
  await endpoints.arrived(shape.events, PATIENCE_MS);
}
