/**
 * The way to a destination's gate. A gate that cannot be reached is an answer, not an exception: nothing
 * was attempted, so nothing is counted, and the caller comes back later.
 */

import type { AdmitRequest, AdmitResult, Refusal } from "../core/admit.ts";
import type { DeadLetterDigest } from "../core/alerts.ts";
import type { CircuitEvent, DestinationState } from "../core/destination-state.ts";
import type { Pause } from "../core/gate-state.ts";
import type { FiguresQuery, GateFigures, GateView } from "../core/gate-view.ts";
import type { GateSettings } from "../core/limits.ts";
import type { SettleRequest, SettleResult } from "../core/settle.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { within } from "../time.ts";
import type { DestinationGate } from "./durable-object.ts";

type Doors = Pick<Services, "gates" | "log" | "sleep">;

/** A gate that has not answered for so long counts as one that cannot be reached. */
const PATIENCE_MS = 10_000;

/** Asks for a lease; undefined when the gate cannot be reached. */
export async function admitAtGate(
  services: Doors,
  destination: string,
  ask: AdmitRequest,
  settings: GateSettings,
): Promise<AdmitResult | undefined> {
  const answer = await reach(
    services,
    destination,
    (gate) => gate.admit(ask, settings) as Promise<AdmitResult>,
  );
  for (const what of answer?.events ?? []) services.log({ what, destination });
  return answer;
}

/** Reports a lease's outcomes, and hears what they mean; a lease that cannot be reported expires by itself. */
export async function settleAtGate(
  services: Doors,
  destination: string,
  settlement: SettleRequest,
  settings: GateSettings,
): Promise<SettleResult | undefined> {
  const news = await reach(
    services,
    destination,
    (gate) => gate.settle(settlement, settings) as Promise<SettleResult | null>,
  );
  for (const what of news?.events ?? []) services.log({ what, destination, ...timesOf(what, news?.figures) });
  return news ?? undefined;
}

function timesOf(event: CircuitEvent, figures: SettleResult["figures"] | undefined) {
  if (event === "circuit_opened") return { until: figures?.circuitUntil, openings: figures?.trips };
  return event === "held" ? { until: figures?.heldUntil } : {};
}

/** When a test event may be sent: null for now, else epoch ms; undefined when the gate cannot be reached. */
export function claimTestAtGate(services: Doors, destination: string): Promise<number | null | undefined> {
  return reach(services, destination, (gate) => gate.tryOut() as Promise<number | null>);
}

/** The receiver has asked for quiet until then: said at once, for the leases of others. */
export async function holdAtGate(services: Doors, destination: string, until: number): Promise<void> {
  const events = await reach(
    services,
    destination,
    (gate) => gate.hold(until) as Promise<readonly CircuitEvent[]>,
  );
  for (const what of events ?? []) services.log({ what, destination, ...(what === "held" && { until }) });
}

/** A person has ended the receiver's hold; false when the gate cannot be reached. */
export async function clearHoldAtGate(services: Doors, destination: string): Promise<boolean> {
  const events = await reach(
    services,
    destination,
    (gate) => gate.clearHold() as Promise<readonly CircuitEvent[]>,
  );
  for (const what of events ?? []) services.log({ what, destination });
  return events !== undefined;
}

/**
 * The destination has been deleted and nothing waits for it: its gate's storage is removed. False when the gate
 * cannot be reached: then the caller asks again later.
 */
export async function forgetGate(services: Doors, destination: string): Promise<boolean> {
  const forgotten = await reach(services, destination, (gate) => gate.forget().then(() => true));
  return forgotten ?? false;
}

/** Something waits in D1 for this destination. */
export async function scheduleDrainAtGate(services: Doors, destination: string): Promise<void> {
  await reach(services, destination, (gate) => gate.ring("waiting"));
}

/** A person wants it tried again (a pause lifted, another URL): hold and cool-down end, traffic begins with one. */
export async function resumeAtGate(services: Doors, destination: string, pause?: Pause): Promise<void> {
  await reach(services, destination, (gate) => gate.ring("resumed", pause));
}

/** A drain that looked at `lookedAt` (epoch ms) found nothing waiting. */
export async function reportEmptyDrain(
  services: Doors,
  destination: string,
  lookedAt: number,
): Promise<void> {
  await reach(services, destination, (gate) => gate.nothingWaits(lookedAt));
}

/** So many of its deliveries have ended dead without an attempt; whether its toll is to be asked for. */
export async function reportUnattemptedDead(
  services: Doors,
  destination: string,
  deliveries: number,
): Promise<boolean> {
  return (await reach(services, destination, (gate) => gate.died(deliveries))) ?? false;
}

/** The dead of whom nobody has been told; undefined when the gate cannot be reached. */
export function digestAtGate(services: Doors, destination: string): Promise<DeadLetterDigest | undefined> {
  return reach(services, destination, (gate) => gate.deadLetterDigest() as Promise<DeadLetterDigest>);
}

/** They have been told of; whether more have died meanwhile. */
export async function markDigestSent(
  services: Doors,
  destination: string,
  paid: DeadLetterDigest,
): Promise<boolean> {
  return (await reach(services, destination, (gate) => gate.markDigestSent(paid))) ?? false;
}

/** Why a waiting delivery of this destination waits at this moment; undefined when that cannot be told. */
export async function refusalAtGate(
  services: Doors,
  destination: string,
  settings: GateSettings,
): Promise<Refusal | undefined> {
  const refusal = await reach(
    services,
    destination,
    (gate) => gate.look(settings) as Promise<Refusal | null>,
  );
  return refusal ?? undefined;
}

/** What others have learned of the destination meanwhile; undefined when the gate cannot be reached. */
export function destinationStateAtGate(
  services: Doors,
  destination: string,
): Promise<DestinationState | undefined> {
  return reach(services, destination, (gate) => gate.destinationState() as Promise<DestinationState>);
}

/** The gate as it stands; undefined when it cannot be reached. */
export function viewGate(
  services: Doors,
  destination: string,
  settings: GateSettings,
): Promise<GateView | undefined> {
  return reach(services, destination, (gate) => gate.view(settings) as Promise<GateView>);
}

/** What the gate has counted; undefined when it cannot be reached. */
export function figuresAtGate(
  services: Doors,
  destination: string,
  look: FiguresQuery,
  settings: GateSettings,
): Promise<GateFigures | undefined> {
  return reach(services, destination, (gate) => gate.figures(look, settings) as Promise<GateFigures>);
}

async function reach<T>(
  services: Doors,
  destination: string,
  call: (gate: DurableObjectStub<DestinationGate>) => Promise<T>,
): Promise<T | undefined> {
  const { gates, log } = services;
  try {
    const gate = gates.get(gates.idFromName(destination));
    return await within(services, PATIENCE_MS, call(gate), "The gate does not answer");
  } catch (error) {
    log({ what: "gate_unreachable", destination, error: faultOf(error) });
    return undefined;
  }
}
