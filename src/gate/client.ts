/**
 * Calls to a destination's gate (see durable-object.ts), by RPC from any Worker.
 *
 * A gate that throws or does not answer in time is a value, not an exception: nothing was attempted, so nothing is
 * counted, and the caller tries again later. Events that a call reports are logged here, once.
 */

import type { TokenAtGate, TokenRequest } from "../core/access-token.ts";
import type { AdmitRequest, AdmitResult, Refusal } from "../core/admit.ts";
import type { DeadLetterDigest } from "../core/alerts.ts";
import type { CircuitEvent, DestinationState } from "../core/destination-state.ts";
import type { Pause } from "../core/gate-state.ts";
import type { FiguresQuery, GateFigures, GateView } from "../core/gate-view.ts";
import type { GateSettings } from "../core/limits.ts";
import type { SettleRequest, SettleResult } from "../core/settle.ts";
import { transientOf } from "../core/transient.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { repeatedly, within } from "../time.ts";
import type { Fetched, TokenResult } from "./access-tokens.ts";
import type { DestinationGate } from "./durable-object.ts";

type CallServices = Pick<Services, "gateLocation" | "log" | "sleep" | "now" | "random">;
type GateServices = CallServices & Pick<Services, "gates">;

/** A gate that takes longer to answer counts as unreachable. */
const TIMEOUT_MS = 10_000;
/**
 * A call that was interrupted, as by a reset on deploy, is repeated so often. The runtime repeats only calls that have
 * certainly not reached the gate: https://developers.cloudflare.com/durable-objects/best-practices/automatic-retries/
 */
const REPEATS = 2;
const PAUSE_MS = 200;
/** No repeat begins later than this after the first call. */
const WITHIN_MS = 3_000;

/**
 * Asks for a lease; undefined when the gate cannot be reached. A repeat never has the same deliveries granted twice: if the
 * first call was granted and its answer got lost, the gate holds them in flight, and says so, until that lease expires.
 */
export async function admitAtGate(
  services: GateServices,
  destination: string,
  request: AdmitRequest,
  settings: GateSettings,
): Promise<AdmitResult | undefined> {
  const result = await call(services, destination, (gate) => gate.admit(request, settings));
  for (const what of result?.events ?? []) services.log({ what, destination });
  return result;
}

/**
 * Reports a lease's outcomes. Undefined when they changed nothing worth acting on, or when the gate cannot be reached:
 * a lease that is not settled expires by itself.
 */
export async function settleAtGate(
  services: GateServices,
  destination: string,
  request: SettleRequest,
  settings: GateSettings,
): Promise<SettleResult | undefined> {
  const result = await call(services, destination, (gate) =>
    gate.settle({ ...request, sentAt: services.now() }, settings),
  );
  for (const what of result?.events ?? [])
    services.log({ what, destination, ...timesOf(what, result?.figures) });
  return result ?? undefined;
}

function timesOf(event: CircuitEvent, figures: SettleResult["figures"] | undefined) {
  if (event === "circuit_opened") return { until: figures?.circuitUntil, openings: figures?.trips };
  return event === "held" ? { until: figures?.heldUntil } : {};
}

/** When a test event, or a suite, may be sent: null for now, else epoch ms; undefined when the gate cannot be reached. */
export function claimTestAtGate(
  services: GateServices,
  destination: string,
  isSuite = false,
): Promise<number | null | undefined> {
  return call(services, destination, (gate) => gate.claimTest(isSuite), "once");
}

/** The destination's access token, why there is none, or the claim to fetch one; undefined when the gate cannot be reached. */
export async function accessTokenAtGate(
  services: GateServices,
  destination: string,
  request: TokenRequest,
): Promise<TokenResult | undefined> {
  return call(services, destination, async (gate) => gate.accessToken(request));
}

/** Hands in what the claim has come to; undefined when the gate cannot be reached. */
export async function keepAccessTokenAtGate(
  services: GateServices,
  destination: string,
  terms: string,
  fetched: Fetched,
): Promise<TokenAtGate | undefined> {
  return call(services, destination, async (gate) => gate.keepAccessToken(terms, fetched));
}

/**
 * The receiver asked for quiet until then: reported before the lease is settled, because other leases must stop too.
 */
export async function holdAtGate(services: GateServices, destination: string, until: number): Promise<void> {
  const events = await call(services, destination, (gate) => gate.hold(until, services.now()));
  for (const what of events ?? []) services.log({ what, destination, ...(what === "held" && { until }) });
}

/** An operator ended the receiver's hold; false when the gate cannot be reached. */
export async function clearHoldAtGate(services: GateServices, destination: string): Promise<boolean> {
  const events = await call(services, destination, (gate) => gate.clearHold());
  for (const what of events ?? []) services.log({ what, destination });
  return events !== undefined;
}

/**
 * The destination was deleted and no delivery waits for it: removes its gate's storage. False when the gate cannot be
 * reached: then the caller tries again later.
 */
export async function forgetGate(services: GateServices, destination: string): Promise<boolean> {
  const forgotten = await call(services, destination, (gate) => gate.forget().then(() => true));
  return forgotten ?? false;
}

/** Deliveries wait in D1 for this destination. */
export async function scheduleDrainAtGate(services: GateServices, destination: string): Promise<void> {
  await call(services, destination, (gate) => gate.scheduleDrain());
}

