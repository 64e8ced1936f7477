/**
 * Groups at work: run, record, settle, each as it ends.
 *
 * Record before settle, so that capacity is given back only for what is known. No group waits for another one's
 * receiver: it is on record, and its capacity is free again, while a neighbour is still awaited; a kill repeats
 * what was in flight and not the whole batch.
 *
 * A group whose receiver does not answer is recorded as it stands: what was not started waits, what is still
 * running is on its way with a time at which the sweep would take it up again. Its end is awaited in the
 * background, and settled there.
 */

import type { AdmitRequest, AdmitResult, Refusal, RefusalReason } from "../core/admit.ts";
import type { Grant } from "../core/lease.ts";
import type { LoadedDelivery } from "../db/deliveries.ts";
import { type Destination, gateSettingsOf, retryPolicyOf } from "../db/destinations.ts";
import type { StatusChange } from "../db/notifications.ts";
import { admitAtGate, settleAtGate } from "../gate/client.ts";
import { faultOf } from "../log.ts";
import { publishDead } from "../notifications/publish.ts";
import type { Services } from "../services.ts";
import { logCounts, logLease } from "./attempt-log.ts";
import { applySettleResults, type DestinationResult } from "./gate-events.ts";
import { CONNECTIONS, type Connections } from "./http.ts";
import { type LeaseRun, runLease } from "./lease-runner.ts";
import { sendAgain } from "./message-group.ts";
import { attemptDispositions, type Disposition, runDispositions } from "./outcome.ts";
import type { Recorder } from "./recorder.ts";
import { type Signer, signerFor } from "./signature.ts";
import { resolve } from "./url-guard.ts";

// §§ What must hold before a destination's gate is asked: what it signs with can be opened, and its name leads
// to nothing inside. When one does not, nothing is attempted and nothing is counted: the deliveries wait in
// D1 for the sweep, which has a drain try again.

export type Prepared =
  | Readonly<{ kind: "ready"; signer: Signer }>
  | Readonly<{ kind: "unready"; refusal: Refusal }>;

/** The sweep comes round every minute. */
const AGAIN_MS = 60_000;

export async function prepare(
  services: Services,
  shared: Connections,
  destination: Destination,
): Promise<Prepared> {
  const misled = await misleading(services, shared, destination);
  if (misled) return unready(misled, services.now());
  try {
    return { kind: "ready", signer: await signerFor(services.vault, destination, services.now()) };
  } catch (error) {
    services.log({ what: "secret_unreadable", destination: destination.id, error: faultOf(error) });
    return unready("sealed", services.now());
  }
}

/** Why the destination's name must not be called now. A question takes one of the invocation's connections. */
async function misleading(
  services: Services,
  shared: Connections,
  { id, url }: Destination,
): Promise<RefusalReason | undefined> {
  if (!services.config.dnsResolver) return undefined;
  const resolution = await shared.run(id, () => resolve(services, url));
  switch (resolution.kind) {
    case "public":
      return undefined;
    case "private":
      services.log({ what: "address_forbidden", destination: id, address: resolution.address });
      return "forbidden_address";
    case "unknown":
      services.log({ what: "resolver_failed", destination: id, error: resolution.fault });
      return "unresolved";
  }
}

function unready(reason: RefusalReason, now: number): Prepared {
  return { kind: "unready", refusal: { reason, until: now + AGAIN_MS } };
}

// §§ One destination's share of a batch: asked for at the gate, run under its lease, and reported to the gate.
// The queue's consumer and the drain are both made of this.

/** Deliveries of one destination that go through the gate together. */
export type DestinationBatch = Readonly<{
  destination: Destination;
  ask: Omit<AdmitRequest, "connections" | "lookedUpMsAgo" | "succeeds">;
  /** The lease that is being worked off, to go on from without a pause. */
  after?: UnderLease | undefined;
  /** When the deliveries were looked up in D1, by this worker's clock; undefined when `load` does that. */
  lookedUpAt?: number;
  /** For how long an answer is awaited of a receiver that usually takes so long; 0: not known. */
  patienceFor: (usualMs: number) => number;
  /** What is needed to attempt those that were let in. */
  load: (deliveries: readonly number[]) => Promise<Ready> | Ready;
}>;

/** Those that are to be attempted; fewer than were let in when some have ended meanwhile. */
export type Ready = Readonly<{
  works: readonly LoadedDelivery[];
  /** So many more must wait, because their bodies would be too much at once. */
  left?: number;
}>;

/** A lease at work, by its id. */
export type UnderLease = Readonly<{ lease: string; run: LeaseRun }>;

export type BatchRun = Readonly<{
  destination: Destination;
  /** Undefined when the gate could not be reached: nothing was decided. */
  answer: AdmitResult | undefined;
  /** Undefined without a lease. */
  run: LeaseRun | undefined;
  /** Let in and not attempted, and not in the run either. */
  left?: number;
  /** When the lease ends by itself, by this worker's clock. */
  recoverAt: number;
}>;

