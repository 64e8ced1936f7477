/** The gate's object in its model: the production's decisions, with instances, storage and the alarm around them. */
import { admit, settledSince } from "../../src/core/admit.ts";
import type { GateState } from "../../src/core/gate-state.ts";
import { arrivedGrant, startsUntil } from "../../src/core/lease.ts";
import { afterHold, afterHoldCleared, afterResume, scheduleDrain, settle } from "../../src/core/settle.ts";
import { afterAlarm, afterDecision, restored, type Step as Written } from "../../src/core/write-behind.ts";
import type { Instance, Which, World } from "./gate-world.ts";

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

/** Nothing where a former instance would have to write, which it cannot: nobody gets an answer. */
export function called<D extends Readonly<{ state: GateState }>>(
  parts: Parts,
  world: World,
  which: Which,
  decide: (state: GateState) => D,
): Readonly<{ decision: D; world: World }> | undefined {
  const instance = which === "former" ? world.former : instanceIn(parts, world);
  if (!instance) return undefined;
  const decision = decide(instance.memory.state);
  const step = parts.afterDecision(instance.memory, decision.state, world.now);
  if (which === "current") return { decision, world: saved({ ...world, current: instance }, step) };
  if (step.writes || step.alarm !== undefined) return undefined;
  return { decision, world: { ...world, former: { ...instance, memory: step.memory } } };
}

/** A change that has no answer, by the instance that may write. */
export function changed(parts: Parts, world: World, change: (state: GateState) => GateState): World {
  return called(parts, world, "current", (state) => ({ state: change(state) }))?.world ?? world;
}

export function afterItsAlarm(parts: Parts, world: World): World {
  const instance = instanceIn(parts, world);
  const step = parts.afterAlarm(instance.memory, world.now);
  const stored = saved({ ...world, alarmAt: null, current: instance }, step);
  return { ...stored, drains: stored.drains + step.drains };
}

function saved(world: World, { memory, writes, alarm }: Written): World {
  const { current } = world;
  return {
    ...world,
    current: current && { ...current, memory },
    storage: writes ? memory.state : world.storage,
    alarmAt: alarm === undefined ? world.alarmAt : alarm,
  };
}

/** The instance that may write; where there is none in memory, a new one begins with what is stored. */
function instanceIn(parts: Parts, { current, storage, now, lives }: World): Instance {
  if (current) return current;
  const memory = parts.restored(storage, now);
  const knows = (storage?.leases ?? []).map(({ id }) => id);
  return { name: String(lives), memory, knows, heldUntil: 0 };
}

export function evicted(world: World): World {
  return { ...world, current: undefined, lives: world.lives + 1 };
}

/** Another instance is to begin, and this one still answers, as far as it need not write. */
export function cutOff(world: World): World {
  const { current, heldUntil } = world;
  return { ...evicted(world), former: current && { ...current, heldUntil } };
}

export function withKnown(world: World, which: Which, lease: string): World {
  const instance = world[which];
  return instance ? { ...world, [which]: { ...instance, knows: [...instance.knows, lease] } } : world;
}