/**
 * An operator wants the destination tried again (a pause was lifted, its URL changed): hold and cool-down end, and
 * traffic restarts from one.
 */
export async function resumeAtGate(
  services: GateServices,
  destination: string,
  pause?: Pause,
): Promise<void> {
  await call(services, destination, (gate) => gate.resume(pause), "once");
}

/** A drain that read D1 at `lookedAt` (epoch ms) found nothing waiting. */
export async function reportEmptyDrain(
  services: GateServices,
  destination: string,
  lookedAt: number,
): Promise<void> {
  await call(services, destination, (gate) => gate.reportEmptyDrain(lookedAt), "once");
}

/** So many of its deliveries ended dead without an attempt. Returns whether to schedule its dead-letter digest. */
export async function reportUnattemptedDead(
  services: GateServices,
  destination: string,
  deliveries: number,
): Promise<boolean> {
  return (await call(services, destination, (gate) => gate.countDead(deliveries), "once")) ?? false;
}

/** Its transformation, in this version, made no request for so many more deliveries. Returns whether to pause it. */
export async function reportTransformFaults(
  services: GateServices,
  destination: string,
  version: number,
  deliveries: number,
): Promise<boolean> {
  return (
    (await call(services, destination, (gate) => gate.countTransformFaults(version, deliveries), "once")) ??
    false
  );
}

/** The dead deliveries that are not published yet; undefined when the gate cannot be reached. */
export function digestAtGate(
  services: GateServices,
  destination: string,
): Promise<DeadLetterDigest | undefined> {
  return call(services, destination, (gate) => gate.deadLetterDigest());
}

/** That digest was published. Returns whether to schedule another, because more deliveries have died meanwhile. */
export async function markDigestSent(
  services: GateServices,
  destination: string,
  sent: DeadLetterDigest,
): Promise<boolean> {
  return (await call(services, destination, (gate) => gate.markDigestSent(sent))) ?? false;
}

/**
 * These deliveries are changed in D1: none of them is granted again to who has read it before. Returns those that are in
 * flight; undefined when the gate cannot be reached.
 */
export function recheckAtGate(
  services: GateServices,
  destination: string,
  deliveries: readonly number[],
): Promise<readonly number[] | undefined> {
  return call(services, destination, async (gate) => gate.recheck(deliveries));
}

/** Why the destination's backlog waits now; undefined when it would be admitted or the gate cannot be reached. */
export async function refusalAtGate(
  services: GateServices,
  destination: string,
  settings: GateSettings,
): Promise<Refusal | undefined> {
  const refusal = await call(services, destination, (gate) => gate.refusal(settings));
  return refusal ?? undefined;
}

/** The destination's state with what other leases have learned; undefined when the gate cannot be reached. */
export function destinationStateAtGate(
  services: GateServices,
  destination: string,
): Promise<DestinationState | undefined> {
  return call(services, destination, (gate) => gate.destinationState());
}

/** The gate's current state; undefined when it cannot be reached. */
export function viewGate(
  services: GateServices,
  destination: string,
  settings: GateSettings,
): Promise<GateView | undefined> {
  return call(services, destination, (gate) => gate.view(settings));
}

/** The gate's counters; undefined when it cannot be reached. */
export function figuresAtGate(
  services: GateServices,
  destination: string,
  query: FiguresQuery,
  settings: GateSettings,
): Promise<GateFigures | undefined> {
  return call(services, destination, (gate) => gate.figures(query, settings));
}

function call<T>(
  services: GateServices,
  destination: string,
  method: (gate: DurableObjectStub<DestinationGate>) => Promise<T>,
  times?: "repeatedly" | "once",
): Promise<T | undefined> {
  const failed = { what: "gate_unreachable", destination };
  return callObject(services, { objects: services.gates, name: destination, failed }, method, { times });
}

/**
 * Calls a method of an object; undefined when it cannot be reached, which is logged.
 * @param times `once` for what would count, or claim, a second time where the answer alone got lost
 */
export async function callObject<Object extends Rpc.DurableObjectBranded, T>(
  services: CallServices,
  called: Readonly<{
    objects: DurableObjectNamespace<Object>;
    name: string;
    failed: Readonly<{ what: string }>;
  }>,
  method: (object: DurableObjectStub<Object>) => Promise<T>,
  {
    times = "repeatedly",
    timeoutMs = TIMEOUT_MS,
  }: Readonly<{ times?: "repeatedly" | "once" | undefined; timeoutMs?: number }> = {},
): Promise<T | undefined> {
  const { gateLocation: locationHint, log, now } = services;
  const { objects, name, failed } = called;
  const isWorthwhile = (error: unknown) => {
    const transient = transientOf(error);
    return transient === "not_reached" || (transient === "interrupted" && times === "repeatedly");
  };
  const repeats = { most: REPEATS, until: now() + WITHIN_MS, pauseMs: PAUSE_MS, isWorthwhile };
  try {
    // A new stub for each call, because an error may have broken the one before.
    return await repeatedly(services, repeats, () => {
      const object = objects.get(objects.idFromName(name), locationHint && { locationHint });
      return within(services, timeoutMs, method(object), "The object does not answer");
    });
  } catch (error) {
    log({ ...failed, error: faultOf(error) });
    return undefined;
  }
}