/** Asks the gate for the group and starts what it lets in. */
export async function startBatch(
  services: Services,
  shared: Connections,
  group: DestinationBatch,
): Promise<BatchRun> {
  const { destination } = group;
  const settings = gateSettingsOf(destination);
  const prepared = await prepare(services, shared, destination);
  if (prepared.kind === "unready") return withoutGate(group, prepared.refusal);
  const askedAt = services.now();
  const lookedUpMsAgo = askedAt - (group.lookedUpAt ?? askedAt);
  const { after } = group;
  const succeeds = after && { succeeds: after.lease };
  const ask = { ...group.ask, connections: CONNECTIONS, lookedUpMsAgo, ...succeeds };
  const given = await admitAtGate(services, destination.id, ask, settings);
  const grantedAt = services.now();
  const doubtful = settledSince(group.lookedUpAt ?? askedAt, given, grantedAt);
  const answer = given && withDoubt(given, doubtful, grantedAt);
  const grant = answer?.grant;
  if (!grant) return { destination, answer, run: undefined, recoverAt: grantedAt };
  const { works: loaded, left = 0 } = await load(services, group, grant);
  const works = loaded.filter(({ event }) => !doubtful.includes(event.id));
  const { signer } = prepared;
  const patienceMs = group.patienceFor(grant.destinationState.tookMs);
  const order = { destination: destination.id, grant, works, settings, patienceMs, grantedAt, signer };
  const whole = { ...order, policy: retryPolicyOf(destination) };
  const run = after ? after.run.goOnWith(whole) : runLease(services, shared, whole);
  return { destination, answer, run, left, recoverAt: grantedAt + grant.expiresInMs };
}

/**
 * Those let in that may have been settled after the look-up: the question was under way while that happened. An answer
 * that took long makes more of them doubtful than were.
 */
function settledSince(
  lookedUpAt: number,
  answer: AdmitResult | undefined,
  answeredAt: number,
): readonly number[] {
  const since = (answer?.settled ?? []).filter(({ msAgo }) => answeredAt - msAgo > lookedUpAt);
  return since.map(({ delivery }) => delivery);
}

/** Such have to be looked at again, like those that another lease holds. */
function withDoubt(answer: AdmitResult, doubtful: readonly number[], now: number): AdmitResult {
  if (doubtful.length === 0) return answer;
  const { deliveries = [], until = now } = answer.inFlight ?? {};
  return { ...answer, inFlight: { deliveries: [...deliveries, ...doubtful], until } };
}

/** What was let in. When it cannot be looked up, nothing comes of the lease: it is ended at once, as unused. */
async function load(services: Services, group: DestinationBatch, grant: Grant): Promise<Ready> {
  try {
    return await group.load(grant.deliveries);
  } catch (error) {
    const { destination } = group;
    const unused = { lease: grant.id, signals: [], left: grant.deliveries.length };
    await settleAtGate(services, destination.id, unused, gateSettingsOf(destination));
    throw error;
  }
}

/** Nothing can be sent to the destination at the moment: its gate is not even asked. */
function withoutGate({ destination, ask: { deliveries } }: DestinationBatch, refusal: Refusal): BatchRun {
  const answer = { grant: null, refused: { deliveries, ...refusal }, inFlight: null };
  return { destination, answer, run: undefined, recoverAt: 0 };
}

/**
 * Reports the run to the gate, after its outcomes are recorded; returns what it has brought to light.
 * @param continues a drain that will ask again at once
 */
async function settleBatch(
  services: Services,
  { destination, answer, run, left = 0 }: BatchRun,
  continues = false,
): Promise<DestinationResult | undefined> {
  const grant = answer?.grant;
  if (!grant || !run) return undefined;
  const tat = run.tat();
  const settlement = {
    lease: grant.id,
    signals: run.signals,
    left: run.queue.length + left,
    continues,
    ...(tat !== undefined && { tatInMs: tat - services.now() }),
  };
  const news = await settleAtGate(services, destination.id, settlement, gateSettingsOf(destination));
  return news && { destination, news };
}

/** Why what a run has left over must wait. */
export function leftoverReason(run: LeaseRun, now: number): Refusal {
  return run.shut() ?? { reason: run.unplaced() ? "rate" : "slow", until: now };
}

export type Dispatched = Readonly<{
  /** For every delivery that was to be told of, but for the failures'. All of it is in D1. */
  dispositions: readonly Disposition[];
  /** Whether some attempts are still running. */
  late: boolean;
  failures: readonly Failure[];
}>;

/** What could not be recorded: of a group, whose lease is not settled either, or of what was decided without an attempt. */
export type Failure = Readonly<{ batchRun?: BatchRun; error: unknown }>;

export type DispatchOptions = Readonly<{
  /** What was decided without an attempt, to be recorded with the first group that ends. */
  also: readonly Disposition[];
  /** The mark of the message that has brought it, and brings its retry; without, retries get messages of their own. */
  ownerOf?: (work: LoadedDelivery) => string | undefined;
  /** Asked when a group is recorded: whether the drain will ask again at once, if anything has come of this. */
  continues: () => boolean;
}>;

/** A group under a lease. The others have nothing to record, and nothing to settle. */
type Leased = BatchRun & Readonly<{ run: LeaseRun }>;

