/**
 * `npm run bench:distance [-- seconds --save]`: how long single events take when the Worker is far from its database
 * and its objects, as in production. Each call to them waits 0, 10, 50 or 100 ms, give or take a fifth; queues and
 * receivers are near. There are ten destinations, whose receivers answer at once, one consumer, and an open loop: each
 * post is sent when it is due.
 *
 * The slope over the distances is the number of sequential calls on an event's way: the milliseconds that each
 * millisecond of distance adds to an event that comes alone.
 */
import { distanceTable } from "./distance/report.ts";
import { machine } from "./machine.ts";
import { delaysAt, medianQuantiles } from "./open-loop.ts";
import { benchArgs, type DistanceResults, type DistanceRow, save } from "./results.ts";
import { breakwaterAt } from "./throughput/breakwater.ts";
import type { Running } from "./throughput/contender.ts";
import { type Endpoints, openEndpoints } from "./throughput/endpoints.ts";

const args = benchArgs();
const SECONDS = Number(args.words[0] ?? 15);
const DISTANCES_MS = [0, 10, 50, 100];
const DESTINATIONS = 10;
/** Events a second. At the first rate, each event has arrived before the next is posted. */
const RATES = [1, 5, 20, 50, 100, 200, 250];

async function measure(
  running: Running,
  endpoints: Endpoints,
  distanceMs: number,
  perSecond: number,
): Promise<DistanceRow> {
  const events = Math.max(SECONDS, Math.round(perSecond * SECONDS));
  const delays = await delaysAt(running, endpoints, perSecond, events);
  return { distanceMs, perSecond, ...medianQuantiles([delays]), behindMs: delays.behindMs };
}

async function main(): Promise<void> {
  const rows: DistanceRow[] = [];
  for (const distanceMs of DISTANCES_MS) {
    const endpoints = await openEndpoints(DESTINATIONS);
    const running = await breakwaterAt(distanceMs).start(endpoints.urls);
    try {
      // Warms caches and gates: what is measured is the steady state.
      await measure(running, endpoints, distanceMs, 20);
      for (const perSecond of RATES) {
        const row = await measure(running, endpoints, distanceMs, perSecond);
        rows.push(row);
        console.log(
          `${distanceMs} ms · ${perSecond} a second · accept p50 ${row.acceptP50Ms.toFixed(0)} · arrival p50 ${row.arrivalP50Ms.toFixed(0)}, p99 ${row.arrivalP99Ms.toFixed(0)} · behind ${row.behindMs.toFixed(0)} ms`,
        );
      }
    } finally {
      await running.stop();
      endpoints.close();
    }
  }
  const results: DistanceResults = { seconds: SECONDS, destinations: DESTINATIONS, rows };
  console.log(`\n${distanceTable(results)}\n\n${machine()}`);
  if (args.save) save("distance", results);
}

await main();
process.exit(0);
