/**
 * `npm run bench:latency [-- rounds --save]`: how long a post waits for its answer, and an accepted event for its arrival,
 * at a steady rate: the next post comes at its time, whether or not the one before has been answered.
 *
 * Beside BullMQ, where Redis is installed, as in the throughput bench. One after the other, each round
 * beginning with another one; the same event, the same endpoint. Locally D1 and Queues answer at once, so that what is
 * measured is what Breakwater itself lets an event wait for.
 */
import { corpusEvent } from "./corpus.ts";
import { latencyCells, latencyTable } from "./latency/report.ts";
import { machine } from "./machine.ts";
import { postSteadily } from "./open-loop.ts";
import { benchArgs, type LatencyResults, type LatencyRow, save } from "./results.ts";
import { inTurn } from "./rotate.ts";
import { breakwater } from "./throughput/breakwater.ts";
import { type Contender, type Running, typeOf } from "./throughput/contender.ts";
import { type Endpoints, openEndpoints } from "./throughput/endpoints.ts";
import { bullmqAlone } from "./throughput/peers.ts";
import { delaysOf, quantile } from "./throughput/round.ts";

const args = benchArgs();
const ROUNDS = Number(args.words[0] ?? 3);
const RATES = [10, 50, 200];
const SECONDS = 10;
const PATIENCE_MS = 60_000;

type Delays = Readonly<{ accept: readonly number[]; arrival: readonly number[] }>;
type Entrant = Readonly<{ contender: Contender; running: Running; delays: Map<number, Delays[]> }>;

async function measure(running: Running, endpoints: Endpoints, perSecond: number): Promise<Delays> {
  endpoints.forget();
  const events = perSecond * SECONDS;
  const event = (n: number) => ({ type: typeOf(0), data: corpusEvent(n).data });
  const { latencies, acceptedAt } = await postSteadily(running, { perSecond, events, event });
  await endpoints.arrived(events, PATIENCE_MS);
  return { accept: latencies, arrival: delaysOf(endpoints.arrivals, acceptedAt) };
}

function rowOf({ contender: { name } }: Entrant, perSecond: number, rounds: readonly Delays[]): LatencyRow {
  // Of each round its own quantile, and of those the middle one: one stall of the machine spoils one round.
  const middle = (values: (delays: Delays) => readonly number[], q: number) =>
    quantile(
      rounds.map((delays) => quantile(values(delays), q)),
      0.5,
    );
  const [accept, arrival] = [(delays: Delays) => delays.accept, (delays: Delays) => delays.arrival];
  return {
    perSecond,
    name,
    acceptP50Ms: middle(accept, 0.5),
    acceptP99Ms: middle(accept, 0.99),
    arrivalP50Ms: middle(arrival, 0.5),
    arrivalP99Ms: middle(arrival, 0.99),
  };
}

function resultsOf(entrants: readonly Entrant[]): LatencyResults {
  const rows = RATES.flatMap((rate) =>
    entrants.map((entrant) => rowOf(entrant, rate, entrant.delays.get(rate) ?? [])),
  );
  return { rounds: ROUNDS, rows };
}

function report(results: LatencyResults, entrants: readonly Entrant[]): string {
  const settings = entrants.map(({ contender: { name, settings } }) => `- ${name}: ${settings}`);
  const title = `${SECONDS} s at each rate, one by one, open loop, the middle one of ${ROUNDS} rounds`;
  return [title, latencyTable(results), [machine(), "", ...settings].join("\n")].join("\n\n");
}

async function main(): Promise<void> {
  const endpoints = await openEndpoints(1);
  const entrants: Entrant[] = [];
  try {
    for (const contender of [breakwater, bullmqAlone]) {
      const missing = contender.missing();
      if (missing) console.log(`Without ${contender.name}: ${missing}.`);
      else entrants.push({ contender, running: await contender.start(endpoints.urls), delays: new Map() });
    }
    for (let round = 0; round <= ROUNDS; round++) {
      for (const entrant of inTurn(entrants, round)) {
        for (const rate of RATES) {
          const delays = await measure(entrant.running, endpoints, rate);
          // The first round warms up.
          if (round > 0) entrant.delays.set(rate, [...(entrant.delays.get(rate) ?? []), delays]);
          console.log(
            `round ${round} of ${ROUNDS} · ${latencyCells(rowOf(entrant, rate, [delays])).join(" · ")}`,
          );
        }
      }
    }
    const results = resultsOf(entrants);
    console.log(`\n${report(results, entrants)}`);
    if (args.save) save("latency", results);
  } finally {
    await Promise.allSettled(entrants.map(({ running }) => running.stop()));
  }
}

await main();
process.exit(0);