type Batch = DispatchOptions &
  Readonly<{
    services: Services;
    recorder: Recorder;
    /** What has not ended yet: groups, and what was decided without an attempt. */
    atWork: Set<unknown>;
    settling: Settling;
  }>;

/** What gates say to groups that settle at the same time is heeded at once, in one round trip. */
type Settling = Readonly<{ groups: Set<BatchRun>; heard: DestinationResult[]; gone: StatusChange[] }>;

export async function dispatch(
  services: Services,
  recorder: Recorder,
  runs: readonly BatchRun[],
  orders: DispatchOptions,
): Promise<Dispatched> {
  const { also } = orders;
  const leased = runs.filter((batchRun): batchRun is Leased => batchRun.run !== undefined);
  const atWork = new Set<unknown>(also.length > 0 ? [...leased, also] : leased);
  const settling = { groups: new Set<BatchRun>(), heard: [], gone: [] };
  const batch = { ...orders, services, recorder, atWork, settling };
  const ended = await Promise.all([
    endDecided(batch, leased).catch((error: unknown) => failed({ error })),
    ...leased.map((batchRun) =>
      endGroup(batch, batchRun).catch((error: unknown) => failed({ batchRun, error })),
    ),
  ]);
  return {
    dispositions: ended.flatMap(({ dispositions }) => dispositions),
    late: ended.some(({ late }) => late),
    failures: ended.flatMap(({ failures }) => failures),
  };
}

function failed(failure: Failure): Dispatched {
  return { dispositions: [], late: false, failures: [failure] };
}

/** Records what was decided without an attempt, when the first group ends, or at once where there is none. */
async function endDecided(
  { services, recorder, atWork, also }: Batch,
  leased: readonly Leased[],
): Promise<Dispatched> {
  if (also.length === 0) return { dispositions: [], late: false, failures: [] };
  if (leased.length > 0) await Promise.race(leased.map(({ run }) => run.enough)).catch(() => {});
  atWork.delete(also);
  await recorder.report(also, atWork.size > 0);
  publishDead(services, also);
  return { dispositions: also, late: false, failures: [] };
}

/** Awaits the group's end, records and settles it. */
async function endGroup(batch: Batch, batchRun: Leased): Promise<Dispatched> {
  const { services, recorder, atWork, also, ownerOf = () => leaseOf(batchRun), continues } = batch;
  const { run } = batchRun;
  try {
    await run.enough;
  } finally {
    atWork.delete(batchRun);
  }
  logLease(services, batchRun);
  const late = run.running.size > 0;
  const told = run.done.length;
  const dispositions = runDispositions(services, batchRun, ownerOf);
  const gone = await recorder.report(dispositions, atWork.size > 0);
  if (late) {
    heedTogether(batch, [], gone);
    services.background(finishLate(batch, batchRun, told));
  } else {
    await settle(batch, batchRun, gone, hasProgress([...also, ...dispositions]) && continues());
  }
  return { dispositions, late, failures: [] };
}

/** Whether any delivery has been attempted, or has ended without: otherwise another lease would come to nothing too. */
export function hasProgress(dispositions: readonly Disposition[]): boolean {
  return dispositions.some(({ row }) => row !== undefined && row.state !== "waiting");
}

/** @param gone pauses that have just been made */
async function settle(
  batch: Batch,
  batchRun: Leased,
  gone: readonly StatusChange[],
  continues: boolean,
): Promise<void> {
  const { groups } = batch.settling;
  groups.add(batchRun);
  const heard = await settleBatch(batch.services, batchRun, continues).finally(() => groups.delete(batchRun));
  heedTogether(batch, heard ? [heard] : [], gone);
}

/** Leaves it to the last of those that are settling. */
function heedTogether(
  { services, settling }: Batch,
  heard: readonly DestinationResult[],
  gone: readonly StatusChange[],
): void {
  settling.heard.push(...heard);
  settling.gone.push(...gone);
  const isSomething = settling.heard.length + settling.gone.length > 0;
  if (settling.groups.size > 0 || !isSomething) return;
  services.background(applySettleResults(services, settling.heard.splice(0), settling.gone.splice(0)));
}

/** What comes of a lease without a message, or behind it, is told from everything else by the lease. */
function leaseOf({ answer }: BatchRun): string | undefined {
  return answer?.grant?.id;
}

/**
 * Answers that come after the messages are gone: their retries need messages of their own.
 * @param told so many attempts had ended before
 */
async function finishLate(batch: Batch, batchRun: Leased, told: number): Promise<void> {
  const { services, recorder } = batch;
  const { run } = batchRun;
  try {
    await run.finished;
    const dispositions = attemptDispositions(services, run.done.slice(told), () => leaseOf(batchRun));
    logCounts(services);
    await settle(batch, batchRun, await recorder.report(dispositions), false);
    await sendAgain(services, dispositions);
  } catch (error) {
    // The deliveries are recorded as on their way: the sweep takes them up again.
    services.log({ what: "late_outcomes_lost", error: faultOf(error) });
  }
}
