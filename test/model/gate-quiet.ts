/** A gate's promises for lone deliveries, far apart: lone leases (src/core/lone-lease.ts) in the gate's model. */
import type { AdmitResult } from "../../src/core/admit.ts";
import type { Lease } from "../../src/core/lease.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { unpackNumbers } from "../../src/core/number-sets.ts";
import { trusted } from "../support/gate-arbitraries.ts";
import { namesOf } from "./gate-text.ts";
import { BEGINNING, type ObjectWorld, type Quiet, type Run, type World } from "./gate-world.ts";

/** The slack of sparse traffic lasts so long, and leaves the next incarnation a slot. */
const SPARSE_MS = 30_000;

/** The object has not been called for long, and the destination is trusted with `window` attempts at once. */
export function quietObject(settings: GateSettings, window: number): ObjectWorld {
  const state = trusted(settings.maxConcurrency, BEGINNING);
  const destinationState = { ...state.destinationState, window: { size: window, threshold: 1_000_000 } };
  const idle = { alarmAt: null, current: undefined, former: undefined, lives: 1, drains: 0, heldUntil: 0 };
  return { now: BEGINNING, storage: { ...state, destinationState }, ...idle };
}

/** Only in a quiet world. */
function noted(world: World, change: (quiet: Quiet) => Partial<Quiet>): World {
  return world.quiet ? { ...world, quiet: { ...world.quiet, ...change(world.quiet) } } : world;
}

/** A lease will not be settled. */
export function withLostLease(world: World): World {
  return noted(world, () => ({ hasLost: true }));
}

/**
 * State that is only in the object's memory is lost with it: so is the death of an invocation whose lease was not
 * stored.
 */
export function withMemoryLost(world: World): World {
  const { current, storage } = world;
  if (!world.quiet || !current) return world;
  const { state, isBehind, written } = current.memory;
  const isStored = ({ id }: Lease) => storage?.leases.some((one) => one.id === id);
  const unknown = state.leases.filter((lease) => !isStored(lease));
  const forgotten = unknown.flatMap(({ deliveries }) => unpackNumbers(deliveries));
  const isDense = written?.slack ? written.slack.grantsUntil < written.at + SPARSE_MS : false;
  return noted(world, ({ hasForgotten, hasDense, died }) => ({
    hasForgotten: hasForgotten || isBehind || unknown.length > 0,
    hasDense: hasDense || isDense,
    died: died.filter((one) => !forgotten.includes(one)),
  }));
}

/** The gate can only notice it under a lease that it knows. */
export function withDead(world: World, chain: readonly Run[]): World {
  const leases = (world.current?.memory.state ?? world.storage)?.leases ?? [];
  const known = chain.filter(({ grant }) => leases.some(({ id }) => id === grant?.grant.id));
  const held = known.flatMap(({ items }) => items.map(({ delivery }) => delivery));
  return withLostLease(noted(world, ({ died }) => ({ died: [...new Set([...died, ...held])].sort() })));
}

export function withSuccess(world: World, until: number): World {
  return noted(world, ({ successes }) => ({ successes: [...successes, until] }));
}

/** The fault of an answer of the instance that may write. */
export function wrongAnswer(world: World, { grant, refused }: AdmitResult): string | undefined {
  const state = world.current?.memory.state;
  if (!world.quiet || !state) return undefined;
  const { hasLost, hasForgotten, hasDense, died, successes, window } = world.quiet;
  const again = (grant?.deliveries ?? []).filter((one) => died.includes(one));
  const { level } = state.crashLoop;
  if (again.length > 0 && level === 0)
    return `The gate grants ${namesOf(again)} again, and does not know that its invocation has died.`;
  if (hasLost) return undefined;
  if (level > 0) return "The gate takes a success for a crash.";
  // After an eviction in dense traffic, the slack is taken.
  const isTaken = hasDense && state.leases.some(({ lost }) => lost);
  const isFree = !isTaken && world.runs.every((run) => (run.grant?.expiresAt ?? 0) <= world.now);
  if (refused?.reason === "concurrency" && isFree)
    return `${namesOf(refused.deliveries)} must wait, although nothing is in flight.`;
  const over = successes.filter((until) => until <= world.now).length;
  const { size } = state.destinationState.window;
  if (!hasForgotten && size < Math.min(state.maxConcurrency, window + over))
    return "The gate has forgotten a success.";
  return size > window + successes.length ? "The gate has counted a success twice." : undefined;
}

/** An instance that was cut off ignores holds and openings, but not for longer than its slack lasts. */
export function wrongFormer({ former, now }: World): string | undefined {
  const isOver = former?.cutOffAt !== undefined && now >= former.cutOffAt + SPARSE_MS;
  return isOver ? "An instance grants from its slack thirty seconds after it was cut off." : undefined;
}

/** The fault of the settlement of this lease by the instance that may write. */
export function wrongSettlement(before: World, after: World, lease: string): string | undefined {
  if (!before.quiet || !before.current) return undefined;
  const { now, current } = before;
  const { state, written, isBehind } = current.memory;
  const { leases, destinationState, crashLoop, drainSchedule } = state;
  const [only, ...others] = leases;
  if (crashLoop.level > 0 || drainSchedule.waitingSince > 0) return undefined;
  const slackMs = written?.slack ? written.slack.grantsUntil - written.at : 0;
  const isSparse = slackMs >= SPARSE_MS && now < (written?.at ?? 0) + SPARSE_MS;
  const isAlone = only?.id === lease && only.lone && others.length === 0;
  const isLone = isAlone && slackMs === 0 && !isBehind && destinationState.window.size > 1;
  if (!isLone && !isSparse) return undefined;
  const kind = isLone ? "lone success" : "success in sparse traffic";
  if (after.alarmAt !== before.alarmAt) return `A ${kind} sets the alarm.`;
  return after.storage === before.storage ? undefined : `A ${kind} is written.`;
}
