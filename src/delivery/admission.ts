/**
 * Which deliveries may be attempted now: those that triage finds due, whose destination can be sent to, and that its
 * gate admits. The queue's consumer and the drain both start their leases here.
 */
import type { AdmitRequest, AdmitResult, Refusal, RefusalReason } from "../core/admit.ts";
import { arrivedGrant, CONNECTIONS, type Grant, settledSince } from "../core/lease.ts";
import { type LeaseEffects, type LeaseRun, runLease } from "../core/lease-runner.ts";
import { predecessors, whoseTurn } from "../core/order.ts";
import { type DeliverySource, type Readiness, readinessOf } from "../core/triage.ts";
import { holdAtGate } from "../gate/client.ts";
import { eventId } from "../ids.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { LoadedDelivery } from "../store/deliveries.ts";
import {
  type Destination,
  gateSettingsOf,
  isDestinationOver,
  isSubscription,
  retryPolicyOf,
} from "../store/destination.ts";
import type { NoToken } from "./access-token.ts";
import { credentialsOf } from "./authorization.ts";
import type { Connections } from "./connections.ts";
import { admitDestination, learnedState, reportThrottled, settleDestination } from "./group.ts";
import { plainPayload, type Sender, send } from "./http.ts";
import type { ObstacleOf } from "./kinds/kind.ts";
import { kindOf } from "./kinds/sending.ts";
import {
  currentRow,
  type Disposition,
  type Finished,
  faultyDisposition,
  finish,
  overRow,
  waitingDisposition,
} from "./outcome.ts";
import { signerFor } from "./signature.ts";

/** A destination that cannot be sent to is tried again by the sweep, which runs every minute. */
const UNREADY_MS = 60_000;
/** After an unreachable gate, retry after this, plus up to 100 % jitter. */
const UNREACHABLE_MS = 5_000;

/** Decides which deliveries are to be attempted now, with what is sent, and what happens to the others. */
export async function triage(
  services: Services,
  loaded: readonly LoadedDelivery[],
  sourceOf: (delivery: LoadedDelivery) => DeliverySource,
): Promise<Readonly<{ due: readonly LoadedDelivery[]; dispositions: readonly Disposition[] }>> {
  const deliveries = loaded.every(isPlain)
    ? loaded
    : await (await import("./transform.ts")).withPayloads(services, loaded);
  const now = services.now();
  const known = new Map<Destination, ObstacleOf>();
  const check = async (destination: Destination) => {
    const obstacleOf = (await kindOf(destination)).obstacles(destination, services.config);
    known.set(destination, obstacleOf);
    return obstacleOf;
  };
  const due: LoadedDelivery[] = [];
  const dispositions: Disposition[] = [];
  for (const delivery of deliveries) {
    const { destination } = delivery;
    const ready = readinessOf(progressOf(delivery, now), sourceOf(delivery), now);
    const readiness =
      ready.kind === "due"
        ? guarded(services, delivery, known.get(destination) ?? (await check(destination)))
        : ready;
    if (readiness.kind === "due") due.push(delivery);
    else dispositions.push(withoutAttempt(delivery, readiness, now));
  }
  const { ready, parked } = whoseTurn(due);
  return { due: ready, dispositions: [...dispositions, ...parked.map((delivery) => ({ delivery }))] };
}

/** Whether the event is sent as it was posted, for certain: the code for other forms is loaded only for others. */
function isPlain({ destination, event }: LoadedDelivery): boolean {
  const { transform, template } = destination;
  return !transform && !template && !isSubscription(destination) && event.version === undefined;
}

/**
 * The target is checked whenever deliveries to it have been loaded: the rules, or the row, may have changed since the destination
 * was created.
 */
