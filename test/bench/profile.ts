/**
 * `npm run bench:profile`: where CPU time goes for each event, when it is only accepted, when it is delivered
 * too, and when a bare Worker delivers it.
 *
 * `perf` watches the process of the local runtime, in which the Worker, the gates, and the simulated D1 and
 * queues take turns on one thread. Debuggers' profiles would not do: they know the Worker's isolate alone,
 * and count as its time what it spends waiting for the others.
 */
import { machine } from "./machine.ts";
import { table } from "./markdown.ts";
import { sharesOf } from "./profile/costs.ts";
import { missingPerf, recorded } from "./profile/perf.ts";
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

type Column = Readonly<{ title: string; cpuSecondsPer1000: number; shares: ReadonlyMap<string, number> }>;

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
  await columnsOf("accepted", breakwater, [], async () => {}),
  await columnsOf("and delivered", breakwater, endpoints.urls, arrived),
  await columnsOf("by a bare Worker", bareWorker, endpoints.urls, arrived),
];
console.log(report(shapes.flatMap((_, i) => columns.flatMap((ofShapes) => ofShapes[i] ?? []))));
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
    const title = `${shape.name}: ${what}`;
    columns.push({ title, cpuSecondsPer1000: (cpuSeconds * 1000) / shape.events, shares: sharesOf(stacks) });
    console.log(`${title}: ${stacks.length} samples`);
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

/** The rows in the order of the last column, which is the longest way. */
function report(columns: readonly Column[]): string {
  const kinds = new Set(columns.toReversed().flatMap(({ shares }) => [...shares.keys()]));
  const micros = ({ cpuSecondsPer1000, shares }: Column, kind: string) =>
    (1000 * cpuSecondsPer1000 * (shares.get(kind) ?? 0)).toFixed(0);
  const rows = [...kinds].map((kind) => [kind, ...columns.map((column) => micros(column, kind))]);
  const sums = columns.map(({ cpuSecondsPer1000 }) => (1000 * cpuSecondsPer1000).toFixed(0));
  const head = ["µs of CPU for each event", ...columns.map(({ title }) => title)];
  return `\n${table(head, [...rows, ["all", ...sums]])}\n\n${machine()}`;
}
