/**
 * The drain: delivers the waiting deliveries of one destination, as far as its gate admits and its time lasts.
 *
 * The gate's alarms start it. When the gate refuses, that refusal sets the next alarm; when the drain's own time is
 * over, it sends a message for the next drain itself; when nothing is left, it notifies the gate. A drain that dies
 * loses nothing: its lease expires, and the gate's alarm fires then.
 *
 * Drains of different destinations run side by side in an invocation, and share its connections, leases and their sizes
 * (jobs/upkeep.ts).
 *
 * It works in steps: find waiting deliveries, request a lease, attempt them. A step begins while the one before it is
 * still being attempted, so that neither connections nor send slots are idle between two leases.
 */

import type { AdmitResult } from "../core/admit.ts";
import { type BundlePart, eventAt, indexesOf, partsOf } from "../core/bundle.ts";
import { SLOW_MS } from "../core/capacity.ts";
import { mayBeginSteps, mostOfStep } from "../core/drain-queries.ts";
import { type DrainRange, drainRangeOf, LEASED, nextDistance } from "../core/drain-scheduler.ts";
import { CONNECTIONS } from "../core/lease.ts";
import { DRAIN_BUDGET_MS, DRAIN_STEP_MS, drainPatienceMs } from "../core/lease-runner.ts";
import { atGate } from "../gate/client.ts";
import type { DrainMessage } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import { allOf, sumOver } from "../store/databases.ts";
import { type LoadedDelivery, loadDeliveries } from "../store/deliveries.ts";
import { type Destination, isDestinationOver } from "../store/destination.ts";
import { cancelWaitingDeliveries, endRemoved, lookAtWaiting } from "../store/waiting.ts";
import { admitDue, type Due, triage } from "./admission.ts";
import type { Connections } from "./connections.ts";
import { sendRetries } from "./message-group.ts";
import { countDead } from "./news.ts";
import { type Disposition, faultyDisposition } from "./outcome.ts";
import { hasProgress, Pipeline } from "./pipeline.ts";
import type { Recorder } from "./recorder.ts";

/**
 * Leases that the drains of an invocation use, for receivers so fast that their time alone would not end them: the platform
 * gives an invocation 10,000 timers and as many subrequests, of which an attempt takes one each.
 */
const STEPS = 25;
/** How far a successor lease may outlast its predecessor. */
const AFTER_MS = 1_500;
/**
 * Reads of the backlog in a row that find only faults. After them perhaps nothing of it can be sent: the sweep starts
 * another drain, which reads elsewhere between the ends.
 */
const FAULTY_READS = 10;
/** Deliveries of a deleted destination cancelled in one step. */
const CANCELLED = 500;
/** A drain that has failed takes this many times fewer deliveries: one, when it is tried for the last time. */
const SHRINKS_BY = 4;

/** The parts that the drains of one invocation share. */
type DrainContext = Readonly<{
  services: Services;
  /** D1 queries made so far. */
  queries: () => number;
  /** How many drains come after those that run now. */
  toCome: () => number;
  connections: Connections;
  recorder: Recorder;
  /** How many drains run beside each other now, this one included. */
  sideBySide: () => number;
}>;

/**
 * The continuation after a step. `more`: another step. `crowded`: another step, over a wider range, because other
 * drains hold most of this one. `past`: another step, past deliveries that cannot be sent now. `gate`: the gate's
 * alarm starts the next drain. `empty`: nothing waits.
 */
type Next = "more" | "crowded" | "past" | "gate" | "empty";

/** A step whose deliveries have been admitted, or refused. */
type Step = {
  readonly kind: "step";
  readonly dispatch: Awaited<ReturnType<typeof admitDue>>;
  readonly isCrowded: boolean;
  /** Whether its successor has been requested from the gate. */
  isFollowed: boolean;
  /** Deliveries of this kind were all that it was granted, and the drain goes past them. */
  readonly passes: keyof Passed | undefined;
};

/** A step that has begun, or what follows if there was nothing to begin. */
type Begun = Step | Readonly<{ kind: "nothing"; next: Next }>;

function nothing(next: Next): Begun {
  return { kind: "nothing", next };
}

