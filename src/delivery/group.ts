/**
 * One destination's share of a batch: asked for at the gate, run under its lease, and reported to the gate.
 * The queue's consumer and the drain are both made of this.
 */
import { admitAtGate, settleAtGate } from "../gate/gate-client.ts";
import type { AdmitResult, AdmitRequest, Refusal } from "../policy/ask.ts";
import type { Grant } from "../policy/lease.ts";
import type { Services } from "../services.ts";
import { type Destination, gateSettingsOf, retryPolicyOf } from "../store/destination-settings.ts";
import type { LoadedDelivery } from "../store/work.ts";
import { CONNECTIONS, type Connections } from "./connections.ts";
import type { DestinationResult } from "./heed.ts";
import { prepare } from "./prepare.ts";
import { type LeaseRun, runLease } from "./run-lease.ts";

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
export async function startBatch(services: Services, shared: Connections, group: DestinationBatch): Promise<BatchRun> {
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
function settledSince(lookedUpAt: number, answer: AdmitResult | undefined, answeredAt: number): readonly number[] {
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
export async function settleBatch(
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
