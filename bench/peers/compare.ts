/** Measures contenders in turn, under the same load. */
import type { LoadTable } from "../results.ts";
import { playRounds } from "../rounds.ts";
import type { Contender } from "../throughput/contender.ts";
import type { Endpoints } from "../throughput/endpoints.ts";
import type { Shape } from "../throughput/load.ts";
import { type Series, tablesOf } from "../throughput/report.ts";
import { type Figures, measure } from "../throughput/round.ts";

/** A contender, and the loads that it takes: one without an endpoint for batches is not in the table of batches. */
export type Entrant = Readonly<{ contender: Contender; shapes: readonly Shape[] }>;

/**
 * @param log receives a line for each measurement
 * @throws when an event does not arrive in time, or arrives unsigned from a contender that signs
 */
export async function compare(
  entrants: readonly Entrant[],
  endpoints: Endpoints,
  rounds: number,
  log: (text: string) => void,
): Promise<LoadTable[]> {
  const series: (Series & { readonly rounds: Figures[] })[] = [];
  for (const shape of new Set(entrants.flatMap(({ shapes }) => shapes)))
    for (const { contender, shapes } of entrants)
      if (shapes.includes(shape)) series.push({ contender, shape, rounds: [] });
  await playRounds(
    entrants.map(({ contender }) => contender),
    endpoints.urls,
    rounds,
    async (contender, running, round) => {
      for (const of of series.filter((one) => one.contender === contender)) {
        const figures = await measure(running, endpoints, of.shape);
        if (contender.isUnsigned !== true && endpoints.unsigned() > 0)
          throw new Error(`${contender.name} sent ${endpoints.unsigned()} unsigned`);
        if (round > 0) of.rounds.push(figures);
        const rates = `${figures.acceptedPerSecond.toFixed(0)} accepted, ${figures.deliveredPerSecond.toFixed(0)} delivered a second`;
        log(`round ${round} of ${rounds} · ${contender.name} · ${of.shape.name} · ${rates}`);
      }
    },
    log,
  );
  return tablesOf(series.filter((one) => one.rounds.length > 0));
}
