/** The same load on each of them, in turn, and what came of it. */
import type { LoadTable } from "../results.ts";
import { inTurn } from "../rotate.ts";
import type { Contender, Running } from "../throughput/contender.ts";
import type { Endpoints } from "../throughput/endpoints.ts";
import type { Shape } from "../throughput/load.ts";
import { type Series, tablesOf } from "../throughput/report.ts";
import { type Figures, measure } from "../throughput/round.ts";

/** What each of them takes: who has no endpoint for batches is not in the batches' table. */
export type Entrant = Readonly<{ contender: Contender; shapes: readonly Shape[] }>;

type Entered = Entrant & Readonly<{ running: Running; rounds: Map<Shape, Figures[]> }>;

/**
 * Starts all, measures as many rounds as wanted after one that warms up, and stops all, whatever happens.
 * @param tell hears of each measurement
 * @throws when an event does not arrive in time, or arrives unsigned
 */
export async function compare(
  entrants: readonly Entrant[],
  endpoints: Endpoints,
  rounds: number,
  tell: (text: string) => void,
): Promise<LoadTable[]> {
  const entered: Entered[] = [];
  try {
    for (const entrant of entrants) {
      const running = await entrant.contender.start(endpoints.urls);
      entered.push({ ...entrant, running, rounds: new Map() });
    }
    for (let round = 0; round <= rounds; round++) {
      for (const one of inTurn(entered, round)) await play(one, endpoints, round, tell);
    }
  } finally {
    const stopped = await Promise.allSettled(entered.map(({ running }) => running.stop()));
    for (const one of stopped) if (one.status === "rejected") tell(`Not removed: ${one.reason}`);
  }
  const shapes = [...new Set(entrants.flatMap((entrant) => entrant.shapes))];
  return tablesOf(shapes.flatMap((shape) => seriesOf(entered, shape)));
}

async function play(
  { contender, shapes, running, rounds }: Entered,
  endpoints: Endpoints,
  round: number,
  tell: (text: string) => void,
): Promise<void> {
  for (const shape of shapes) {
    const figures = await measure(running, endpoints, shape);
    if (endpoints.unsigned() > 0) throw new Error(`${contender.name} sent ${endpoints.unsigned()} unsigned`);
    if (round > 0) rounds.set(shape, [...(rounds.get(shape) ?? []), figures]);
    const rates = `${figures.acceptedPerSecond.toFixed(0)} accepted, ${figures.deliveredPerSecond.toFixed(0)} delivered a second`;
    tell(`round ${round} · ${contender.name} · ${shape.name} · ${rates}`);
  }
}

function seriesOf(entered: readonly Entered[], shape: Shape): Series[] {
  return entered.flatMap(({ contender, rounds }) => {
    const figures = rounds.get(shape);
    return figures ? [{ contender, shape, rounds: figures }] : [];
  });
}
