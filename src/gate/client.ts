/**
 * Calls to a destination's gate (see durable-object.ts), by RPC from any Worker.
 *
 * A gate that throws or does not answer in time is a value, not an exception: nothing was attempted, so nothing is
 * counted, and the caller tries again later. Events that a call reports are logged here, once.
 */

import type { AdmitRequest, AdmitResult } from "../core/admit.ts";
import { type CircuitEvent, type DestinationState, stateByOwnClock } from "../core/destination-state.ts";
import type { GateSettings } from "../core/limits.ts";
import type { SettleRequest, SettleResult } from "../core/settle.ts";
import { transientOf } from "../core/transient.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { repeatedly, within } from "../time.ts";
import type { DestinationGate } from "./durable-object.ts";

export type CallServices = Pick<Services, "gateLocation" | "log" | "sleep" | "now" | "random">;
export type GateServices = CallServices & Pick<Services, "gates">;

/** A gate that takes longer to answer counts as unreachable. */
const TIMEOUT_MS = 10_000;
/**
 * The number of repeats of a call that was interrupted, such as by a reset on deploy. The runtime repeats only calls
 * that have certainly not reached the gate:
 * https://developers.cloudflare.com/durable-objects/best-practices/automatic-retries/
 */
const REPEATS = 2;
const PAUSE_MS = 200;
/** The time after the first call until which repeats begin. */
const WITHIN_MS = 3_000;

/** The methods that would count, or claim, a second time if only the answer was lost. */
const ONCE: ReadonlySet<MethodOf<DestinationGate>> = new Set([
  "claimTest",
  "resume",
  "reportEmptyDrain",
  "countDead",
  "countTransformFaults",
] as const);

/**
 * Requests a lease; undefined when the gate cannot be reached. A repeat never has the same deliveries granted twice: if
 * the first call was granted and its answer was lost, the gate holds them in flight, and reports that, until that lease
 * expires.
 */
export async function admitAtGate(
  services: GateServices,
  destination: string,
  request: AdmitRequest,
  settings: GateSettings,
): Promise<AdmitResult | undefined> {
  const result = await atGate(services, destination, "admit", request, settings);
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
  const result = await calledAtGate<"settle">(services, destination, "settle", () => [
    { ...request, sentAt: services.now() },
    settings,
  ]);
  for (const what of result?.events ?? [])
    services.log({ what, destination, ...timesOf(what, result?.figures) });
  return result ?? undefined;
}

function timesOf(event: CircuitEvent, figures: SettleResult["figures"] | undefined) {
  if (event === "circuit_opened") return { until: figures?.circuitUntil, openings: figures?.trips };
  return event === "held" ? { until: figures?.heldUntil } : {};
}

/** The receiver requested a hold until then: reported before the lease is settled, because other leases must stop too. */
export async function holdAtGate(services: GateServices, destination: string, until: number): Promise<void> {
  const events = await calledAtGate<"hold">(services, destination, "hold", () => [until, services.now()]);
  for (const what of events ?? []) services.log({ what, destination, ...(what === "held" && { until }) });
}

/** An operator ended the receiver's hold; false when the gate cannot be reached. */
export async function clearHoldAtGate(services: GateServices, destination: string): Promise<boolean> {
  const events = await atGate(services, destination, "clearHold");
  for (const what of events ?? []) services.log({ what, destination });
  return events !== undefined;
}

/** The knowledge of all leases about the destination, by one's own clock; undefined when the gate cannot be reached. */
export async function stateAtGate(
  services: GateServices,
  destination: string,
): Promise<DestinationState | undefined> {
  const askedAt = services.now();
  const state = await atGate(services, destination, "destinationState");
  return state && stateByOwnClock(state, askedAt, services.now());
}

/** Calls a method of the gate; undefined when it cannot be reached. */
export function atGate<M extends MethodOf<DestinationGate>>(
  services: GateServices,
  destination: string,
  method: M,
  ...args: ArgsOf<DestinationGate, M>
): Promise<AnswerOf<DestinationGate, M> | undefined> {
  return calledAtGate(services, destination, method, () => args);
}

function calledAtGate<M extends MethodOf<DestinationGate>>(
  services: GateServices,
  destination: string,
  method: M,
  argsNow: () => ArgsOf<DestinationGate, M>,
): Promise<AnswerOf<DestinationGate, M> | undefined> {
  const failed = { what: "gate_unreachable", destination };
  const called = { objects: services.gates, name: destination, failed };
  return callObject(services, called, method, argsNow, { once: ONCE.has(method) });
}

/** The names of an object's methods, the arguments of one, and its answer: true where it returns nothing. */
export type MethodOf<O> = {
  [K in keyof O]-?: O[K] extends (...args: never[]) => unknown ? K : never;
}[keyof O];
export type ArgsOf<O, M extends keyof O> = O[M] extends (...args: infer A) => unknown ? A : never;
export type AnswerOf<O, M extends keyof O> = O[M] extends (...args: never[]) => infer R
  ? Awaited<R> extends void
    ? true
    : Awaited<R>
  : never;

/**
 * Calls a method of an object; undefined when it cannot be reached, which is logged.
 * @param argsNow the arguments, made anew for each call: they may contain the time at which it is sent
 * @param once whether not to call again if only the answer was lost
 */
export async function callObject<O extends Rpc.DurableObjectBranded, M extends MethodOf<O>>(
  services: CallServices,
  called: Readonly<{
    objects: DurableObjectNamespace<O>;
    name: string;
    failed: Readonly<{ what: string }>;
  }>,
  method: M,
  argsNow: () => ArgsOf<O, M>,
  { once = false, timeoutMs = TIMEOUT_MS }: Readonly<{ once?: boolean; timeoutMs?: number }> = {},
): Promise<AnswerOf<O, M> | undefined> {
  type Callable = Record<M, (...args: ArgsOf<O, M>) => Promise<AnswerOf<O, M> | undefined>>;
  const { gateLocation: locationHint, log, now } = services;
  const { objects, name, failed } = called;
  const isWorthwhile = (error: unknown) => {
    const transient = transientOf(error);
    return transient === "not_reached" || (transient === "interrupted" && !once);
  };
  const repeats = { most: REPEATS, until: now() + WITHIN_MS, pauseMs: PAUSE_MS, isWorthwhile };
  try {
    // A new stub for each call, because an error may have broken the one before.
    const answer = await repeatedly(services, repeats, () => {
      const object = objects.get(objects.idFromName(name), locationHint && { locationHint });
      const answered = (object as unknown as Callable)[method](...argsNow());
      return within(services, timeoutMs, answered, "The object does not answer");
    });
    return answer === undefined ? (true as AnswerOf<O, M>) : answer;
  } catch (error) {
    log({ ...failed, error: faultOf(error) });
    return undefined;
  }
}
