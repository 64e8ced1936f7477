/**
 * The drain: works off what waits for one destination, as far as its gate allows and its time lasts.
 *
 * It is sent for by the gate's bell. When the gate refuses, the next bell is set by that refusal; when its
 * own time is over, it sends for the next drain itself; when nothing is left, it tells the gate. A drain
 * that dies loses nothing: its lease expires, and the bell rings then.
 */

import type { AdmitResult } from "../core/admit.ts";
import { type BundlePart, eventAt, indexesOf, partsOf } from "../core/bundle.ts";
import { type DrainRange, drainRangeOf, LEASED, nextDistance } from "../core/drain-scheduler.ts";
import { type LoadedDelivery, loadDeliveries } from "../db/deliveries.ts";
import type { Destination } from "../db/destinations.ts";
import { sumOver } from "../db/shards.ts";
import { cancelWaiting, endRemoved, lookAtWaiting } from "../db/waiting.ts";
import { reportEmptyDrain } from "../gate/client.ts";
import { faultOf } from "../log.ts";
import { continueUpkeep } from "../maintenance/cron.ts";
import { countDead, publishDigest } from "../notifications/publish.ts";
import {
  type DrainMessage,
  digestMessage,
  drainMessage,
  replayMessage,
  upkeepMessage,
} from "../queue-messages.ts";
import { stepReplay } from "../replay/run.ts";
import type { Services } from "../services.ts";
import { logCounts, withCounts } from "./attempt-log.ts";
import { type Connections, connections } from "./http.ts";
import { sendAgain } from "./message-group.ts";
import type { Disposition } from "./outcome.ts";
import { type BatchRun, type DestinationBatch, dispatch, hasProgress, startBatch } from "./pipeline.ts";
import { Recorder } from "./recorder.ts";
import { triage } from "./triage.ts";

// §§ One step of a drain: look at what waits, ask for it, work off what was let in. It begins while the one before it
// is being worked off, so that neither connections nor slots stand idle between two leases.

/** How long it starts attempts under one lease, and how long it awaits one. */
const STEP_MS = 3_000;
/** For a lease that is to begin when another is over: time of its own behind that. */
const AFTER_MS = 1_500;
/** Deliveries of a deleted destination cancelled in one step. */
const CANCELLED = 500;

/**
 * `more`: go on. `crowded`: look further, because others hold most of what is here. `gate`: the gate will
 * send for the next drain. `empty`: nothing waits.
 */
type Step = "more" | "crowded" | "gate" | "empty";

/** What was asked for and is being worked off. */
type Lot = {
  readonly batchRun: BatchRun;
  /** What has ended without an attempt. */
  readonly over: readonly Disposition[];
  readonly isCrowded: boolean;
  /** Whether the gate has been asked for the one that comes after it. */
  isFollowed: boolean;
};

export type Place = Readonly<{
  destination: string;
  /** Of the look, by how much is held already. */
  reach: (own: number) => DrainRange;
  /** Deliveries that it may take under a lease. */
  portion: number;
  /** Of the drain's time. */
  leftMs: number;
}>;

/**
 * Looks, asks and starts what was let in; a step where there is nothing to ask for.
 * @param former what is being worked off: this goes on from it without a pause
 */
async function beginStep(
  services: Services,
  shared: Connections,
  { destination: id, reach: reachFor, portion, leftMs }: Place,
  former?: Lot,
): Promise<Lot | Step> {
  const lookedAt = services.now();
  const { run, answer: formerAnswer } = former?.batchRun ?? {};
  const own = new Set(formerAnswer?.grant?.deliveries);
  const reach = reachFor(own.size);
  const { destination, events, probe, isAll } = await lookAtWaiting(services, id, reach, services.random);
  const others = events.filter((event) => !own.has(event));
  // What is its own may be all that waits: it looks again when that is over.
  if (others.length === 0 && former) return "more";
  if (others.length === 0) {
    await reportEmptyDrain(services, id, lookedAt);
    return "empty";
  }
  if (!destination || destination.deletedAt !== null) {
    const cancelled = await sumOver(services, (db) => cancelWaiting(db, id, lookedAt, CANCELLED));
    services.log({ what: "deliveries_cancelled", destination: id, deliveries: cancelled });
    return "more";
  }
  const startWithinMs = Math.min(STEP_MS, former ? Math.max(AFTER_MS, leftMs) : leftMs);
  const asked = { lane: "backlog", deliveries: others, most: portion, startWithinMs } as const;
  const ask = { ...asked, ...(probe !== undefined && { probe }) };
  if (former) former.isFollowed = true;
  const grant = formerAnswer?.grant;
  const after = run && grant ? { lease: grant.id, run } : undefined;
  const started = await start(services, shared, { destination, ask, after });
  const { answer } = started.batchRun;
  const crowded = answer !== undefined && isCrowded(answer, others.length) && !isAll && !reach.isFurthest;
  return { ...started, isCrowded: crowded, isFollowed: false };
}

