/**
 * `npm run bench:profile [-- rounds --save]`: what CPU time is spent on for each event, when it is only accepted, when
 * it is delivered too, and when a bare Worker delivers it, or one with the same duties. They take turns in short rounds,
 * so that other load on the machine affects all of them; the ratios to the bare Worker are medians of the rounds' ratios.
 *
 * `perf` samples the process of the local runtime, in which the Worker, the gates, and the simulated D1 and queues take
 * turns on one thread. A debugger's profile would be misleading: it sees the Worker's isolate only, and counts the time
 * spent waiting for the others as that isolate's.
 */
import { machine } from "./machine.ts";
import { type Stack, sharesOf } from "./profile/costs.ts";
import { missingPerf, sampledStacks } from "./profile/perf.ts";
import { profileTable } from "./profile/report.ts";
import { benchArgs, type ProfileResults, save } from "./results.ts";
import { inTurn } from "./rounds.ts";
import { bareWorker, breakwater, dutiesWorker } from "./throughput/breakwater.ts";
import type { Contender, Running } from "./throughput/contender.ts";
import { openEndpoints } from "./throughput/endpoints.ts";
import { post, type Shape } from "./throughput/load.ts";
import { childOf, cpuSeconds } from "./throughput/processes.ts";
import { quantile } from "./throughput/round.ts";

const ENDPOINTS = 10;
const PATIENCE_MS = 120_000;
const args = benchArgs();
const ROUNDS = Number(args.words[0] ?? 7);
/** Rounds before the first measured one, so that hot code has been compiled. */
const WARM_UP = 2;

const shapes: readonly Shape[] = [
  { name: "one by one", events: 1_000, perPost: 1, connections: 20 },
  { name: "in batches of 100", events: 5_000, perPost: 100, connections: 4 },
];

const DELIVERED = "delivered";
const BARE = "by a bare Worker";
const DUTIES = "by one with the same duties";

type Entrant = Readonly<{ what: string; running: Running; runtime: number; isDelivering: boolean }>;
/** One entrant's round: µs of CPU for each event, and the sampled call stacks. */
type Round = Readonly<{ what: string; shape: Shape; micros: number; stacks: readonly Stack[] }>;

const missing = missingPerf();
if (missing) {
  console.error(missing);
  process.exit(1);
}
// Makes V8 write down the names of compiled functions, for perf.
process.env.MINIFLARE_WORKERD_V8_FLAGS = "--perf-basic-prof";
const endpoints = await openEndpoints(ENDPOINTS);
const entrants = [
  await started("accepted, no destination", breakwater, false),
  await started(DELIVERED, breakwater, true),
  await started(DUTIES, dutiesWorker, true),
  await started(BARE, bareWorker, true),
];
const rounds: Round[] = [];
for (let round = -WARM_UP; round < ROUNDS; round++) {
  for (const shape of shapes) {
    for (const entrant of inTurn(entrants, round + WARM_UP)) {
      if (round < 0) await play(entrant, shape);
      else rounds.push(await watched(entrant, shape));
    }
  }
  console.log(round < 0 ? "warm-up" : `round ${round + 1} of ${ROUNDS}`);
}
const results: ProfileResults = {
  columns: shapes.flatMap(columnsOf),
  ratios: shapes.flatMap((shape) => [ratioOf(shape, DELIVERED), ratioOf(shape, DUTIES)]),
};
const tables = shapes.map(({ name }) => profileTable(results, name));
const ratios = results.ratios.map(
  ({ shape, what, median, least, most }) =>
    `${shape}, ${what}: ${median.toFixed(2)} × a bare Worker's (${least.toFixed(2)} to ${most.toFixed(2)})`,
);
console.log(`\n${[...tables, ratios.join("\n"), machine()].join("\n\n")}`);
if (args.save) save("profile", results);
await Promise.all(entrants.map(({ running }) => running.stop()));
process.exit(0);

/** @param isDelivering whether it has destinations, so that posted events arrive */
async function started(what: string, contender: Contender, isDelivering: boolean): Promise<Entrant> {
  const running = await contender.start(isDelivering ? endpoints.urls : []);
  return { what, running, runtime: childOf(running.pids[0] ?? 0, "workerd"), isDelivering };
}

async function watched(entrant: Entrant, shape: Shape): Promise<Round> {
  const { what, runtime } = entrant;
  const before = cpuSeconds([runtime]);
  const stacks = await sampledStacks(runtime, () => play(entrant, shape));
  const micros = ((cpuSeconds([runtime]) - before) * 1_000_000) / shape.events;
  return { what, shape, micros, stacks };
}

async function play({ running, isDelivering }: Entrant, shape: Shape): Promise<void> {
  endpoints.forget();
  await post(running, shape, ENDPOINTS);
  if (isDelivering) await endpoints.arrived(shape.events, PATIENCE_MS);
}

function columnsOf(shape: Shape): ProfileResults["columns"] {
  return entrants.map(({ what }) => {
    const own = rounds.filter((round) => round.shape === shape && round.what === what);
    const micros = quantile(
      own.map((round) => round.micros),
      0.5,
    );
    const parts = [...sharesOf(own.flatMap(({ stacks }) => stacks))].map(([kind, share]) => [
      kind,
      share * micros,
    ]);
    return { shape: shape.name, what, micros, parts: Object.fromEntries(parts) };
  });
}

/** Median and range of the rounds' ratios: an entrant's CPU ÷ the bare Worker's. */
function ratioOf(shape: Shape, what: string): ProfileResults["ratios"][number] {
  const microsOf = (entrant: string) =>
    rounds.filter((round) => round.shape === shape && round.what === entrant).map(({ micros }) => micros);
  const bare = microsOf(BARE);
  const ratios = microsOf(what).map((micros, round) => micros / (bare[round] ?? Number.NaN));
  return {
    shape: shape.name,
    what,
    median: quantile(ratios, 0.5),
    least: Math.min(...ratios),
    most: Math.max(...ratios),
  };
}
