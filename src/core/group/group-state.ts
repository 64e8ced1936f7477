/**
 * The state of a group: destinations of any tenants that share a receiver. Its object hands out blocks of the shared
 * capacity to members' gates, which grant leases from them. Members' gates and the group's object never call each
 * other: Workers carry blocks and reports between them.
 *
 * A block is to a group as a lease is to a gate. It counts until the last lease that may be granted from it has
 * expired, so the capacity holds through any crash. Times are epoch ms by the group's clock; members convert them to
 * their own.
 */
import { closedCircuit, type opened } from "../circuit-breaker.ts";
import { newWindow, type Window, widthOf } from "../concurrency-window.ts";
import type { BreakerSettings } from "../limits.ts";
import type { Rate } from "../rate-limit.ts";

/** The state that all members share. */
export type GroupSettings = Readonly<{
  maxConcurrency: number;
  ratePerSecond: number;
  rateBurst: number;
  breaker: BreakerSettings;
}>;

/** How long leases are granted from a block: then the member requests again, and gets the group's latest state. */
export const BLOCK_MS = 1_000;
/**
 * How much longer a block counts than its member may use it, because the member does not know exactly when it was
 * given.
 */
export const GROUP_SKEW_MS = 1_000;

/** A block as the group counts it. */
export type GroupBlock = Readonly<{
  id: string;
  member: string;
  tenant: string;
  slots: number;
  /** The one attempt that a half-open circuit admits. */
  probe?: true;
  /** Given from the share reserved for tenants that hold no block. */
  fresh?: true;
  everyMs: number;
  /** The rate's theoretical arrival time after its sends. */
  tat: number;
  expiresAt: number;
}>;

/** A refused member, since when it waits, and its last request. Members are called in the order of refusal. */
export type Waiter = Readonly<{
  member: string;
  tenant: string;
  since: number;
  askedAt: number;
  calledAt: number;
}>;

/** A tenant that got a block while others waited. */
type ServedTenant = Readonly<{ tenant: string; at: number }>;

/** A tenant's attempts in the window of the circuit. Each tenant has one vote, regardless of its traffic. */
export type TenantVote = Readonly<{ tenant: string; from: number; attempts: number; failures: number }>;

/** A tenant that got a 429: until when it has to wait, and when it last got one. */
export type ThrottledTenant = Readonly<{ tenant: string; until: number; at: number }>;

/** `failed`: the tenant whose probe has failed, which proves nothing about the others' until another's fails too. */
type GroupCircuit =
  | Readonly<{ kind: "closed"; since: number; trips: number }>
  | ReturnType<typeof opened>
  | Readonly<{
      kind: "half_open";
      since: number;
      trips: number;
      failed?: Readonly<{ tenant: string; until: number }>;
    }>;

/** Finite numbers, strings and booleans only, because it is stored as JSON. */
export type GroupState = Readonly<{
  version: 1;
  circuit: GroupCircuit;
  /** Failures in a row to connect at all. */
  unreached: number;
  votes: readonly TenantVote[];
  throttled: readonly ThrottledTenant[];
  window: Window;
  /** When the window was last halved. */
  narrowedAt: number;
  heldUntil: number;
  tat: number;
  blocks: readonly GroupBlock[];
  ring: readonly Waiter[];
  served: readonly ServedTenant[];
  given: number;
  incarnation: number;
  /** As last seen, for the alarm. */
  settings: GroupSettings | null;
}>;

/** The state of an unknown host: the members' own windows start from one. */
const WIDE: Window = { ...newWindow, size: 1_000_000 };

export function newGroupState(now: number): GroupState {
  const { kind, since, trips } = closedCircuit(now);
  return {
    version: 1,
    circuit: { kind: kind as "closed", since, trips },
    unreached: 0,
    votes: [],
    throttled: [],
    window: WIDE,
    narrowedAt: 0,
    heldUntil: 0,
    tat: 0,
    blocks: [],
    ring: [],
    served: [],
    given: 0,
    incarnation: 0,
    settings: null,
  };
}

