/**
 * Deliveries as the store returns them, and their parts that are stored in another form: `loadedRow` and `storedRow`
 * are the boundary. Stored words are not renamed, and columns are not added where one has room.
 */
import type { DeliveryKey } from "../core/bundle.ts";
import type { LinePlace } from "../core/order.ts";
import type { DeliveryReason } from "../core/reasons.ts";

/**
 * The state of a delivery with a row or a bit. One with neither is `queued`: only its event's plan knows it. `in_flight`:
 * sent, and not answered yet; only its sender knows how it ends, and the sweep recovers it after `nextAttemptAt`.
 */
export type DeliveryState = "waiting" | "in_flight" | "retrying" | "delivered" | "dead" | "cancelled";

/** The state as rows have it, and as lists filter by it: `in_flight` is the reason of a `retrying` one. */
export type StoredState = Exclude<DeliveryState, "in_flight">;

/** One exchange in a delivery's log. */
export type AttemptEntry = Readonly<{
  at: number;
  latencyMs: number;
  status?: number;
  error?: string;
  note?: string;
  excerpt?: string;
  /**
   * The whole exchange was passed to the archive (core/archive.ts). A success has no other record of it, because a pack
   * has no log.
   */
  archived?: true;
}>;

export type DeliveryRow = DeliveryKey &
  Readonly<{
    state: DeliveryState;
    /** Null in flight: the state says it. */
    reason: DeliveryReason | null;
    attempts: number;
    nextAttemptAt: number | null;
    generation: number;
    firstAttemptAt: number | null;
    giveUpAt: number;
    endedAt: number | null;
    lastStatus: number | null;
    lastError: string | null;
    replay: string | null;
    log: readonly AttemptEntry[];
    /** The owner of the message that will retry it; absent: the bundle's own message does (see DeliveryMessage). */
    owner?: string | undefined;
  }>;

/**
 * A row to be written. `hasOwnLimit`: its event has a time to live, so its age limit is not that of the others in the
 * pack, and it waits in a row of its own. `hasLostSender`: it is stored as in flight, and its sender is lost. Without a
 * row of its own it would stay so, because a late write of a bit must not end what a sender has begun since. `place`:
 * its place in its line. `hasRow`: it has a place and is stored already, usually in its own row. `isFollowed`: the
 * lease that it was sent under continues with its line, so no message is sent for the next one.
 */
export type DeliveryRecord = DeliveryRow &
  Readonly<{
    hasOwnLimit?: true;
    hasLostSender?: true;
    place?: LinePlace;
    hasRow?: true;
    isFollowed?: true;
  }>;

export function isOpen({ state }: DeliveryRow): boolean {
  return state === "waiting" || state === "in_flight" || state === "retrying";
}

/** A delivery as its row has it: the last entry of the log has the owner of the retry. */
export type StoredRow = Omit<DeliveryRow, "state" | "reason" | "log" | "owner"> &
  Readonly<{ state: StoredState; reason: StoredReason | null; log: readonly StoredEntry[] }>;

type StoredReason = DeliveryReason | typeof IN_FLIGHT;

type StoredEntry = AttemptEntry & Readonly<{ owner?: string }>;

const IN_FLIGHT = "in_flight";

/** The delivery of a row. An edit by hand may have made anything of the entries of its log: see `entriesIn`. */
export function loadedRow({ state, reason, log, ...columns }: StoredRow): DeliveryRow {
  return { ...columns, ...statusOf(state, reason), ...logOf(log) };
}

function statusOf(state: StoredState, reason: StoredReason | null): Pick<DeliveryRow, "state" | "reason"> {
  return state === "retrying" && reason === IN_FLIGHT
    ? { state: IN_FLIGHT, reason: null }
    : { state, reason: reason as DeliveryReason | null };
}

function logOf(log: readonly StoredEntry[]): Pick<DeliveryRow, "log" | "owner"> {
  const last = Array.isArray(log) ? log.at(-1) : undefined;
  if (typeof last?.owner !== "string") return { log };
  const { owner, ...entry } = last;
  return { log: [...log.slice(0, -1), entry], owner };
}

/** The entries of a log, without what an edit by hand has put there. */
export function entriesIn(log: readonly AttemptEntry[]): readonly AttemptEntry[] {
  return log.every(isEntry) ? log : log.filter(isEntry);
}

function isEntry(entry: AttemptEntry | null): boolean {
  const { at, excerpt = "" } = entry ?? {};
  return typeof at === "number" && typeof excerpt === "string";
}

export function storedRow({ log, owner, ...row }: DeliveryRow): StoredRow {
  const stored = { ...row, ...storedStatus(row), log };
  if (owner === undefined) return stored;
  return { ...stored, log: [...log.slice(0, -1), ...log.slice(-1).map((last) => ({ ...last, owner }))] };
}

/** State and reason of a delivery as its row has them, which is how lists filter by them and how the API shows them. */
export function storedStatus({
  state,
  reason,
}: Pick<DeliveryRow, "state" | "reason">): Pick<StoredRow, "state" | "reason"> {
  return state === IN_FLIGHT ? { state: "retrying", reason: IN_FLIGHT } : { state, reason };
}
