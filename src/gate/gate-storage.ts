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

/** Whether a value has all that a new state has, each of its type, and leases that can be read. */
function isGateState(value: unknown): value is GateState {
  const fresh = newGateState(0);
  const { kind, since } = fresh.condition.circuit;
  const model = { ...fresh, condition: { ...fresh.condition, circuit: { kind, since } } };
  if (!isLike(model, value)) return false;
  const { version, leases } = value as GateState;
  const lease = { id: "", slots: 0, width: 0, deliveries: [], expiresAt: 0 };
  return version === fresh.version && leases.every((stored) => isLike(lease, stored));
}

function isLike(model: unknown, value: unknown): boolean {
  if (model === null) return value !== undefined;
  if (Array.isArray(model)) return Array.isArray(value);
  if (typeof model !== "object") return typeof value === typeof model;
  if (typeof value !== "object" || value === null) return false;
  const given = value as Readonly<Record<string, unknown>>;
  return Object.entries(model).every(([name, part]) => isLike(part, given[name]));
}
