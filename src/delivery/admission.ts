/**
 * Which deliveries may be attempted now: those that triage finds due, whose destination can be sent to, and that its
 * gate admits. The queue's consumer and the drain both start their leases here.
 */
import type { AdmitRequest, AdmitResult, Refusal, RefusalReason } from "../core/admit.ts";
import { arrivedGrant, CONNECTIONS, type Grant, settledSince } from "../core/lease.ts";
import { type LeaseEffects, type LeaseRun, runLease } from "../core/lease-runner.ts";
import { type DeliverySource, type Readiness, readinessOf } from "../core/triage.ts";
import { admitAtGate, destinationStateAtGate, holdAtGate, settleAtGate } from "../gate/client.ts";
import { eventId } from "../ids.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { LoadedDelivery } from "../store/deliveries.ts";
import { type Destination, gateSettingsOf, retryPolicyOf } from "../store/destinations.ts";
import type { NoToken } from "./access-token.ts";
import { credentialsOf } from "./authorization.ts";
import { type Connections, payloadOf, type Sender, send } from "./http.ts";
import { kindOf } from "./kinds/registry.ts";
import {
  currentRow,
  type Disposition,
  type Finished,
  finish,
  overRow,
  waitingDisposition,
} from "./outcome.ts";
import { signerFor } from "./signature.ts";

/** A destination that cannot be sent to is tried again by the sweep, which runs every minute. */
const UNREADY_MS = 60_000;
/** For a gate that could not be reached: come back after this, spread over as much again. */
const UNREACHABLE_MS = 5_000;

type Triaged = Readonly<{ due: readonly LoadedDelivery[]; dispositions: readonly Disposition[] }>;

/** Which of the deliveries are to be attempted now, and what becomes of the others. */
export function triage(
  services: Services,
  deliveries: readonly LoadedDelivery[],
  source: DeliverySource,
): Triaged {
  const now = services.now();
  const due: LoadedDelivery[] = [];
  const dispositions: Disposition[] = [];
  for (const delivery of deliveries) {
    const readiness = guarded(services, delivery, readinessOf(progressOf(delivery), source, now));
    if (readiness.kind === "due") due.push(delivery);
    else dispositions.push(withoutAttempt(delivery, readiness, now));
  }
  return { due, dispositions };
}

/** The target is checked at every send: the rules, or the row, may have changed since the destination was created. */
function guarded(
  { config, log, now }: Services,
  { event, destination }: LoadedDelivery,
  readiness: Readiness,
): Readiness {
  if (readiness.kind !== "due") return readiness;
  // Due only since it was looked up: its body was not loaded.
  if (event.body === undefined) return { kind: "early", at: now() };
  if (event.body === null) return { kind: "over", state: "dead", reason: "corrupt" };
  const { body } = payloadOf({ ...event, body: event.body }, destination);
  const obstacle = kindOf(destination).obstacle(destination, body, config);
  if (obstacle === undefined) return readiness;
  const { reason, fault } = obstacle;
  log({ what: loggedAs[reason], destination: destination.id, event: eventId(event.id), fault });
  return { kind: "over", state: "dead", reason };
}

const loggedAs = { forbidden_target: "target_forbidden", too_large: "message_too_large" } as const;

function progressOf(delivery: LoadedDelivery) {
  const { giveUpAt, nextAttemptAt } = currentRow(delivery);
  const destinationDeleted = delivery.destination.deletedAt !== null;
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
    case "over":
      return { delivery, row: overRow(delivery, readiness.state, readiness.reason, now) };
  }
}

type DeliveryLease = LeaseRun<LoadedDelivery, Finished>;

/** Deliveries of one destination for which its gate is asked together. */
export type Due = Readonly<{
  destination: Destination;
  request: Omit<AdmitRequest, "connections" | "lookedUpMsAgo" | "succeeds">;
  /** The lease in use that this one goes on from without a pause. */
  after?: Readonly<{ lease: string; run: DeliveryLease }> | undefined;
  /** When the deliveries were looked up in D1, by this worker's clock; undefined when `load` does that. */
  lookedUpAt?: number;
  /** How long an answer is awaited of a receiver that usually takes so long; 0: not known. */
  patienceFor: (usualMs: number) => number;
  /** Those admitted, with what is needed to attempt them. */
  load: (admitted: readonly number[]) => Promise<Loaded> | Loaded;
}>;

/** Deliveries to be attempted; fewer than were admitted when some have ended meanwhile. */
type Loaded = Readonly<{
  deliveries: readonly LoadedDelivery[];
  /** How many more must wait, because their bodies would be too much at once. */
  left?: number;
}>;

/**
 * One destination's deliveries on their way from its gate to the record. `unreachable`: the gate gave no answer, and
 * nothing is decided. `refused`: none may be attempted now. `leased`: attempts are under way (pipeline.ts ends it).
 */
export type Dispatch = Unreachable | Refused | Leased;

type Unreachable = Readonly<{ stage: "unreachable"; destination: Destination }>;

type Refused = Readonly<{ stage: "refused"; destination: Destination; result: AdmitResult }>;

export type Leased = Readonly<{
  stage: "leased";
  destination: Destination;
  /** Of those that were asked for, some may have been refused. */
  result: AdmitResult;
  grant: Grant;
  run: DeliveryLease;
  /** Admitted and not attempted, and not in the run either. */
  left: number;
  /** When the lease ends by itself, by this worker's clock. */
  recoverAt: number;
}>;

