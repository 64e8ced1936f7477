/**
 * The drain: works off what waits for one destination, as far as its gate allows and its time lasts.
 *
 * It is sent for by the gate's bell. When the gate refuses, the next bell is set by that refusal; when its
 * own time is over, it sends for the next drain itself; when nothing is left, it tells the gate. A drain
 * that dies loses nothing: its lease expires, and the bell rings then.
 */
import { faultOf } from "../log.ts";
import { LEASED, nextDistance, drainRangeOf } from "../policy/reach.ts";
import type { Services } from "../services.ts";
import { logCounts, withCounts } from "./attempt-log.ts";
import { type Connections, connections } from "./connections.ts";
import { beginStep, endStep, isAnswered, type Lot, mayGoOn, type Step } from "./drain-step.ts";
import { type DrainMessage, drainMessage, replayMessage, digestMessage, upkeepMessage } from "./message.ts";
import { stepReplay } from "./replay.ts";
import { Recorder } from "./report.ts";
import { goOnWith } from "./tick.ts";
import { publishDigest } from "./toll.ts";

/** How long one drain works. Short, so that a queue of drains moves on; what it costs to send for one is little beside it. */
const BUDGET_MS = 15_000;
/**
 * Leases that one drain works off, for receivers so fast that its time alone would not end it: the platform
 * gives an invocation 10,000 timers and as many subrequests, of which an attempt takes one each.
 */
const STEPS = 25;
/** A drain that has failed takes so many times fewer deliveries: one, when it is tried for the last time. */
const SHRINKS_BY = 4;
/** Before a drain that failed is tried again. */
const PAUSE_S = 10;

/** The consumer of the bells: each drain by itself, all over the same connections. Replays take their steps here too, tolls are asked for, and what a tick has left is done. */
export async function consumeDrains(given: Services, batch: MessageBatch): Promise<void> {
  const services = withCounts(given, "drain");
  const shared = connections(batch.messages.length);
  const recorder = new Recorder(services);
  await Promise.all(
    batch.messages.map(async (message) => {
      try {
        const drainSchedule = drainMessage(message.body);
        if (drainSchedule) await drain(services, shared, recorder, drainSchedule, portionAt(message.attempts));
        const step = replayMessage(message.body);
        if (step) await stepReplay(services, step.replay);
        const asked = digestMessage(message.body);
        if (asked) await publishDigest(services, asked.deadLetterDigest);
        const upkeep = upkeepMessage(message.body);
        if (upkeep) await goOnWith(services, upkeep);
      } catch (error) {
        services.log({ what: "drain_failed", error: faultOf(error) });
        message.retry({ delaySeconds: PAUSE_S });
      }
    }),
  );
  logCounts(services);
}

/** Deliveries under one lease. Should one of them bring the drain down, its repeats take ever fewer, and get past it. */
function portionAt(attempts: number): number {
  return Math.max(1, Math.floor(LEASED / SHRINKS_BY ** (attempts - 1)));
}

async function drain(
  services: Services,
  shared: Connections,
  recorder: Recorder,
  drainSchedule: DrainMessage,
  portion: number,
): Promise<void> {
  const endsAt = services.now() + BUDGET_MS;
  const { destination, drains } = drainSchedule;
  let distance = 0;
  let steps = 0;
  let step: Step = "more";
  let ahead: Lot | undefined;

  const hasTime = () => steps < STEPS && services.now() < endsAt;

  async function begin(former?: Lot): Promise<Lot | Step> {
    steps += 1;
    const from = distance;
    const reach = (own: number) => drainRangeOf(drains, from, own);
    const place = { destination, reach, portion, leftMs: endsAt - services.now() };
    const begun = await beginStep(services, shared, place, former);
    distance = nextDistance(distance, typeof begun !== "string" && begun.isCrowded);
    return begun;
  }

  /** The next one, begun as soon as this one is nearly over. */
  async function beginAfter(lot: Lot): Promise<Lot | undefined> {
    const isNear = mayGoOn(lot) && (await lot.batchRun.run?.nearlyOver);
    if (!isNear || !hasTime()) return undefined;
    const begun = await begin(lot);
    if (typeof begun === "string") return undefined;
    if (isAnswered(begun)) return begun;
    // Others hold all that was found: it looks again when this one is over.
    lot.isFollowed = false;
    return undefined;
  }

  while (ahead || (goesOn(step) && hasTime())) {
    const begun: Lot | Step = ahead ?? (await begin());
    ahead = undefined;
    if (typeof begun === "string") {
      step = begun;
      continue;
    }
    const [ended, next] = await Promise.allSettled([endStep(services, recorder, begun), beginAfter(begun)]);
    if (next.status === "fulfilled") ahead = next.value;
    if (ended.status === "rejected" || next.status === "rejected") {
      // What has been started is to be recorded, whatever becomes of the other.
      if (ahead) await endStep(services, recorder, ahead);
      throw ended.status === "rejected" ? ended.reason : (next as PromiseRejectedResult).reason;
    }
    step = ended.value;
  }
  if (goesOn(step)) await services.drains.send(drainSchedule);
}

function goesOn(step: Step): boolean {
  return step === "more" || step === "crowded";
}
