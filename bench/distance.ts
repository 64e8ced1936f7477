/**
 * `npm run bench:distance [-- seconds --save]`: how long single events take when the Worker is far from its database and its
 * objects, as in production. Each call to them waits 0, 10, 50 or 100 ms, give or take a fifth; queues and receivers are near.
 * Ten destinations whose receivers answer at once, one consumer, an open loop: the next post comes at its time.
 *
 * How many calls follow each other on an event's way is the slope: what a millisecond of distance adds to an event that comes
 * alone.
 */
import { corpusEvent } from "./corpus.ts";
import { distanceTable } from "./distance/report.ts";
import { machine } from "./machine.ts";
import { postSteadily } from "./open-loop.ts";
import { benchArgs, type DistanceResults, type DistanceRow, save } from "./results.ts";
import { breakwaterAt } from "./throughput/breakwater.ts";
import { type Running, typeOf } from "./throughput/contender.ts";
import { type Endpoints, openEndpoints } from "./throughput/endpoints.ts";
import { delaysOf, quantile } from "./throughput/round.ts";

const args = benchArgs();
const SECONDS = Number(args.words[0] ?? 15);
const DISTANCES_MS = [0, 10, 50, 100];
const DESTINATIONS = 10;
/** Events a second. The first is alone: each has arrived before the next is posted. */
const RATES = [1, 5, 20, 50, 100, 200, 250];
const PATIENCE_MS = 120_000;

async function measure(running: Running, endpoints: Endpoints, distanceMs: number, perSecond: number) {
  endpoints.forget();
  const events = Math.max(SECONDS, Math.round(perSecond * SECONDS));
  const event = (n: number) => ({ type: typeOf(n % DESTINATIONS), data: corpusEvent(n).data });
  const startedAt = performance.now();
  const { latencies, acceptedAt } = await postSteadily(running, { perSecond, events, event });
  const postedMs = performance.now() - startedAt;
  await endpoints.arrived(events, PATIENCE_MS);
  const arrival = delaysOf(endpoints.arrivals, acceptedAt);
  const lastMs = Math.max(...endpoints.arrivals.values()) - startedAt;
  return {
    distanceMs,
    perSecond,
    acceptP50Ms: quantile(latencies, 0.5),
    acceptP99Ms: quantile(latencies, 0.99),
    arrivalP50Ms: quantile(arrival, 0.5),
    arrivalP99Ms: quantile(arrival, 0.99),
    // What is still on its way when the posts have ended: more than a moment's events means that the consumer falls behind.
    behindMs: Math.max(0, lastMs - postedMs),
  } satisfies DistanceRow;
}

async function main(): Promise<void> {
  const rows: DistanceRow[] = [];
  for (const distanceMs of DISTANCES_MS) {
    const endpoints = await openEndpoints(DESTINATIONS);
    const running = await breakwaterAt(distanceMs).start(endpoints.urls);
    try {
      // Caches and gates are warm in the steady state that is measured.
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