function guarded({ log, now }: Services, delivery: LoadedDelivery, obstacleOf: ObstacleOf): Readiness {
  const { event, destination } = delivery;
  // Due only since it was looked up: its body was not loaded.
  if (event.body === undefined) return { kind: "early", at: now() };
  if (event.body === null) return { kind: "over", state: "dead", reason: "corrupt" };
  const result = delivery.transformed;
  if (result?.kind === "cancelled") return { kind: "over", state: "cancelled", reason: "transformed" };
  if (result?.kind === "fault") return { kind: "faulty" };
  const { body } = result ?? delivery.payload ?? plainPayload({ ...event, body: event.body }, destination);
  const obstacle = obstacleOf(body);
  if (obstacle === undefined) return { kind: "due" };
  const { reason, fault } = obstacle;
  log({ what: loggedAs[reason], destination: destination.id, event: eventId(event.id), fault });
  return { kind: "over", state: "dead", reason };
}

const loggedAs = { forbidden_target: "target_forbidden", too_large: "message_too_large" } as const;

function progressOf(delivery: LoadedDelivery, now: number) {
  const { giveUpAt, nextAttemptAt } = currentRow(delivery);
  const destinationDeleted = isDestinationOver(delivery.destination, now);
  const erased = delivery.event.isErased === true;
  return { state: delivery.row?.state, nextAttemptAt, giveUpAt, destinationDeleted, erased };
}

function withoutAttempt(
  delivery: LoadedDelivery,
  readiness: Exclude<Readiness, { kind: "due" }>,
  now: number,
): Disposition {
  switch (readiness.kind) {
    case "done":
      return { delivery };
    case "early":
      return { delivery, retryAt: readiness.at };
    case "faulty":
      return faultyDisposition(delivery);
    case "over":
      return { delivery, row: overRow(delivery, readiness.state, readiness.reason, now) };
  }
}

type DeliveryLease = LeaseRun<LoadedDelivery, Finished>;

/** The fields of every stage: the destination, and what is decided so far. */
type Stage<Name extends string> = Readonly<{
  stage: Name;
  destination: Destination;
  dispositions: readonly Disposition[];
}>;

/**
 * One destination's deliveries on their way from triage to the record. `decided`: triage left nothing to attempt.
 * `unreachable`: the gate gave no answer. `refused`: none may be attempted now. `leased`: attempts are under way.
 * `recorded`: all of it is in D1.
 */
export type Dispatch = Due | Decided | Unreachable | Refused | Leased | Recorded;

/** Deliveries that one call of the gate is for. */
export type Due = Stage<"due"> &
  Readonly<{
    request: Omit<AdmitRequest, "connections" | "lookedUpMsAgo" | "succeeds">;
    source: DueSource;
    /** How many connections the attempts can have; all of the invocation's by default. */
    connections?: number;
    /** The lease in use that this one continues without a pause. */
    after?: Readonly<{ lease: string; run: DeliveryLease }> | undefined;
    /** How long to wait for an answer from a receiver that usually takes this long; 0: not known. */
    patienceFor: (usualMs: number) => number;
  }>;

type DueSource =
  /**
   * They were read from D1 at this time, by this worker's clock; those that may have changed since, according to the
   * gate, are read again.
   */
  | Readonly<{
      kind: "loaded";
      lookedUpAt: number;
      deliveries: readonly LoadedDelivery[];
      load: LoadAdmitted;
    }>
  /** They wait in D1. Those admitted are read under the lease. */
  | Readonly<{ kind: "waiting"; load: LoadAdmitted }>;

/** Reads what was admitted from D1, under the lease. */
type LoadAdmitted = (admitted: readonly number[]) => Promise<LoadedAdmitted>;

export type LoadedAdmitted = Readonly<{
  /** Fewer than were admitted when some have ended meanwhile. */
  deliveries: readonly LoadedDelivery[];
  /** Deliveries that ended or must wait without an attempt. */
  dispositions: readonly Disposition[];
  /** How many more must wait, because their bodies would be too much at once. */
  left: number;
}>;

export type Decided = Stage<"decided">;

type Unreachable = Stage<"unreachable">;

type Refused = Stage<"refused"> & Readonly<{ result: AdmitResult }>;

export type Leased = Stage<"leased"> &
  Readonly<{
    /** Some of the requested deliveries may have been refused. */
    result: AdmitResult;
    grant: Grant;
    run: DeliveryLease;
    /** Admitted and not attempted, and not in the run either. */
    left: number;
    /** When the lease ends by itself, by this worker's clock. */
    recoverAt: number;
  }>;

