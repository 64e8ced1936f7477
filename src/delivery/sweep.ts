/**
 * The sweep, every minute: what falls due is sent for, whatever was lost on the way is made to wait, and
 * whatever waits is rung for.
 *
 * It repairs with the mechanism that is there anyway: a lost delivery becomes a waiting one, and the drain
 * brings it through the gate like any other, so that a mass recovery cannot become a storm. Everything it
 * does is bounded and safe to repeat: the row is written before the watermark moves past it.
 */
import { ringGate } from "../gate/gate-client.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { sumOver } from "../store/shards.ts";
import { beat, recoverOverdue } from "../store/sweep.ts";
import { type WaitingDestination, waitingDestinations } from "../store/waiting.ts";
import { expireWaiting } from "../store/waiting-ends.ts";
import { recoverLost } from "./recover.ts";
import { enqueueScheduled } from "./schedule.ts";
import { countDead } from "./tell-dead.ts";

/** Rows changed by one statement, and destinations looked after in one sweep. */
const STEP = 500;
const DESTINATIONS = 1_000;
/** Gates called at once. */
const GATES = 6;
/** A queue that is behind is not believed for longer than this: its oldest message may be a delayed retry. */
const SLOW_MS = 15 * 60_000;

export async function sweep(services: Services): Promise<void> {
  const now = services.now();
  const scheduled = await enqueueScheduled(services, now);
  const horizon = await horizonOf(services, now);
  const lost = await recoverLost(services, horizon, now);
  const overdue = await sumOver(services, (db) => recoverOverdue(db, horizon, now, STEP));
  const waiting = await lookAfterWaiting(services, now);
  // Only here: a sweep that breaks down half way must be missed.
  await beat(services.db, now);
  services.log({ what: "sweep", scheduled, lost, overdue, ...waiting, took_ms: services.now() - now });
}

/**
 * Whatever was due before this and has no outcome counts as lost. Slow is not lost: what was accepted after
 * the oldest message in the queue may still be in it.
 */
async function horizonOf({ config, deliveries, log }: Services, now: number): Promise<number> {
  const overdue = now - config.graceMs;
  try {
    const { oldestMessageTimestamp: oldest } = await deliveries.metrics();
    return oldest ? Math.max(Math.min(overdue, oldest.getTime()), overdue - SLOW_MS) : overdue;
  } catch (error) {
    log({ what: "queue_metrics_unavailable", error: faultOf(error) });
    return overdue;
  }
}

/** Ends what has waited past its age limit, and rings for the rest. */
async function lookAfterWaiting(services: Services, now: number): Promise<{ rung: number; expired: number }> {
  const waiting = await someWaitingDestinations(services);
  let expired = 0;
  for (let from = 0; from < waiting.length; from += GATES) {
    const few = waiting.slice(from, from + GATES);
    const counts = await Promise.all(few.map(({ id }) => expireIn(services, id, now)));
    expired += counts.reduce((sum, count) => sum + count, 0);
    await Promise.all(few.map((destination, i) => tellExpired(services, destination, counts[i] ?? 0)));
    await Promise.all(few.filter(mayBeDrained).map(({ id }) => ringGate(services, id)));
  }
  return { rung: waiting.filter(mayBeDrained).length, expired };
}

function expireIn(services: Services, destination: string, now: number): Promise<number> {
  return sumOver(services, (db) => expireWaiting(db, destination, now, STEP));
}

/** One line for all of them: there may be thousands. */
async function tellExpired(
  services: Services,
  destination: WaitingDestination,
  count: number,
): Promise<void> {
  if (count === 0) return;
  const { id } = destination;
  services.log({ what: "deliveries_dead", destination: id, because: "expired", deliveries: count });
  await countDead(services, destination, count);
}

/** All of them, or a part that begins somewhere else each time, so that none is left out for ever. */
async function someWaitingDestinations(services: Services): Promise<WaitingDestination[]> {
  const first = await waitingDestinations(services, "", DESTINATIONS);
  if (first.length < DESTINATIONS) return first;
  const somewhere = `dst_${Math.floor(services.random() * 36 ** 4)
    .toString(36)
    .padStart(4, "0")}`;
  return waitingDestinations(services, somewhere, DESTINATIONS);
}

/** What is paused is held; what is deleted is drained to be cancelled. */
function mayBeDrained({ paused, deleted }: WaitingDestination): boolean {
  return deleted || !paused;
}
