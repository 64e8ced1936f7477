/**
 * A group's state in its object's storage, as JSON text in as many rows as it needs: a row takes 2 MB, and ten thousand
 * blocks are more. All are written in one turn, so together or not at all.
 */
import { type GroupState, newGroupState } from "../core/group/group-state.ts";
import { isLike, isListLike, parsedJson } from "../core/json-value.ts";

/** Characters of a row. The storage takes up to two bytes for each. */
const ROW_LENGTH = 900_000;

const keyOf = (row: number) => (row === 0 ? "group" : `group-${row}`);

/** Undefined when nothing usable is stored. */
export function loadGroup(storage: DurableObjectStorage, onCorrupt: () => void): GroupState | undefined {
  const first = storage.kv.get(keyOf(0));
  if (first === undefined) return undefined;
  const rows: unknown[] = [first];
  // Only the last row is shorter. Rows of a former, longer state may follow it.
  while (isFull(rows.at(-1))) rows.push(storage.kv.get(keyOf(rows.length)));
  const state = groupStateOf(parsedJson(rows.join("")));
  if (!state) onCorrupt();
  return state;
}

export function saveGroup(storage: DurableObjectStorage, state: GroupState): void {
  const text = JSON.stringify(state);
  for (let row = 0; row * ROW_LENGTH <= text.length; row++)
    storage.kv.put(keyOf(row), text.slice(row * ROW_LENGTH, (row + 1) * ROW_LENGTH));
}

function isFull(row: unknown): boolean {
  return typeof row === "string" && row.length === ROW_LENGTH;
}

const tenant = "";
const member = "";
const block = { id: "", member, tenant, slots: 0, everyMs: 0, tat: 0, expiresAt: 0 };
const settings = {
  ...{ maxConcurrency: 0, ratePerSecond: 0, rateBurst: 0 },
  breaker: { failureRatio: 0, minAttempts: 0, windowMs: 0, cooldownMs: 0, maxCooldownMs: 0 },
};

/** The stored value as a state of this version. Undefined when it is not a group's state. */
function groupStateOf(value: unknown): GroupState | undefined {
  const fresh = newGroupState(0);
  if (!isLike({ version: 0, circuit: {}, incarnation: 0 }, value)) return undefined;
  const state = { ...fresh, ...(value as GroupState) };
  const isReadable =
    isLike(fresh, state) &&
    isListLike(block, state.blocks) &&
    isListLike({ member, tenant, since: 0, askedAt: 0, calledAt: 0 }, state.ring) &&
    isListLike({ tenant, from: 0, attempts: 0, failures: 0 }, state.votes) &&
    isListLike({ tenant, until: 0, at: 0 }, state.throttled) &&
    isListLike({ tenant, at: 0 }, state.served) &&
    (state.settings === null || isLike(settings, state.settings));
  return state.version === fresh.version && isReadable ? state : undefined;
}