/** @param attempts how many times the drain's message has come, this time included */
export async function drain(context: DrainContext, message: DrainMessage, attempts: number): Promise<void> {
  const { services, queries, sideBySide, toCome } = context;
  const { faultyReads: before = 0, ...order } = message;
  const { destination, drains } = order;
  const endsAt = services.now() + DRAIN_BUDGET_MS;
  const most = Math.ceil(STEPS / sideBySide());
  const databases = allOf(services).length;
  let steps = 0;
  /** The receiver is slow: after a lease the next drain gets its turn, in case another one waits for this one. */
  let isSlow = false;
  /** How far it searches for deliveries that no other drain holds. */
  let distance = 0;
  const passed: Passed = { behind: new Set(), faulty: new Set() };
  let faultyReads = before;

  function hasTime(): boolean {
    // The caller that began its first step ends it.
    const hasQueries = steps === 0 || mayBeginSteps(queries(), databases, sideBySide() + toCome());
    return !isSlow && steps < most && hasQueries && services.now() < endsAt;
  }

  async function begin(former?: Step): Promise<Begun> {
    steps += 1;
    const from = distance;
    const hasMetFault = faultyReads > 0 || passed.faulty.size > 0;
    const share = Math.ceil(portionAt(attempts) / sideBySide());
    const begun = await beginStep(
      context,
      {
        destination,
        passed,
        hasMetFault,
        mayPass: faultyReads + 1 < FAULTY_READS,
        rangeFor: (own) => drainRangeOf(drains, from, own, hasMetFault || passed.behind.size > 0),
        portion: Math.min(share, mostOfStep(databases)),
        leftMs: endsAt - services.now(),
      },
      former,
    );
    distance = nextDistance(from, begun.kind === "step" && begun.isCrowded);
    if (begun.kind === "step" ? begun.passes === "faulty" : begun.next === "past") faultyReads += 1;
    else if (begun.kind === "step" && begun.passes === undefined) faultyReads = 0;
    // A lease whose deliveries are all passed makes no attempt.
    if (begun.kind === "step" && begun.dispatch.stage === "leased" && begun.passes === undefined)
      isSlow = begun.dispatch.grant.destinationState.tookMs > SLOW_MS;
    return begun;
  }

  /** Returns the step that has begun meanwhile, if there is one. */
  async function endAndFollow(step: Step): Promise<Begun> {
    const [ended, begun] = await Promise.allSettled([endStep(context, step), follow(step)]);
    if (begun.status === "rejected") throw ended.status === "rejected" ? ended.reason : begun.reason;
    const following = begun.value;
    if (ended.status === "fulfilled") return following ?? nothing(ended.value);
    // Started attempts are recorded even if the other step fails.
    if (following) await endStep(context, following);
    throw ended.reason;
  }

  /** Begins the next step when the current lease is ready for a successor, if there is one to begin. */
  async function follow(step: Step): Promise<Step | undefined> {
    const isNear =
      mayGoOn(step) && step.dispatch.stage === "leased" && (await step.dispatch.run.readyForSuccessor);
    if (!isNear || !hasTime()) return undefined;
    const begun = await begin(step);
    if (begun.kind === "nothing") return undefined;
    if (isDecided(begun)) return begun;
    // Others hold all deliveries that were found: the drain reads again after this step.
    step.isFollowed = false;
    return undefined;
  }

  let begun = nothing("more");
  while (begun.kind === "step" || ((goesOn(begun.next) || begun.next === "past") && hasTime()))
    begun = begun.kind === "step" ? await endAndFollow(begun) : await begin();
  const isPast = begun.next === "past" && passed.faulty.size > 0 && faultyReads < FAULTY_READS;
  if (goesOn(begun.next) || isPast)
    await services.drains.send({ ...order, ...(faultyReads > 0 && { faultyReads }) });
}

/** Deliveries under one lease. If one of them crashes the drain, repeats take fewer and fewer, and so get past it. */
function portionAt(attempts: number): number {
  return Math.max(1, Math.floor(LEASED / SHRINKS_BY ** (attempts - 1)));
}

function goesOn(next: Next): boolean {
  return next === "more" || next === "crowded";
}

/** Whether the drain continues after this step. */
function mayGoOn({ dispatch }: Step): boolean {
  return dispatch.stage === "leased" && !dispatch.result.refused;
}

/** Whether something was admitted, or refused. */
function isDecided({ dispatch }: Step): boolean {
  return dispatch.stage === "leased" || (dispatch.stage === "refused" && dispatch.result.refused !== null);
}

/** Events that cannot be sent now and must not hide others. A step that finds only such events adds them. */
type Passed = Readonly<{
  /** Events of replays that wait behind one that is being retried. */
  behind: Set<number>;
  /**
   * Events that no request can be made of, which wait for a version that makes one and wakes up the gate; and those whose
   * bundle cannot be read. The sweep has both tried again.
   */
  faulty: Set<number>;
}>;

type StepBounds = Readonly<{
  destination: string;
  passed: Passed;
  /** Whether this drain, or the one before it, has met faults: then it checks for them before it requests a lease. */
  hasMetFault: boolean;
  /** Whether the drain reads elsewhere between the ends if it finds only faults. */
  mayPass: boolean;
  /** The range to read, given how much of it this drain holds already. */
  rangeFor: (own: number) => DrainRange;
  /** The number of deliveries that it may take under a lease. */
  portion: number;
  /** The time that the drain has left. */
  leftMs: number;
}>;