/** Asks the gate for what is due, and starts the attempts that it admits. */
export async function admitDue(services: Services, shared: Connections, due: Due): Promise<Dispatch> {
  const { destination } = due;
  const prepared = await prepare(services, shared, destination);
  if (prepared.kind === "unready") return withoutGate(due, prepared.refusal);
  const requestedAt = services.now();
  const lookedUpAt = due.lookedUpAt ?? requestedAt;
  const answer = await requestAdmission(services, due, requestedAt - lookedUpAt);
  if (!answer) return { stage: "unreachable", destination };
  const grantedAt = services.now();
  // A drain reads D1 after the grant.
  const isRead = due.lookedUpAt !== undefined;
  const settled = isRead ? settledSince(answer, lookedUpAt, grantedAt) : [];
  const result = withInFlight(answer, settled, grantedAt);
  const { grant } = result;
  if (!grant) return { stage: "refused", destination, result };
  const { deliveries, left = 0 } = await loadAdmitted(services, due, grant);
  const open = deliveries.filter(({ event }) => !settled.includes(event.id));
  const usable = arrivedGrant(grant, requestedAt, grantedAt);
  const run = startLease(services, shared, due, { ...prepared, grant: usable, grantedAt, deliveries: open });
  return { stage: "leased", destination, result, grant, run, left, recoverAt: grantedAt + grant.expiresInMs };
}

function requestAdmission(
  services: Services,
  { destination, request, after }: Due,
  lookedUpMsAgo: number,
): Promise<AdmitResult | undefined> {
  const succeeds = after && { succeeds: after.lease };
  const whole = { ...request, connections: CONNECTIONS, lookedUpMsAgo, ...succeeds };
  return admitAtGate(services, destination.id, whole, gateSettingsOf(destination));
}

type Admitted = Readonly<{
  grant: Grant;
  grantedAt: number;
  deliveries: readonly LoadedDelivery[];
  sender: Sender;
}>;

/** Attempts what was admitted. */
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
  const order = {
    grant,
    grantedAt,
    deliveries,
    settings,
    patienceMs: patienceFor(grant.destinationState.tookMs),
    send: async (delivery: LoadedDelivery, answered: () => void) =>
      finish(await send(services, delivery, { ...how, answered }), policy, services.random()),
  };
  const effects: LeaseEffects = {
    now: services.now,
    random: services.random,
    sleep: services.sleep,
    withConnection: (task) => shared.run(id, task),
    readState: () => destinationStateAtGate(services, id),
    hold: (until) => services.background(holdAtGate(services, id, until)),
  };
  return after ? after.run.continueWith(order) : runLease(effects, order);
}

/** Those settled meanwhile have to be looked up again, like those that another lease holds. */
function withInFlight(result: AdmitResult, settled: readonly number[], now: number): AdmitResult {
  if (settled.length === 0) return result;
  const { deliveries = [], until = now } = result.inFlight ?? {};
  return { ...result, inFlight: { deliveries: [...deliveries, ...settled], until } };
}

/** When what was admitted cannot be loaded, the lease is useless: it is ended at once, as unused. */
async function loadAdmitted(services: Services, due: Due, grant: Grant): Promise<Loaded> {
  try {
    return await due.load(grant.deliveries);
  } catch (error) {
    const { destination } = due;
    const unused = { lease: grant.id, signals: [], left: grant.deliveries.length };
    await settleAtGate(services, destination.id, unused, gateSettingsOf(destination));
    throw error;
  }
}

/** What was decided of the destination needs no gate. */
export function unasked(destination: Destination): Dispatch {
  return { stage: "refused", destination, result: { grant: null, refused: null, inFlight: null } };
}

/** Nothing can be sent to the destination at the moment: its gate is not even asked. */
function withoutGate({ destination, request: { deliveries } }: Due, refusal: Refusal): Refused {
  const result = { grant: null, refused: { deliveries, ...refusal }, inFlight: null };
  return { stage: "refused", destination, result };
}

/** The meaning of the gate's result for the deliveries that it did not admit. */
export function refusedDispositions(
  { now, random }: Services,
  dispatch: Dispatch,
  deliveries: readonly LoadedDelivery[],
): Disposition[] {
  if (dispatch.stage === "unreachable")
    return deliveries.map((delivery) => ({ delivery, retryAt: now() + UNREACHABLE_MS * (1 + random()) }));
  const { refused, inFlight } = dispatch.result;
  if (!refused && !inFlight) return [];
  const refusedIds = new Set(refused?.deliveries);
  const inFlightIds = new Set(inFlight?.deliveries);
  return deliveries.flatMap((delivery): Disposition[] => {
    const { id } = delivery.event;
    if (refused && refusedIds.has(id)) return [waitingDisposition(delivery, refused)];
    return inFlight && inFlightIds.has(id) ? [{ delivery, retryAt: inFlight.until }] : [];
  });
}

export type PreparedAdmission =
  | Readonly<{ kind: "ready"; sender: Sender }>
  /** `fault` is a sentence, where there is more to say than the reason. */
  | Readonly<{ kind: "unready"; refusal: Refusal; fault?: string }>;

/**
 * What must hold before a destination's gate is asked: its secrets and headers can be opened, its kind can reach it, and
 * it has an access token if it needs one. Otherwise nothing is attempted and nothing is counted: the deliveries wait in
 * D1, and the sweep has a drain try again.
 */
export async function prepare(
  services: Services,
  shared: Connections,
  destination: Destination,
  { force }: Readonly<{ force?: boolean }> = {},
): Promise<PreparedAdmission> {
  const target = await kindOf(destination).prepare(services, shared, destination);
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
