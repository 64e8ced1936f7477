/** Which states of the gate's model have the same future. */
import type { GateState } from "../../src/core/gate-state.ts";
import type { Instance, Quiet, World } from "./gate-world.ts";

/**
 * What decides about a world's future. Left out: counters and history of the gate, which decide nothing here; the rate's
 * reservations, because no rate limits anything here; and the names of leases, which stand for themselves.
 */
export function keyOf(world: World): string {
  const { current, former, storage, runs, messages, orphans, deliveries, now, quiet, ...rest } = world;
  const { faults, failures, delays, holds, pauses, clears, isCalm, alarmAt, drains, wrong } = rest;
  const { paused, isResuming, tells, heldUntil } = rest;
  const parts = [
    [now, faults, failures, delays, holds, pauses, clears, isCalm, alarmAt, drains, wrong].join(),
    [paused, isResuming, tells, heldUntil > now ? heldUntil : 0].join(),
    quiet && keyOfQuiet(quiet, now),
    storage && keyOfGate(storage),
    current && keyOfInstance(current),
    former && keyOfInstance(former),
    deliveries.map(keyOfPart).join(),
    runs.map(keyOfPart).sort().join(),
    messages.map(keyOfPart).sort().join(),
    orphans
      .filter((until) => until > now)
      .sort()
      .join(),
  ];
  return withShortNames(parts.join("|"));
}

function keyOfQuiet({ hasLost, hasForgotten, hasDense, died, successes }: Quiet, now: number): string {
  return [
    hasLost,
    hasForgotten,
    hasDense,
    died,
    "of",
    successes.map((until) => Math.max(until, now)).sort(),
  ].join();
}

/** Leases by the order in which they are named. */
export function withShortNames(key: string): string {
  const names = new Map<string, string>();
  return key.replaceAll(/"(?:lost-\d+|[0-9a-z]+-[0-9a-z]+-\d+)"/g, (name) => {
    const short = names.get(name) ?? `"${names.size}"`;
    names.set(name, short);
    return short;
  });
}

/** States share most of their parts. */
export function remembered<Part extends object>(keyOfPart: (part: Part) => string): (part: Part) => string {
  const keys = new WeakMap<Part, string>();
  return (part) => {
    const key = keys.get(part) ?? keyOfPart(part);
    keys.set(part, key);
    return key;
  };
}

const keyOfPart = remembered((part: object) => JSON.stringify(part));

const keyOfInstance = remembered(({ memory, knows, heldUntil, cutOffAt }: Instance) => {
  const { state, written, ...rest } = memory;
  const known = written && { ...written, leases: [...written.leases].sort() };
  return keyOfGate(state) + JSON.stringify([known, rest, knows, heldUntil, cutOffAt]);
});

const keyOfGate = remembered((state: GateState) => {
  const { destinationState, leases, settled, forgottenAt, slack, crashLoop, turns, drainSchedule } = state;
  const held = leases.map(({ tat: _, ...lease }) => lease);
  return JSON.stringify([
    destinationState,
    held,
    state.presumed,
    settled,
    forgottenAt,
    slack,
    crashLoop,
    turns,
    drainSchedule,
  ]);
});
