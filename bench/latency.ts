/**
 * `npm run bench:latency [-- rounds --save]`: how long a post waits for its answer, and an accepted event for its
 * arrival, at a steady rate: each post is sent when it is due, whether or not the one before has been answered.
 *
 * Compares Breakwater with BullMQ, if Redis is installed, with the same events and the same endpoint; each round begins
 * with the other contender. Locally D1 and Queues answer at once, so the figures show the waiting that Breakwater
 * itself adds.
 */
import { latencyCells, latencyTable } from "./latency/report.ts";
import { machine } from "./machine.ts";
import { type Delays, delaysAt, medianQuantiles } from "./open-loop.ts";
import { benchArgs, save } from "./results.ts";
import { playRounds } from "./rounds.ts";
import { breakwater } from "./throughput/breakwater.ts";
import type { Contender } from "./throughput/contender.ts";
import { openEndpoints } from "./throughput/endpoints.ts";
import { bullmqAlone } from "./throughput/peers.ts";

const args = benchArgs();
const ROUNDS = Number(args.words[0] ?? 3);
const RATES = [10, 50, 200];
const SECONDS = 10;

const contenders = [breakwater, bullmqAlone];
const endpoints = await openEndpoints(1);
const measured: { contender: Contender; rate: number; delays: Delays }[] = [];
await playRounds(contenders, endpoints.urls, ROUNDS, async (contender, running, round) => {
  for (const rate of RATES) {
    const delays = await delaysAt(running, endpoints, rate, rate * SECONDS);
    if (round > 0) measured.push({ contender, rate, delays });
    const row = { perSecond: rate, name: contender.name, ...medianQuantiles([delays]) };
    console.log(`round ${round} of ${ROUNDS} · ${latencyCells(row).join(" · ")}`);
  }
});

const ran = contenders.filter((one) => measured.some(({ contender }) => contender === one));
const rows = RATES.flatMap((perSecond) =>
  ran.map((one) => {
    const own = measured.filter(({ contender, rate }) => contender === one && rate === perSecond);
    return { perSecond, name: one.name, ...medianQuantiles(own.map(({ delays }) => delays)) };
  }),
);
const results = { rounds: ROUNDS, rows };
const settings = ran.map(({ name, settings }) => `- ${name}: ${settings}`);
const title = `${SECONDS} s at each rate, single events, open loop, median of ${ROUNDS} rounds`;
console.log(`\n${[title, latencyTable(results), [machine(), "", ...settings].join("\n")].join("\n\n")}`);
if (args.save) save("latency", results);
process.exit(0);
