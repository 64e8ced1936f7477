/**
 * The gate's state in its object's storage: one key, read synchronously and written as one row, and the
 * hours that it has counted, a row of their own, which is written once an hour at most. A stored
 * value that is not a state of ours is replaced by a new one and reported: no delivery is lost by that,
 * because D1 knows what waits and the sweep rings for it.
 *
 * The state is stored as JSON. It is read and written at every call, and the storage's own structured clone
 * takes several times as long, for a state of many small parts, as to parse or to write its text.
 */
import { closedCircuit } from "../policy/circuit.ts";
import { type GateState, newGateState } from "../policy/gate-state.ts";

import { type Hours, isHourOver, newTallies, rolledUp, type Tallies } from "../policy/tallies.ts";
import { isTally } from "../policy/tally.ts";

const KEY = "gate";
const HOURS = "hours";

export function loadGate(storage: DurableObjectStorage, now: number, onCorrupt: () => void): GateState {
  const stored = storage.kv.get(KEY);
  if (stored === undefined) return newGateState(now);
  const state = gateStateOf(parsed(stored));
  if (state) return state;
  onCorrupt();
  return newGateState(now);
}

/** The hours counted so far; what is no tally of today is left out. */
export function loadHours(storage: DurableObjectStorage): Hours {
  const stored = storage.kv.get<unknown>(HOURS);
  return Array.isArray(stored) ? stored.filter(isTally) : [];
}

/**
 * Writes the state, and the alarm when the bell's time has changed: at most two rows. The first count of a
 * new hour writes one more, for the hour that is over.
 */
export async function saveGate(
  storage: DurableObjectStorage,
  before: GateState,
  after: GateState,
): Promise<void> {
  const rolled = isHourOver(after.tallies) ? rolledUp(after.tallies, loadHours(storage)) : undefined;
  storage.kv.put(KEY, JSON.stringify(rolled ? { ...after, tallies: rolled.tallies } : after));
  if (rolled) storage.kv.put(HOURS, rolled.hours);
  if (after.bell.at === before.bell.at) return;
  await (after.bell.at === null ? storage.deleteAlarm() : storage.setAlarm(after.bell.at));
}

/** Undefined when it is no JSON. */
function parsed(stored: unknown): unknown {
  try {
    return typeof stored === "string" ? JSON.parse(stored) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The stored value as a state of today: what later versions have added to it is filled in, so that a deploy
 * forgets no lease and no hold. Undefined when it is not a state of ours.
 */
function gateStateOf(value: unknown): GateState | undefined {
  const fresh = newGateState(0);
  if (!isLike(coreOf(fresh), value)) return undefined;
  const stored = value as GateState;
  const { circuit } = stored.condition;
  const filled = circuit.kind === "closed" ? { ...closedCircuit(0), ...circuit } : circuit;
  const state = {
    ...fresh,
    ...stored,
    condition: { ...fresh.condition, ...stored.condition, circuit: filled },
    bell: { ...fresh.bell, ...stored.bell },
    tallies: areTallies(stored.tallies) ? stored.tallies : newTallies(0),
  };
  const lease = { id: "", slots: 0, width: 0, deliveries: "", expiresAt: 0 };
  const readable = state.leases.every((held) => isLike(lease, held));
  return state.version === fresh.version && readable ? state : undefined;
}

/** What was counted in another shape is forgotten: figures, which no delivery depends on. */
function areTallies(value: Tallies | undefined): value is Tallies {
  return isTally(value?.ever) && Array.isArray(value.minutes) && value.minutes.every(isTally);
}

/** What every version of the state has had. */
function coreOf({ version, condition, tat, leases, turns, bell }: GateState) {
  const { circuit, window, heldUntil } = condition;
  const { kind, since } = circuit;
  const { waitingSince, at } = bell;
  return {
    version,
    condition: { circuit: { kind, since }, window, heldUntil },
    tat,
    leases,
    turns,
    bell: { waitingSince, at },
  };
}

function isLike(model: unknown, value: unknown): boolean {
  if (model === null) return value !== undefined;
  if (Array.isArray(model)) return Array.isArray(value);
  if (typeof model !== "object") return typeof value === typeof model;
  if (typeof value !== "object" || value === null) return false;
  const given = value as Readonly<Record<string, unknown>>;
  return Object.entries(model).every(([name, part]) => isLike(part, given[name]));
}