/**
 * Reads waiting deliveries, has them admitted and starts the attempts; or returns what follows if there is nothing to
 * admit.
 * @param former the step that is still being attempted: this one continues it without a pause
 */
async function beginStep(
  context: DrainContext,
  { destination: id, passed, hasMetFault, mayPass, rangeFor, portion, leftMs }: StepBounds,
  former?: Step,
): Promise<Begun> {
  const { services } = context;
  const lookedAt = services.now();
  const lease = former?.dispatch.stage === "leased" ? former.dispatch : undefined;
  const own = new Set(lease?.grant.deliveries);
  const range = rangeFor(own.size);
  const { destination, events, probe, isAll } = await lookAtWaiting(services, id, range, services.random);
  const { behind, faulty } = passed;
  const others = events.filter((event) => !own.has(event) && !behind.has(event) && !faulty.has(event));
  const withoutAny = async () => {
    // Perhaps only deliveries of this drain wait: it reads again when they have ended.
    if (former) return nothing("empty");
    if (!isAll && faulty.size > 0 && mayPass) return nothing("past");
    return emptyUnless(behind.size > 0, services, id, lookedAt);
  };
  if (others.length === 0) return withoutAny();
  if (!destination || isDestinationOver(destination, lookedAt)) {
    const cancelled = await sumOver(services, (db) => cancelWaitingDeliveries(db, id, lookedAt, CANCELLED));
    services.log({ what: "deliveries_cancelled", destination: id, deliveries: cancelled });
    return nothing("more");
  }
  const ready = await withoutFaulty(context, destination, others, hasMetFault);
  if (ready.length === 0) {
    for (const event of others) faulty.add(event);
    return withoutAny();
  }
  const startWithinMs = Math.min(DRAIN_STEP_MS, former ? Math.max(AFTER_MS, leftMs) : leftMs);
  const wanted = { lane: "backlog", deliveries: ready, most: portion, startWithinMs } as const;
  const mayProbe = probe !== undefined && ready.includes(probe);
  const request = { ...wanted, ...(mayProbe && { probe }) };
  if (former) former.isFollowed = true;
  const after = lease && { lease: lease.grant.id, run: lease.run };
  const before = { behind: behind.size, faulty: faulty.size };
  const dispatch = await admitWaiting(context, passed, { destination, request, after });
  const isHeld = dispatch.stage !== "unreachable" && isMostlyHeld(dispatch.result, others.length);
  const isCrowded = isHeld && !isAll && !range.isFurthest;
  return { kind: "step", dispatch, isCrowded, isFollowed: false, passes: passedSince(before, passed) };
}

/** Deliveries behind others are passed once: they may be sent soon. */
function passedSince(
  before: Readonly<Record<keyof Passed, number>>,
  { behind, faulty }: Passed,
): keyof Passed | undefined {
  if (behind.size > before.behind) return before.behind === 0 ? "behind" : undefined;
  return faulty.size > before.faulty ? "faulty" : undefined;
}

/** Reports to the gate that nothing waits that could be sent, unless deliveries wait behind others. */
async function emptyUnless(waits: boolean, services: Services, id: string, lookedAt: number): Promise<Begun> {
  if (waits) return nothing("gate");
  await atGate(services, id, "reportEmptyDrain", lookedAt);
  return nothing("empty");
}

/**
 * The events of bundles that can be read, and that conversions and the destination's transformation make a request of, or cancels,
 * as far as their bodies fit into one trip: the gate admits nothing that cannot be sent, or a half-open circuit would wait for it.
 * They are loaded again under the lease; a destination without a transformation, pins or a conversion that has failed costs
 * nothing here until the drain has met a fault.
 */
async function withoutFaulty(
  { services, recorder }: DrainContext,
  destination: Destination,
  events: readonly number[],
  hasMetFault: boolean,
): Promise<readonly number[]> {
  const needsBodies = destination.transform !== null || destination.eventVersions !== null;
  if (!needsBodies && !hasMetFault) return events;
  const keys = events.map((eventId) => ({ eventId, destinationId: destination.id }));
  const options = needsBodies ? {} : { isDue: () => false };
  const { deliveries, unknown } = await loadDeliveries(services, partsOf(keys), options);
  const { transformed } = await import("./transform.ts");
  const results = await transformed(services, deliveries);
  const faulty = results.filter((one) => one.transformed?.kind === "fault");
  await recorder.report(faulty.map(faultyDisposition));
  const ids = new Set([...faulty.map(({ event }) => event.id), ...unknown.flatMap(eventsOf)]);
  return events.filter((event) => !ids.has(event));
}

