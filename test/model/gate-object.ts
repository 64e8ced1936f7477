/** The gate's object in its model: the production's decisions, with instances, storage and the alarm around them. */
import { type AdmitRequest, admit } from "../../src/core/admit.ts";
import type { AttemptSignal } from "../../src/core/destination-state.ts";
import type { GateState } from "../../src/core/gate-state.ts";
import { arrivedGrant, CONNECTIONS, type Lane, settledSince, startsUntil } from "../../src/core/lease.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { afterHold, afterHoldCleared, afterResume, scheduleDrain, settle } from "../../src/core/settle.ts";
import {
  afterAlarm,
  afterDecision,
  restored,
  type GateStep as Written,
} from "../../src/core/write-behind.ts";
import { trusted } from "../support/gate-arbitraries.ts";
import { BEGINNING, type Instance, type ObjectWorld, STARTS_MS, type Which } from "./gate-world.ts";

/** The production functions that the model is made of; a broken variant replaces one of them. */
export const production = {
  admit,
  settle,
  afterHold,
  afterHoldCleared,
  afterResume,
  scheduleDrain,
  afterDecision,
  afterAlarm,
  restored,
  startsUntil,
  arrivedGrant,
  settledSince,
};

export type Parts = typeof production;

export function requestOf(
  lane: Lane,
  deliveries: readonly number[],
  startWithinMs = STARTS_MS,
): AdmitRequest {
  return { lane, deliveries, connections: CONNECTIONS, startWithinMs };
}

export function signalOf(at: number, isHealthy: boolean): AttemptSignal {
  return { at, health: isHealthy ? "healthy" : "unhealthy", backsOff: !isHealthy };
}

/** Busy: two deliveries have come and gone, so the gate grants leases out of its slack. Its alarm has stored them. */
export function busyObject(settings: GateSettings): ObjectWorld {
  const parts = production;
  const now = BEGINNING;
  const memory = parts.restored(trusted(settings.maxConcurrency, now), now);
  const current = { name: "1", memory, knows: [], heldUntil: 0 };
  const quiet = {
    storage: memory.state,
    alarmAt: null,
    former: undefined,
    lives: 1,
    drains: 0,
    heldUntil: 0,
  };
  let world: ObjectWorld = { now, current, ...quiet };
  for (const delivery of [1_000, 1_001]) {
    const admitted = called(parts, world, "current", (before) =>
      parts.admit(before, requestOf("fresh", [delivery]), settings, now),
    );
    const lease = admitted?.decision.result.grant?.id ?? "";
    const done = { lease, signals: [signalOf(now, true)], left: 0 };
    world = changed(
      parts,
      admitted?.world ?? world,
      (before) => parts.settle(before, done, settings, now, 0).state,
    );
  }
  return afterItsAlarm(parts, world);
}

/** Returns nothing if a former instance would have to write, which it cannot: its callers get no answer. */
export function called<W extends ObjectWorld, D extends Readonly<{ state: GateState }>>(
  parts: Parts,
  world: W,
  which: Which,
  decide: (state: GateState) => D,
): Readonly<{ decision: D; world: W }> | undefined {
  const instance = which === "former" ? world.former : instanceIn(parts, world);
  if (!instance) return undefined;
  const decision = decide(instance.memory.state);
  const step = parts.afterDecision(instance.memory, decision.state, world.now);
  if (which === "current") return { decision, world: saved({ ...world, current: instance }, step) };
  if (step.writes || step.alarm !== undefined) return undefined;
  return { decision, world: { ...world, former: { ...instance, memory: step.memory } } };
}

/** A change that has no answer, by the instance that may write. */
export function changed<W extends ObjectWorld>(
  parts: Parts,
  world: W,
  change: (state: GateState) => GateState,
): W {
  return called(parts, world, "current", (state) => ({ state: change(state) }))?.world ?? world;
}

export function afterItsAlarm<W extends ObjectWorld>(parts: Parts, world: W): W {
  const instance = instanceIn(parts, world);
  const step = parts.afterAlarm(instance.memory, world.now);
  const stored = saved({ ...world, alarmAt: null, current: instance }, step);
  return { ...stored, drains: stored.drains + step.drains };
}

function saved<W extends ObjectWorld>(world: W, { memory, writes, alarm }: Written): W {
  const { current } = world;
  return {
    ...world,
    current: current && { ...current, memory },
    storage: writes ? memory.state : world.storage,
    alarmAt: alarm === undefined ? world.alarmAt : alarm,
  };
}

/** The instance that may write; where there is none in memory, a new one begins with what is stored. */
function instanceIn(parts: Parts, { current, storage, now, lives }: ObjectWorld): Instance {
  if (current) return current;
  const memory = parts.restored(storage, now);
  const knows = (storage?.leases ?? []).map(({ id }) => id);
  return { name: String(lives), memory, knows, heldUntil: 0 };
}

export function evicted<W extends ObjectWorld>(world: W): W {
  return { ...world, current: undefined, lives: world.lives + 1 };
}

/** Another instance starts, and this one still answers calls for which it need not write. */
export function cutOff<W extends ObjectWorld>(world: W): W {
  const { current, heldUntil, now } = world;
  return { ...evicted(world), former: current && { ...current, heldUntil, cutOffAt: now } };
}

export function withKnown<W extends ObjectWorld>(world: W, which: Which, lease: string): W {
  const instance = world[which];
  return instance ? { ...world, [which]: { ...instance, knows: [...instance.knows, lease] } } : world;
}
