/**
 * A step of the sweep, which runs its parts in turn. Each has a share of the 1,000 D1 queries that an invocation is
 * allowed, and one that fails does not keep the others from running. The progress of a part is saved with the sweep's
 * row; the heartbeat there is the oldest success among the parts.
 */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { SweepPart } from "../store/schema.ts";
import { type SweepLease, type SweepParts, type SweepWork, saveSweep, sweepWork } from "../store/sweep.ts";
import type { MayContinue, Step, Turn } from "./runner.ts";

const EVERYTHING: SweepWork = { scheduled: true, lost: true, overdue: true, expired: true, lined: true };
/** Longer than a step and the message to the next one, shorter than the minute between two cron invocations. */
export const LEASE_MS = 50_000;

/** A part's input for one step. */
export type PartTurn = Readonly<{
  /** When the step started, epoch ms. */
  now: number;
  /** A delivery that was due before this and has no outcome counts as lost, epoch ms. */
  horizon: number;
  page: number;
  /** The cursor that the part returned last. */
  cursor: SweepPart["cursor"];
  /** Whether there is such work in the database. Costs a query the first time that any part of the step asks. */
  hasWork: (db: D1Database, part: keyof SweepWork) => Promise<boolean>;
  /** Whether queries and time are left for more work than the least that a part does. */
  mayContinue: MayContinue;
  hasTime: MayContinue;
}>;

export type PartResult = Readonly<{
  /** For the log. */
  counts: Readonly<Record<string, number>>;
  cursor: SweepPart["cursor"];
  /** Whether a further page is to continue with it. */
  more: boolean;
  /** Destinations with newly waiting deliveries, whose gates have to schedule a drain. */
  undrained?: ReadonlySet<string>;
  /** The error that kept it from some of its work. */
  failure?: unknown;
}>;

export type Part = Readonly<{
  /** The number of queries in a step after which the part starts nothing more; the work begun may take a handful more. */
  queries: number;
  run: (services: Services, turn: PartTurn) => Promise<PartResult>;
}>;

/** All parts of the sweep by their names, in the order in which they run. */
export type Parts = Readonly<Record<string, Part>>;

/** A sweep: its lease, the parts to run in this step, and the progress of all of them. */
export type Sweep = Readonly<{ lease: SweepLease; names: readonly string[]; saved: SweepParts }>;

type Plan = Readonly<{
  parts: Parts;
  horizon: number;
  /** Scheduled bundles that are due within this time are to be enqueued, ms. */
  aheadMs: number;
}>;

type Parting = Step<Sweep> & Readonly<{ undrained: ReadonlySet<string>; failures: readonly unknown[] }>;

export async function runParts(turn: Turn, begun: Sweep, plan: Plan): Promise<Parting> {
  const { services, startedAt } = turn;
  const undrained = new Set<string>();
  const failures: unknown[] = [];
  const left: string[] = [];
  let counts: PartResult["counts"] = {};
  let sweep: Sweep = { ...begun, saved: withNewParts(plan.parts, begun.saved, startedAt) };
  const hasWork = workFinder(turn, plan);
  for (const [name, part] of Object.entries(plan.parts)) {
    const before = sweep.saved[name];
    if (!before || !sweep.names.includes(name)) continue;
    const from = turn.queries();
    const result = await resultOf(part, services, {
      ...{ now: startedAt, horizon: plan.horizon, page: turn.page, cursor: before.cursor },
      ...{ hasWork, hasTime: turn.hasTime },
      mayContinue: () => turn.queries() - from < part.queries && turn.hasTime(),
    });
    const after = partAfter(before, result, startedAt);
    sweep = { ...sweep, saved: { ...sweep.saved, [name]: after } };
    counts = { ...counts, ...result.counts };
    for (const id of result.undrained ?? []) undrained.add(id);
    if (result.failure !== undefined) {
      failures.push(result.failure);
      const error = faultOf(result.failure);
      services.log({ what: "sweep_part_failed", part: name, failures: after.failures, error });
    }
    if (!result.more) continue;
    left.push(name);
    // Saved at once: if this invocation dies, the next sweep continues from here.
    await saveProgress(services, sweep, startedAt + LEASE_MS);
  }
  const logged = { ...counts, ...(left.length > 0 && { left: left.join(" ") }) };
  return { more: left.length > 0, state: sweep, counts: logged, undrained, failures };
}

/**
 * Saves how far the parts have got; false when the lease has gone to another sweep.
 * @param leasedUntil epoch ms; 0 ends the lease
 */
export function saveProgress({ db }: Services, { lease, saved }: Sweep, leasedUntil: number) {
  const heartbeatAt = Math.min(...Object.values(saved).map(({ at }) => at));
  return saveSweep(db, lease, { parts: saved, heartbeatAt, leasedUntil });
}

/**
 * Queries each database once, for all parts. If that fails, each part makes its own queries, so that none fails because
 * of another.
 */
function workFinder({ startedAt }: Turn, { aheadMs, horizon }: Plan): PartTurn["hasWork"] {
  const found = new Map<D1Database, Promise<SweepWork>>();
  return async (db, part) => {
    const find = () => sweepWork(db, startedAt + aheadMs, horizon).catch(() => EVERYTHING);
    const work = found.get(db) ?? find();
    found.set(db, work);
    return (await work)[part];
  };
}

function partAfter(before: SweepPart, { cursor, more, failure }: PartResult, now: number): SweepPart {
  return failure === undefined
    ? { at: now, cursor, behind: more, failures: 0 }
    : { ...before, cursor, behind: more, failures: before.failures + 1 };
}

async function resultOf({ run }: Part, services: Services, turn: PartTurn): Promise<PartResult> {
  try {
    return await run(services, turn);
  } catch (failure) {
    return { counts: {}, cursor: turn.cursor, more: false, failure };
  }
}

/** The parts of this version. A part that is new counts from its first try, so that it does not make the sweep stalled. */
function withNewParts(parts: Parts, saved: SweepParts, now: number): SweepParts {
  const fresh: SweepPart = { at: now, behind: false, failures: 0, cursor: [] };
  return Object.fromEntries(Object.keys(parts).map((name) => [name, saved[name] ?? fresh]));
}