/** Whether other drains hold so much of the range that a request was not worth it. */
function isMostlyHeld({ inFlight }: AdmitResult, lookedAt: number): boolean {
  return inFlight !== null && lookedAt - inFlight.deliveries.length < LEASED / 2;
}

async function admitWaiting(
  { services, connections, sideBySide }: DrainContext,
  { behind, faulty }: Passed,
  { destination, request, after }: Pick<Due, "destination" | "request" | "after">,
): Promise<Step["dispatch"]> {
  const load = async (admitted: readonly number[]) => {
    const wanted = admitted.map((eventId) => ({ eventId, destinationId: destination.id }));
    const { deliveries, unknown, rest } = await loadDeliveries(services, partsOf(wanted));
    const { due, dispositions } = await triage(services, inOrder(deliveries, admitted), () => "drain");
    const [left, unreadable] = [rest.flatMap(eventsOf), unknown.flatMap(eventsOf)];
    const known = new Set([...deliveries.map(({ event }) => event.id), ...left, ...unreadable]);
    const orphans = admitted.filter((event) => !known.has(event));
    await endOrphans(services, destination, orphans);
    if (due.length > 0) return { deliveries: due, dispositions, left: left.length + unreadable.length };
    const unmade = dispositions.filter(isFaulty).map(({ delivery }) => delivery.event.id);
    // The gate does not wait for these: drains would follow each other in vain.
    for (const event of [...unreadable, ...unmade]) faulty.add(event);
    // If nothing else was found, the gate waits a while before it starts the next drain.
    const parked = dispositions.filter(waitsBehind);
    for (const { delivery } of parked) behind.add(delivery.event.id);
    // This drain itself reads what follows the ones without a request.
    return { deliveries: due, dispositions, left: parked.length + (unmade.length > 0 ? 0 : left.length) };
  };
  const drains = sideBySide();
  const patienceFor = (usualMs: number) => drainPatienceMs(usualMs, drains > 1);
  const share = Math.max(1, Math.floor(CONNECTIONS / drains));
  const waiting = { destination, request, after, patienceFor, connections: share };
  const source = { kind: "waiting", load } as const;
  return admitDue(services, connections, { stage: "due", dispositions: [], source, ...waiting });
}

/** No request can be made of it. A drain finds that out under the lease if all bodies are too much to be read before. */
function isFaulty({ delivery }: Disposition): boolean {
  return delivery.transformed?.kind === "fault";
}

/** Waits as before: behind a delivery that is being retried, if a replay has requeued both. */
function waitsBehind(disposition: Disposition): boolean {
  const { delivery, row, retryAt } = disposition;
  const isUnchanged = delivery.row?.state === "waiting" && row === undefined && retryAt === undefined;
  return isUnchanged && !isFaulty(disposition);
}

/** In the order of admission, which is that of the attempts. */
function inOrder(
  deliveries: readonly LoadedDelivery[],
  admitted: readonly number[],
): readonly LoadedDelivery[] {
  const positions = new Map(admitted.map((event, position) => [event, position]));
  const positionOf = ({ event }: LoadedDelivery) => positions.get(event.id) ?? 0;
  return deliveries.toSorted((a, b) => positionOf(a) - positionOf(b));
}

function eventsOf({ bundle, indexes = [] }: BundlePart): number[] {
  return indexesOf(indexes).map((index) => eventAt(bundle, index));
}

/** Ends waiting deliveries that their bundle does not plan any more. */
async function endOrphans(services: Services, destination: Destination, events: readonly number[]) {
  if (events.length === 0) return;
  const { id } = destination;
  const count = await endRemoved(services, id, events, services.now());
  services.log({ what: "deliveries_dead", destination: id, reason: "event_removed", deliveries: count });
  services.background(countDead(services, destination, count));
}

/** Awaits the attempts of a step, records and settles them. */
async function endStep({ services, recorder }: DrainContext, step: Step): Promise<Next> {
  const { dispatch } = step;
  // If the next step has been admitted already, the gate knows more than this drain.
  const continues = (isUseful: boolean) =>
    !step.isFollowed && (isUseful ? mayGoOn(step) : step.passes === "faulty");
  const pipeline = new Pipeline(services, recorder);
  const { dispositions, late } = await pipeline.end(dispatch, { continues });
  await sendRetries(services, dispositions);
  const isIdle = dispatch.stage === "leased" && !hasProgress(dispositions);
  // Others may have been refused for these alone: a slow rate, or a probe, admits few.
  if (isIdle && step.passes) return "past";
  // If it was admitted, but led to nothing, the gate schedules a drain after a while.
  if (late || isIdle || dispatch.stage === "unreachable" || dispatch.result.refused) return "gate";
  if (step.isCrowded) return "crowded";
  return dispatch.stage === "leased" ? "more" : "gate";
}
