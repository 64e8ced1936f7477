/**
 * `npm run bench:throughput [-- rounds --save]`: compares Breakwater with the job queues on which people build the same
 * themselves, on one machine, in turn.
 *
 * Every contender takes the same posts and delivers them to the same endpoints; each round begins with another
 * contender. Contenders that are not installed are left out, with a message. The local runtime simulates D1 and Queues:
 * it has one consumer where production has up to 250, its queues are in memory, and everything runs on one thread. A
 * bare Worker on the same runtime shows what the simulation itself costs.
 */
import { compare } from "./peers/compare.ts";
import { benchArgs, save } from "./results.ts";
import { bareWorker, breakwater } from "./throughput/breakwater.ts";
import { openEndpoints } from "./throughput/endpoints.ts";
import type { Shape } from "./throughput/load.ts";
import { peers } from "./throughput/peers.ts";
import { report } from "./throughput/report.ts";

const args = benchArgs();
const ROUNDS = Number(args.words[0] ?? 5);
const ENDPOINTS = 10;

const shapes: readonly Shape[] = [
  { name: "One by one", events: 2_000, perPost: 1, connections: 20 },
  { name: "In batches", events: 10_000, perPost: 100, connections: 4 },
];

const entrants = [breakwater, ...peers, bareWorker].map((contender) => ({ contender, shapes }));
const tables = await compare(entrants, await openEndpoints(ENDPOINTS), ROUNDS, console.log);
console.log(`\n${report(tables)}`);
if (args.save) save("throughput", { tables });
process.exit(0);
