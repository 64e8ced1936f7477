/**
 * One step of a drain: look at what waits, ask for it, work off what was let in. It begins while the one before it
 * is being worked off, so that neither connections nor slots stand idle between two leases.
 */
import { type BundlePart, eventAt, indexesOf, partsOf } from "../core/bundle.ts";
import { reportEmptyDrain } from "../gate/gate-client.ts";
import type { AdmitResult } from "../policy/ask.ts";
import { LEASED, type DrainRange } from "../policy/reach.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import { sumOver } from "../store/shards.ts";
import { endRemoved, cancelWaiting } from "../store/waiting-ends.ts";
import { lookAtWaiting } from "../store/waiting-look.ts";
import { loadDeliveries, type LoadedDelivery } from "../store/work.ts";
import { dispatch, hasProgress } from "./attempt-groups.ts";
import { sendAgain } from "./carry.ts";
import type { Connections } from "./connections.ts";
import { type DestinationBatch, type BatchRun, startBatch } from "./group.ts";
import type { Recorder } from "./report.ts";
import { triage } from "./sort-out.ts";
import { countDead } from "./tell-dead.ts";
import type { Disposition } from "./verdicts.ts";

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
export type Step = "more" | "crowded" | "gate" | "empty";

/** What was asked for and is being worked off. */
export type Lot = {
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
export async function beginStep(
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
export function mayGoOn({ batchRun: { answer } }: Lot): boolean {
  return Boolean(answer?.grant && !answer.refused);
}

/** Whether something was let in, or turned away. */
export function isAnswered({ batchRun: { answer } }: Lot): boolean {
  return Boolean(answer?.grant ?? answer?.refused);
}

/** Awaits the end of what was started, records and settles it. */
export async function endStep(services: Services, recorder: Recorder, lot: Lot): Promise<Step> {
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
