/**
 * The gate's state in its object's storage: one key, read synchronously and written as one row. A stored
 * value that is not a state of ours is replaced by a new one and reported: no delivery is lost by that,
 * because D1 knows what waits and the sweep rings for it.
 */
import { type GateState, newGateState } from "../policy/gate-state.ts";

const KEY = "gate";

export function loadGate(storage: DurableObjectStorage, now: number, onCorrupt: () => void): GateState {
  const stored = storage.kv.get(KEY);
  if (stored === undefined) return newGateState(now);
  if (isGateState(stored)) return stored;
  onCorrupt();
  return newGateState(now);
}

/** Writes the state, and the alarm when the bell's time has changed: at most two rows. */
export async function saveGate(
  storage: DurableObjectStorage,
  before: GateState,
  after: GateState,
): Promise<void> {
  storage.kv.put(KEY, after);
  if (after.bell.at === before.bell.at) return;
  await (after.bell.at === null ? storage.deleteAlarm() : storage.setAlarm(after.bell.at));
}

function isGateState(value: unknown): value is GateState {
  const state = value as Partial<GateState> | null;
  return (
    typeof state === "object" &&
    state?.version === 1 &&
    typeof state.tat === "number" &&
    Array.isArray(state.leases) &&
    typeof state.condition?.heldUntil === "number" &&
    typeof state.condition.circuit?.kind === "string" &&
    typeof state.condition.window?.size === "number" &&
    typeof state.turns?.live?.servedAt === "number" &&
    typeof state.turns.backlog?.servedAt === "number" &&
    typeof state.bell?.waitingSince === "number"
  );
}
