/**
 * The gate's state in its object's storage: one key, read synchronously and written as one row; and the hours that it
 * has counted, a row of their own, written once an hour at most. A stored value that is not a gate's state is replaced
 * by a new state and reported. That loses no delivery, because D1 knows the waiting ones and the sweep schedules the
 * drains.
 *
 * Stored as JSON text, because the storage's structured clone takes several times as long for a state of many small
 * parts. Most of it is past minutes, each of which is serialized once.
 */

import { closedCircuit } from "../core/circuit-breaker.ts";
import { type GateState, newGateState } from "../core/gate-state.ts";
import { isJsonObject, isLike, isListLike, parsedJson } from "../core/json-value.ts";
import { type Counters, isCounters } from "../core/metrics.ts";
import { type Hours, isHourOver, newRollups, type Rollups, rolledUp } from "../core/rollups.ts";

const KEY = "gate";
const HOURS = "hours";

/** Undefined when nothing usable is stored. */
export function loadGate(storage: DurableObjectStorage, onCorrupt: () => void): GateState | undefined {
  const stored = storage.kv.get(KEY);
  if (stored === undefined) return undefined;
  const state = gateStateOf(typeof stored === "string" ? parsedJson(stored) : undefined);
  if (!state) onCorrupt();
  return state;
}

/** The hours counted so far, without those whose counters have another shape. */
export function loadHours(storage: DurableObjectStorage): Hours {
  const stored = storage.kv.get<unknown>(HOURS);
  return Array.isArray(stored) ? stored.filter(isCounters) : [];
}

/**
 * Writes the state: one row, and one more when the first count of a new hour ends the last one. Returns the state as
 * stored: minutes of hours that are over are marked as rolled up.
 */
export function saveGate(storage: DurableObjectStorage, state: GateState): GateState {
  const rolled = isHourOver(state.rollups) ? rolledUp(state.rollups, loadHours(storage)) : undefined;
  const saved = rolled ? { ...state, rollups: rolled.rollups } : state;
  storage.kv.put(KEY, textOf(saved));
  if (rolled) storage.kv.put(HOURS, rolled.hours);
  return saved;
}

/** The texts of past minutes, which stay the same objects from write to write. */
const minuteTexts = new WeakMap<Counters, string>();

function textOf({ rollups: { minutes, ...counted }, ...state }: GateState): string {
  const newest = minutes.at(-1);
  const list = minutes.map((minute) => {
    const text = minuteTexts.get(minute) ?? JSON.stringify(minute);
    if (minute !== newest) minuteTexts.set(minute, text);
    return text;
  });
  const [whole, rollups] = [JSON.stringify(state), JSON.stringify(counted)];
  return `${whole.slice(0, -1)},"rollups":${rollups.slice(0, -1)},"minutes":[${list.join()}]}}`;
}

/**
 * The stored value as a state of this version: fields added since are filled in, so that a deploy forgets no lease and
 * no hold. Undefined when it is not a gate's state.
 */
function gateStateOf(value: unknown): GateState | undefined {
  const fresh = newGateState(0);
  if (!isLike(coreOf(fresh), value)) return undefined;
  const stored = value as GateState;
  const { circuit } = stored.destinationState;
  const filled = circuit.kind === "closed" ? { ...closedCircuit(0), ...circuit } : circuit;
  const state = {
    ...fresh,
    ...stored,
    destinationState: { ...fresh.destinationState, ...stored.destinationState, circuit: filled },
    drainSchedule: { ...fresh.drainSchedule, ...stored.drainSchedule },
    rollups: areRollups(stored.rollups) ? stored.rollups : newRollups(0),
  };
  const isReadable =
    isLike(outlineOf(fresh), state) &&
    isListLike({ id: "", slots: 0, width: 0, deliveries: "", expiresAt: 0 }, state.leases) &&
    isListLike({ deliveries: "", expiresAt: 0 }, state.presumed) &&
    isListLike({ 0: 0, 1: "" }, state.settled) &&
    isListLike({ at: 0, what: "" }, state.history) &&
    (state.slack === null || isLike(slack, state.slack));
  return state.version === fresh.version && isReadable ? state : undefined;
}

/** The parts of the state, as lists and objects of anything: fields that were added to one since may be missing. */
function outlineOf(state: GateState) {
  return Object.fromEntries(
    Object.entries(state).map(([name, part]) => [name, isJsonObject(part) ? {} : part]),
  );
}

const slack = { slots: 0, width: 0, grantsUntil: 0, expiresAt: 0, aheadMs: 0 };

/** Counters of another shape are dropped: they are figures, which no delivery depends on. */
function areRollups(value: Rollups | undefined): value is Rollups {
  return isCounters(value?.ever) && Array.isArray(value.minutes) && value.minutes.every(isCounters);
}

/** The fields that every version of the state has had. */
function coreOf({ version, destinationState, tat, leases, turns, drainSchedule }: GateState) {
  const { circuit, window, heldUntil } = destinationState;
  const { kind, since } = circuit;
  const { waitingSince, at } = drainSchedule;
  return {
    version,
    destinationState: { circuit: { kind, since }, window, heldUntil },
    tat,
    leases,
    turns,
    drainSchedule: { waitingSince, at },
  };
}
