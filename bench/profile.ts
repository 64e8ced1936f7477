/**
 * `npm run bench:profile [-- --save]`: where CPU time goes for each event, when it is only accepted, when it is delivered
 * too, and when a bare Worker delivers it.
 *
 * `perf` watches the process of the local runtime, in which the Worker, the gates, and the simulated D1 and
 * queues take turns on one thread. Debuggers' profiles would not do: they know the Worker's isolate alone,
 * and count as its time what it spends waiting for the others.
 */
import { machine } from "./machine.ts";
import { sharesOf } from "./profile/costs.ts";
import { missingPerf, recorded } from "./profile/perf.ts";
import { profileTable } from "./profile/report.ts";
import { benchArgs, type ProfileResults, save } from "./results.ts";
import { bareWorker, breakwater } from "./throughput/breakwater.ts";
import type { Contender, Running } from "./throughput/contender.ts";
import { type Endpoints, openEndpoints } from "./throughput/endpoints.ts";
import { post, type Shape } from "./throughput/load.ts";
import { childOf } from "./throughput/processes.ts";

const ENDPOINTS = 10;
const PATIENCE_MS = 120_000;
/** Rounds before it is watched, so that what is hot has been compiled. */
const WARM_UP = 2;

const shapes: readonly Shape[] = [
  { name: "one by one", events: 4_000, perPost: 1, connections: 20 },
  { name: "in batches of 100", events: 10_000, perPost: 100, connections: 4 },
];

type Column = ProfileResults["columns"][number];

const missing = missingPerf();
if (missing) {
  console.error(missing);
  process.exit(1);
}
// Has V8 name its compiled functions for perf.
process.env.MINIFLARE_WORKERD_V8_FLAGS = "--perf-basic-prof";
const endpoints = await openEndpoints(ENDPOINTS);
const arrived = (events: number) => endpoints.arrived(events, PATIENCE_MS);
const columns = [
  await columnsOf("accepted, no destination", breakwater, [], async () => {}),
  await columnsOf("delivered", breakwater, endpoints.urls, arrived),
  await columnsOf("by a bare Worker", bareWorker, endpoints.urls, arrived),
];
const results = { columns: shapes.flatMap((_, i) => columns.flatMap((ofShapes) => ofShapes[i] ?? [])) };
console.log(`\n${shapes.map(({ name }) => profileTable(results, name)).join("\n\n")}\n\n${machine()}`);
if (benchArgs().save) save("profile", results);
process.exit(0);

/** @param urls of the endpoints that take the events; none: they are only stored */
async function columnsOf(
  what: string,
  contender: Contender,
  urls: Endpoints["urls"],
  arrived: (events: number) => Promise<void>,
): Promise<Column[]> {
  const running = await contender.start(urls);
  const runtime = childOf(running.pids[0] ?? 0, "workerd");
  const columns: Column[] = [];
  for (const shape of shapes) {
    for (let round = 0; round < WARM_UP; round++) await play(running, shape, arrived);
    const { stacks, cpuSeconds } = await recorded(runtime, () => play(running, shape, arrived));
    const micros = (cpuSeconds * 1_000_000) / shape.events;
    const parts = [...sharesOf(stacks)].map(([kind, share]) => [kind, share * micros]);
    columns.push({ shape: shape.name, what, micros, parts: Object.fromEntries(parts) });
    console.log(`${shape.name}: ${what}: ${stacks.length} samples`);
  }
  await running.stop();
  return columns;
}

async function play(
  running: Running,
  shape: Shape,
  arrived: (events: number) => Promise<void>,
): Promise<void> {
  endpoints.forget();
  await post(running, shape, ENDPOINTS);
  await arrived(shape.events);
}
