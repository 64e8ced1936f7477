/**
 * `npm run bench:throughput [-- rounds --save]`: Breakwater beside the job queues that people build this on
 * themselves, on one machine, in one run, in turn.
 *
 * Every contender takes the same posts and delivers them to the same endpoints; each round begins with
 * another one. What is not installed is left out, and said so. The local runtime simulates D1 and Queues:
 * it has one consumer at a time where production has up to 250, its queues are in memory, and everything
 * runs on one thread. A bare Worker on the same runtime shows what that costs by itself.
 */
import { benchArgs, save } from "./results.ts";
import { inTurn } from "./rotate.ts";
import { bareWorker, breakwater } from "./throughput/breakwater.ts";
import type { Contender, Running } from "./throughput/contender.ts";
import { openEndpoints } from "./throughput/endpoints.ts";
import type { Shape } from "./throughput/load.ts";
import { peers } from "./throughput/peers.ts";
import { report, type Series, tablesOf } from "./throughput/report.ts";
import { type Figures, measure } from "./throughput/round.ts";

const args = benchArgs();
const ROUNDS = Number(args.words[0] ?? 5);
const ENDPOINTS = 10;

const shapes: readonly Shape[] = [
  { name: "One by one", events: 2_000, perPost: 1, connections: 20 },
  { name: "In batches", events: 10_000, perPost: 100, connections: 4 },
];

type Entrant = Readonly<{ contender: Contender; running: Running; rounds: Map<Shape, Figures[]> }>;

async function main(): Promise<void> {
  const endpoints = await openEndpoints(ENDPOINTS);
  const entrants: Entrant[] = [];
  try {
    for (const contender of [breakwater, ...peers, bareWorker]) {
      const missing = contender.missing();
      if (missing) console.log(`Without ${contender.name}: ${missing}.`);
      else entrants.push({ contender, running: await contender.start(endpoints.urls), rounds: new Map() });
    }
    for (let round = 0; round <= ROUNDS; round++) {
      for (const { contender, running, rounds } of inTurn(entrants, round)) {
        for (const shape of shapes) {
          const figures = await measure(running, endpoints, shape);
          // The first round warms up.
          if (round > 0) rounds.set(shape, [...(rounds.get(shape) ?? []), figures]);
          const rate = figures.deliveredPerSecond.toFixed(0);
          console.log(`round ${round} of ${ROUNDS} · ${contender.name} · ${shape.name} · ${rate}/s`);
        }
      }
    }
    const tables = tablesOf(seriesOf(entrants));
    console.log(`\n${report(tables)}`);
    if (args.save) save("throughput", { tables });
  } finally {
    await Promise.allSettled(entrants.map(({ running }) => running.stop()));
  }
}

function seriesOf(entrants: readonly Entrant[]): Series[] {
  return entrants.flatMap(({ contender, rounds }) =>
    [...rounds].map(([shape, figures]) => ({ contender, shape, rounds: figures })),
  );
}

await main();
process.exit(0);