/** `late`: some attempts are still running. */
export type Recorded = Stage<"recorded"> & Readonly<{ late: boolean }>;

/** Requests a lease for the due deliveries, and starts the attempts that the gate admits. */
export async function admitDue(
  services: Services,
  shared: Connections,
  due: Due,
): Promise<Unreachable | Refused | Leased> {
  const { destination, source, request, after, connections = CONNECTIONS } = due;
  const prepared = await prepare(services, shared, destination);
  if (prepared.kind === "unready") return withoutGate(due, prepared.refusal);
  const requestedAt = services.now();
  const lookedUpAt = source.kind === "loaded" ? source.lookedUpAt : requestedAt;
  const succeeds = after && { succeeds: after.lease };
  const whole = { ...request, connections, lookedUpMsAgo: requestedAt - lookedUpAt, ...succeeds };
  const answer = await admitDestination(services, destination, whole, lookedUpAt);
  if (!answer) return unreachable(services, due);
  const grantedAt = services.now();
  const { grant } = answer;
  if (!grant) return refusedBy(answer, due);
  const isOutdated = answer.readAgain === true || settledSince(answer, lookedUpAt, grantedAt).length > 0;
  const loaded = await loadAdmitted(services, due, grant, isOutdated);
  // The gate knows no lines: it may have admitted one without the one before it.
  const { ready: deliveries, parked } = whoseTurn(loaded.deliveries);
  const { left } = loaded;
  const dispositions = [...loaded.dispositions, ...parked.map((delivery) => ({ delivery }))];
  const usable = arrivedGrant(grant, requestedAt, grantedAt);
  const run = startLease(services, shared, due, { ...prepared, grant: usable, grantedAt, deliveries });
  const recoverAt = grantedAt + grant.expiresInMs;
  const decided = [...refusedBy(answer, due).dispositions, ...dispositions];
  const leased = { stage: "leased", destination, dispositions: decided } as const;
  return { ...leased, result: answer, grant, run, left, recoverAt };
}

type Admitted = Readonly<{
  grant: Grant;
  grantedAt: number;
  deliveries: readonly LoadedDelivery[];
  sender: Sender;
}>;

/** Attempts the admitted deliveries. */
export function startLease(
  services: Services,
  shared: Connections,
  { destination, after, patienceFor }: Pick<Due, "destination" | "after" | "patienceFor">,
  { grant, grantedAt, deliveries, sender }: Admitted,
): DeliveryLease {
  const { id } = destination;
  const settings = gateSettingsOf(destination);
  const policy = retryPolicyOf(destination);
  const how = { timeoutMs: settings.timeoutMs, sender };
  const before = predecessors(deliveries);
  const order = {
    grant,
    grantedAt,
    deliveries,
    settings,
    patienceMs: patienceFor(grant.destinationState.tookMs),
    ...(before.size > 0 && { sequence: { predecessors: before, isSuccess } }),
    send: async (delivery: LoadedDelivery, answered: () => void) => {
      const finished = finish(
        await send(services, delivery, { ...how, answered }),
        policy,
        services.random(),
      );
      reportThrottled(services, destination, finished.attempt);
      return finished;
    },
  };
  const effects: LeaseEffects = {
    now: services.now,
    random: services.random,
    sleep: services.sleep,
    withConnection: (task) => shared.run(id, task),
    readState: () => learnedState(services, destination),
    hold: (until) => services.background(holdAtGate(services, id, until)),
  };
  return after ? after.run.continueWith(order) : runLease(effects, order);
}

function isSuccess({ outcome }: Finished): boolean {
  return outcome.transition.kind === "delivered";
}

/**
 * If the admitted deliveries cannot be loaded, the lease is useless: it is ended at once, as unused.
 * @param isOutdated whether a delivery may have ended since it was loaded
 */