/** The state at `now`: expired blocks are gone, and a cool-down that has ended makes the circuit half-open. */
export function groupStateAt(state: GroupState, now: number): GroupState {
  const { circuit, blocks } = state;
  const live = blocks.filter(({ expiresAt }) => expiresAt > now);
  const isOver = circuit.kind === "open" && now >= circuit.until;
  if (live.length === blocks.length && !isOver) return state;
  // All sends of an expired block count, because it was not reported how many were made.
  const tat = blocks.reduce(
    (latest, one) => (live.includes(one) ? latest : Math.max(latest, one.tat)),
    state.tat,
  );
  const after: GroupCircuit = isOver ? { kind: "half_open", since: now, trips: circuit.trips } : circuit;
  return { ...state, circuit: after, blocks: live, tat };
}

/** How many attempts may be in flight at once. */
export function groupWidth({ window, circuit }: GroupState, { maxConcurrency }: GroupSettings): number {
  return circuit.kind === "half_open" ? 1 : widthOf(window, maxConcurrency);
}

export function groupRate({ ratePerSecond, rateBurst }: GroupSettings): Rate {
  return { perSecond: ratePerSecond, burst: rateBurst };
}

export function groupTat({ blocks, tat }: GroupState): number {
  return blocks.reduce((latest, block) => Math.max(latest, block.tat), tat);
}

export function slotsOut(blocks: readonly Pick<GroupBlock, "slots">[]): number {
  return blocks.reduce((sum, { slots }) => sum + slots, 0);
}

/** Whether a crash that loses the change would grant capacity twice, or forget what blocks the group. */
export function groupMustBeStored(before: GroupState, after: GroupState): boolean {
  return (
    after.given !== before.given ||
    after.circuit !== before.circuit ||
    after.heldUntil !== before.heldUntil ||
    after.narrowedAt !== before.narrowedAt
  );
}

/** The block of all members, and its end; undefined when blocks are given, if only for a probe. */
export function groupBlockedBy(
  { circuit, heldUntil }: GroupState,
  now: number,
): Readonly<{ reason: "hold" | "circuit_open"; until: number }> | undefined {
  const openUntil = circuit.kind === "open" ? circuit.until : 0;
  if (Math.max(openUntil, heldUntil) <= now) return undefined;
  return openUntil > heldUntil
    ? { reason: "circuit_open", until: openUntil }
    : { reason: "hold", until: heldUntil };
}

/** Hold and open circuit at a time, for the holders of leases. Plain values, by the group's clock. */
export type GroupStanding = Readonly<{ at: number; heldUntil: number; openUntil: number; trips: number }>;

export function standingOf(state: GroupState, now: number): GroupStanding {
  const { circuit, heldUntil } = groupStateAt(state, now);
  const openUntil = circuit.kind === "open" ? circuit.until : 0;
  return { at: now, heldUntil, openUntil, trips: circuit.trips };
}

/** For people. */
export type GroupView = Readonly<{
  circuit: GroupCircuit["kind"];
  circuitUntil: number | null;
  trips: number;
  heldUntil: number | null;
  /** Attempts allowed at once. */
  window: number;
  inFlight: number;
  blocks: number;
  waiting: number;
  tenants: number;
}>;

export function groupViewOf(before: GroupState, settings: GroupSettings, now: number): GroupView {
  const state = groupStateAt(before, now);
  const { circuit, heldUntil, blocks, ring } = state;
  return {
    circuit: circuit.kind,
    circuitUntil: circuit.kind === "open" ? circuit.until : null,
    trips: circuit.trips,
    heldUntil: heldUntil > now ? heldUntil : null,
    window: groupWidth(state, settings),
    inFlight: slotsOut(blocks),
    blocks: blocks.length,
    waiting: ring.length,
    tenants: new Set([...blocks, ...ring].map(({ tenant }) => tenant)).size,
  };
}

/** An operator has the receiver tried again: hold and circuit end, and traffic restarts from one. */
export function afterGroupReset(before: GroupState, now: number): GroupState {
  const fresh = newGroupState(now);
  const { circuit, unreached, votes, throttled, heldUntil } = fresh;
  return { ...before, circuit, unreached, votes, throttled, heldUntil, window: { ...WIDE, size: 1 } };
}
