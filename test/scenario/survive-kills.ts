/**
 * A steady load for receivers that fail, hang and recover, on a stack that is killed at random moments and started
 * again. In the end every event that was answered with 202 must have arrived everywhere.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { seededRandom } from "../../src/core/seeded-random.ts";
import { type KillReport, missing, reportKills } from "./kill-report.ts";
import { startLoad } from "./load.ts";
import { createDestination, prepareTestStack, receptionsOf, type TestStack } from "./test-stack.ts";
import { endpoints, paths } from "./unreliable-endpoints.ts";
import { until } from "./until.ts";

/** The longest time from the beginning of the load to the kill. */
const UPTIME_MS = 3_000;
/** After everything has arrived: time for repeats to arrive. */
const REPEATS_MS = 3_000;

type Options = Readonly<{ kills: number; seed: number; log?: (line: string) => void }>;

/** Throws when something accepted has not arrived everywhere a quarter of an hour after the last start. */
export async function surviveKills({ kills, seed, log = () => {} }: Options): Promise<KillReport> {
  const random = seededRandom(seed);
  const customers = endpoints(seed);
  const testStack = await prepareTestStack(({ path, at }) => customers.answer(path, at), seed);
  const accepted: string[] = [];
  const killedAt: number[] = [];
  try {
    for (let kill = 1; kill <= kills; kill++) {
      const uptimeMs = Math.round(random() * UPTIME_MS);
      killedAt.push(await runAndKill(testStack, accepted, uptimeMs, kill === 1));
      const arrived = receptionsOf(testStack.receiver.hits).size;
      log(`kill ${kill} after ${uptimeMs} ms: ${accepted.length} accepted, ${arrived} deliveries arrived`);
    }
    customers.recover();
    await testStack.start();
    await untilAllArrived(testStack, accepted);
    await sleep(REPEATS_MS);
    return reportKills(accepted, testStack.receiver.hits, paths, killedAt);
  } finally {
    await testStack.leave();
  }
}

/** Starts the stack, loads it and kills it; resolves with the time of the kill. */
async function runAndKill(
  testStack: TestStack,
  accepted: string[],
  uptimeMs: number,
  isFirst: boolean,
): Promise<number> {
  const { api, kill } = await testStack.start();
  if (isFirst) for (const path of paths) await createDestination(api, testStack.receiver, path);
  const load = startLoad(api, accepted);
  await sleep(uptimeMs);
  await kill();
  // A signalled process does not end at once: for some milliseconds it still sends deliveries that it will never
  // record.
  const at = Date.now();
  await load.stop();
  return at;
}

async function untilAllArrived(
  { receiver, lastLines }: TestStack,
  accepted: readonly string[],
): Promise<void> {
  const left = () => missing(accepted, receptionsOf(receiver.hits), paths);
  const isSo = () => left().length === 0;
  const otherwise = () => {
    const lost = left();
    return `${lost.length} of ${accepted.length * paths.length} deliveries are lost, among them ${lost.slice(0, 5)}.\n${lastLines()}`;
  };
  await until(isSo, { everyMs: 500, otherwise });
}
