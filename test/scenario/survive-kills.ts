/**
 * The story of the kills: a steady load, the stack killed at random moments and started again, and at the
 * end the question whether every event whose acceptance was heard has arrived.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { seededRandom } from "../../src/local/seeded-random.ts";
import { startLoad } from "./load.ts";
import { createDestination, deliveriesOf, type Place, preparePlace } from "./place.ts";
import { type Tally, tally } from "./tally.ts";
import { until } from "./until.ts";

/** A kill comes so long after the load began, at the most. */
const LIFE_MS = 3_000;
/** How long the receiver takes: something must be in flight when a kill comes. */
const ANSWER_MS = 20;
const ARRIVAL_MS = 120_000;

type Options = Readonly<{ kills: number; seed: number; say?: (line: string) => void }>;

/** Throws when something accepted has not arrived two minutes after the last start. */
export async function surviveKills({ kills, seed, say = () => {} }: Options): Promise<Tally> {
  const random = seededRandom(seed);
  const place = await preparePlace(ANSWER_MS);
  const accepted: string[] = [];
  const killedAt: number[] = [];
  try {
    for (let kill = 1; kill <= kills; kill++) {
      const lifeMs = Math.round(random() * LIFE_MS);
      killedAt.push(await liveAndDie(place, accepted, lifeMs, kill === 1));
      say(`kill ${kill} after ${lifeMs} ms: ${accepted.length} accepted, ${arrived(place)} arrived`);
    }
    await place.start();
    await untilAllArrived(place, accepted);
    return tally(accepted, place.receiver.hits, killedAt);
  } finally {
    await place.leave();
  }
}

/** One life of the stack; resolves with the moment of its end. */
async function liveAndDie(
  place: Place,
  accepted: string[],
  lifeMs: number,
  isFirst: boolean,
): Promise<number> {
  const { api, kill } = await place.start();
  if (isFirst) await createDestination(api, place.receiver);
  const load = startLoad(api, accepted);
  await sleep(lifeMs);
  const at = Date.now();
  await kill();
  await load.stop();
  return at;
}

function arrived({ receiver }: Place): number {
  return deliveriesOf(receiver.hits).size;
}

async function untilAllArrived(place: Place, accepted: readonly string[]): Promise<void> {
  const missing = () => {
    const deliveries = deliveriesOf(place.receiver.hits);
    return accepted.filter((id) => !deliveries.has(id)).length;
  };
  await until(() => missing() === 0, {
    withinMs: ARRIVAL_MS,
    everyMs: 200,
    otherwise: () => `${missing()} of ${accepted.length} accepted events are lost.\n${place.lastWords()}`,
  });
}