/** Whether others hold so much of what was looked at that it was not worth the asking. */
function isCrowded({ inFlight }: AdmitResult, lookedAt: number): boolean {
  return inFlight !== null && lookedAt - inFlight.deliveries.length < LEASED / 2;
}

async function start(
  services: Services,
  shared: Connections,
  { destination, ask, after }: Pick<DestinationBatch, "destination" | "ask" | "after">,
): Promise<Pick<Lot, "batchRun" | "over">> {
  const over: Disposition[] = [];
  const load = async (granted: readonly number[]) => {
    const wanted = granted.map((event) => ({ event, destination: destination.id }));
    const { works, unknown, rest } = await loadDeliveries(services, partsOf(wanted));
    const { due, dispositions } = triage(services, inOrder(works, granted), "drain");
    const left = [...rest, ...unknown].flatMap(eventsOf);
    const known = new Set([...works.map(({ event }) => event.id), ...left]);
    await endOrphans(
      services,
      destination,
      granted.filter((event) => !known.has(event)),
    );
    over.push(...dispositions);
    return { works: due, left: left.length };
  };
  const group = { destination, ask, after, patienceFor: () => STEP_MS, load };
  return { batchRun: await startBatch(services, shared, group), over };
}

/** Whether the drain goes on when this has been worked off. */
function mayGoOn({ batchRun: { answer } }: Lot): boolean {
  return Boolean(answer?.grant && !answer.refused);
}

/** Whether something was let in, or turned away. */
function isAnswered({ batchRun: { answer } }: Lot): boolean {
  return Boolean(answer?.grant ?? answer?.refused);
}

/** Awaits the end of what was started, records and settles it. */
async function endStep(services: Services, recorder: Recorder, lot: Lot): Promise<Step> {
  const { batchRun, over } = lot;
  const { answer } = batchRun;
  // When it has asked already, the gate knows more than this.
  const continues = () => mayGoOn(lot) && !lot.isFollowed;
  const { dispositions, late, failures } = await dispatch(services, recorder, [batchRun], {
    also: over,
    continues,
  });
  await sendAgain(
    services,
    dispositions.filter(({ row }) => row?.state === "retrying"),
  );
  for (const { error } of failures) throw error;
  // It was let in, and nothing has come of it: the gate has a drain come again in a while.
  const isIdle = Boolean(answer?.grant) && !hasProgress(dispositions);
  if (late || isIdle || !answer || answer.refused) return "gate";
  if (lot.isCrowded) return "crowded";
  return answer.grant ? "more" : "gate";
}

/** As they were granted: the order in which they are to go. */
function inOrder(works: readonly LoadedDelivery[], granted: readonly number[]): readonly LoadedDelivery[] {
  const places = new Map(granted.map((event, place) => [event, place]));
  return works.toSorted((a, b) => (places.get(a.event.id) ?? 0) - (places.get(b.event.id) ?? 0));
}

function eventsOf({ bundle, indexes = [] }: BundlePart): number[] {
  return indexesOf(indexes).map((index) => eventAt(bundle, index));
}

/** What no bundle's plan has for the destination any more. */
async function endOrphans(
  services: Services,
  destination: Destination,
  events: readonly number[],
): Promise<void> {
  if (events.length === 0) return;
  const { id } = destination;
  const count = await endRemoved(services, id, events, services.now());
  services.log({ what: "deliveries_dead", destination: id, reason: "event_removed", deliveries: count });
  services.background(countDead(services, destination, count));
}

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
        if (drainSchedule)
          await drain(services, shared, recorder, drainSchedule, portionAt(message.attempts));
        const step = replayMessage(message.body);
        if (step) await stepReplay(services, step.replay);
        const asked = digestMessage(message.body);
        if (asked) await publishDigest(services, asked.deadLetterDigest);
        const upkeep = upkeepMessage(message.body);
        if (upkeep) await continueUpkeep(services, upkeep);
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