async function loadAdmitted(
  services: Services,
  { destination, source }: Due,
  grant: Grant,
  isOutdated: boolean,
): Promise<LoadedAdmitted> {
  if (source.kind === "loaded" && !isOutdated) {
    const admitted = new Set(grant.deliveries);
    const deliveries = source.deliveries.filter(({ event }) => admitted.has(event.id));
    return { deliveries, dispositions: [], left: 0 };
  }
  try {
    return await source.load(grant.deliveries);
  } catch (error) {
    // Only a drain leaves some deliveries waiting.
    const left = source.kind === "waiting" ? grant.deliveries.length : 0;
    const unused = { lease: grant.id, signals: [], left };
    await settleDestination(services, destination, unused, { attempts: [], block: undefined });
    throw error;
  }
}

/** Nothing can be sent to the destination at the moment: its gate is not even queried. */
function withoutGate(due: Due, refusal: Refusal): Refused {
  const { deliveries } = due.request;
  return refusedBy({ grant: null, refused: { deliveries, ...refusal }, inFlight: null }, due);
}

/** The meaning of the gate's result for the deliveries that it did not admit. A delivery that waits in D1 stays as it is. */
export function refusedBy(result: AdmitResult, { destination, dispositions, source }: Due): Refused {
  const { refused, inFlight } = result;
  const stage = { stage: "refused", destination, result } as const;
  if (source.kind === "waiting") return { ...stage, dispositions };
  const refusedIds = new Set(refused?.deliveries);
  const inFlightIds = new Set(inFlight?.deliveries);
  const own = source.deliveries.flatMap((delivery): Disposition[] => {
    const { id } = delivery.event;
    if (refused && refusedIds.has(id)) return [waitingDisposition(delivery, refused)];
    return inFlight && inFlightIds.has(id) ? [{ delivery, retryAt: inFlight.until }] : [];
  });
  return { ...stage, dispositions: [...dispositions, ...own] };
}

/** Deliveries that wait in D1 stay there; all others come again. */
function unreachable({ now, random }: Services, { destination, dispositions, source }: Due): Unreachable {
  const asked = source.kind === "loaded" ? source.deliveries : [];
  const own = asked.map((delivery) => ({ delivery, retryAt: now() + UNREACHABLE_MS * (1 + random()) }));
  return { stage: "unreachable", destination, dispositions: [...dispositions, ...own] };
}

type PreparedAdmission =
  | Readonly<{ kind: "ready"; sender: Sender }>
  /** `fault` is a sentence, if there is more to say than the reason. */
  | Readonly<{ kind: "unready"; refusal: Refusal; fault?: string }>;

/**
 * The conditions for calling a destination's gate: its secrets and headers can be opened, its kind can reach it, and it
 * has an access token if it needs one. Otherwise nothing is attempted and nothing is counted: the deliveries wait in
 * D1, and the sweep has a drain try again.
 */
export async function prepare(
  services: Services,
  shared: Connections,
  destination: Destination,
  { force }: Readonly<{ force?: boolean }> = {},
): Promise<PreparedAdmission> {
  const target = await (await kindOf(destination)).prepare(services, shared, destination);
  if (target.kind === "unready") return unready(target.reason, services.now());
  const { post } = target;
  try {
    const signer = await signerFor(services.vault, destination, services.now());
    const connect = <T>(task: () => Promise<T>) => shared.run(destination.id, task);
    const credentials = await credentialsOf(services, destination, { connect, force });
    return "kind" in credentials
      ? withoutToken(credentials, services.now())
      : { kind: "ready", sender: { signer, credentials, post } };
  } catch (error) {
    services.log({ what: "secret_unreadable", destination: destination.id, error: faultOf(error) });
    return unready("sealed", services.now());
  }
}

function withoutToken({ reason, fault, until }: NoToken, now: number): PreparedAdmission {
  const refusal = { reason, until: Math.max(until, now + UNREADY_MS) };
  return { kind: "unready", refusal, fault: `The token endpoint ${fault}.` };
}

function unready(reason: RefusalReason, now: number): PreparedAdmission {
  return { kind: "unready", refusal: { reason, until: now + UNREADY_MS } };
}
