/**
 * The story of the kills: a steady load for receivers that fail, hang and recover, the stack killed at
 * random moments and started again, and at the end the question whether every event whose acceptance was
 * heard has arrived everywhere.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { seededRandom } from "../../src/local/seeded-random.ts";
import { startLoad } from "./load.ts";
import { createDestination, type Place, preparePlace, receptionsOf } from "./place.ts";
import { endpoints, paths } from "./receivers.ts";
import { missing, type Tally, tally } from "./tally.ts";
import { until } from "./until.ts";

/** A kill comes so long after the load began, at the most. */
const LIFE_MS = 3_000;
const ARRIVAL_MS = 180_000;
/** After everything has arrived: time for repeats to show. */
const AFTERMATH_MS = 3_000;

type Options = Readonly<{ kills: number; seed: number; say?: (line: string) => void }>;

/** Throws when something accepted has not arrived everywhere three minutes after the last start. */
export async function surviveKills({ kills, seed, say = () => {} }: Options): Promise<Tally> {
  const random = seededRandom(seed);
  const customers = endpoints(seed);
  const place = await preparePlace(({ path, at }) => customers.answer(path, at), seed);
  const accepted: string[] = [];
  const killedAt: number[] = [];
  try {
    for (let kill = 1; kill <= kills; kill++) {
      const lifeMs = Math.round(random() * LIFE_MS);
      killedAt.push(await liveAndDie(place, accepted, lifeMs, kill === 1));
      const arrived = receptionsOf(place.receiver.hits).size;
      say(`kill ${kill} after ${lifeMs} ms: ${accepted.length} accepted, ${arrived} deliveries arrived`);
    }
    customers.recover();
    await place.start();
    await untilAllArrived(place, accepted);
    await sleep(AFTERMATH_MS);
    return tally(accepted, place.receiver.hits, paths, killedAt);
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
  if (isFirst) for (const path of paths) await createDestination(api, place.receiver, path);
  const load = startLoad(api, accepted);
  await sleep(lifeMs);
  await kill();
  // What is signalled is not gone yet: for some milliseconds it still sends what it will never record.
  const at = Date.now();
  await load.stop();
  return at;
}

async function untilAllArrived({ receiver, lastWords }: Place, accepted: readonly string[]): Promise<void> {
  const left = () => missing(accepted, receptionsOf(receiver.hits), paths);
  const isSo = () => left().length === 0;
  const otherwise = () => {
    const lost = left();
    return `${lost.length} of ${accepted.length * paths.length} deliveries are lost, among them ${lost.slice(0, 5)}.\n${lastWords()}`;
  };
  await until(isSo, { withinMs: ARRIVAL_MS, everyMs: 500, otherwise });
}
