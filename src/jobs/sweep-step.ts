/**
 * A step of the sweep: one invocation's share of it, by the cron or by a page from the queue.
 *
 * A step runs the sweep's parts in turn. Each may use so many of the 1,000 D1 queries that an invocation is allowed, and
 * one that fails does not keep the others from running. What a part has reached is saved with the sweep's row; the
 * heartbeat there is the oldest success among the parts. When parts have more to do, the step enqueues the next page,
 * which runs them again in an invocation of its own.
 */

import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { countQueries } from "../store/databases.ts";
import type { SweepPart } from "../store/schema.ts";
import { type SweepLease, type SweepParts, type SweepWork, saveSweep, sweepWork } from "../store/sweep.ts";

/** A step starts no further work after this. */
const STEP_MS = 15_000;
const MOST_PAGES = 20;
const EVERYTHING: SweepWork = { scheduled: true, lost: true, overdue: true, expired: true };
/** Longer than a step and the message to the next one, shorter than the minute between two cron invocations. */
export const LEASE_MS = 50_000;

/** What a part is given for one step. */
export type PartTurn = Readonly<{
  /** When the step started, epoch ms. */
  now: number;
  /** A delivery that was due before this and has no outcome counts as lost, epoch ms. */
  horizon: number;
  page: number;
  /** The cursor that the part returned last. */
  cursor: SweepPart["cursor"];
  /** Whether a part has anything to do in the database. Costs a query the first time that any part of the step asks. */
  hasWork: (db: D1Database, part: keyof SweepWork) => Promise<boolean>;
  /** Whether queries and time are left for more work than the least that a part does. */
  mayGoOn: () => boolean;
  hasTime: () => boolean;
}>;

/** What a part has done in one step. */
export type PartResult = Readonly<{
  /** For the log. */
  counts: Readonly<Record<string, number>>;
  cursor: SweepPart["cursor"];
  /** Whether a further page is to continue with it. */
  more: boolean;
  /** Destinations with newly waiting deliveries, whose gates have to schedule a drain. */
  undrained?: ReadonlySet<string>;
  /** What kept it from some of its work. */
  failure?: unknown;
}>;

export type Part = Readonly<{
  /** After so many queries in a step it starts nothing more; the work begun may take a handful more. */
  queries: number;
  run: (services: Services, turn: PartTurn) => Promise<PartResult>;
}>;

type Plan = Readonly<{
  /** Scheduled bundles that are due within this time are to be enqueued, ms. */
  aheadMs: number;
  /** All parts of the sweep by their names, in the order in which they run. */
  parts: Readonly<Record<string, Part>>;
  /** The parts to run in this step. */
  names: readonly string[];
  lease: SweepLease;
  /** How far the parts have got, as saved. */
  saved: SweepParts;
  startedAt: number;
  horizon: number;
  /** No page is enqueued after this, epoch ms. */
  until: number;
  scheduleDrains: (
    services: Services,
    destinations: readonly string[],
    hasTime: () => boolean,
  ) => Promise<void>;
}>;

export class SweepStep {
  readonly #services: Services;
  /** The same services; the queries through them are counted. */
  readonly #counted: Services;
  readonly #queries: () => number;
  readonly #plan: Plan;
  readonly #work = new Map<D1Database, Promise<SweepWork>>();
  readonly #undrained = new Set<string>();
  readonly #failures: unknown[] = [];
  /** Parts that have more to do. */
  readonly #unfinished: string[] = [];
  #counts: Readonly<Record<string, number>> = {};
  #parts: SweepParts;

  constructor(services: Services, plan: Plan) {
    const { queries, ...databases } = countQueries(services);
    this.#services = services;
    this.#counted = { ...services, ...databases };
    this.#queries = queries;
    this.#plan = plan;
    this.#parts = withNewParts(plan);
  }

  /** Runs the parts, then ends the sweep or enqueues its next page; returns the errors of the parts that failed. */
  async run(): Promise<readonly unknown[]> {
    const { parts, names } = this.#plan;
    for (const [name, part] of Object.entries(parts)) if (names.includes(name)) await this.#run(name, part);
    await this.#plan.scheduleDrains(this.#counted, [...this.#undrained], this.#hasTime);
    await this.#endOrContinue();
    this.#log();
    return this.#failures;
  }

  readonly #hasWork = async (db: D1Database, part: keyof SweepWork): Promise<boolean> => {
    const { startedAt, aheadMs, horizon } = this.#plan;
    // Where that cannot be said, each part looks for itself, so that no part fails for another's trouble.
    const look = () => sweepWork(db, startedAt + aheadMs, horizon).catch(() => EVERYTHING);
    const work = this.#work.get(db) ?? look();
    this.#work.set(db, work);
    return (await work)[part];
  };

  readonly #hasTime = () => this.#services.now() - this.#plan.startedAt < STEP_MS;

  async #run(name: string, part: Part): Promise<void> {
    const before = this.#parts[name];
    if (!before) return;
    const { startedAt, horizon, lease } = this.#plan;
    const from = this.#queries();
    const mayGoOn = () => this.#queries() - from < part.queries && this.#hasTime();
    const { cursor } = before;
    const { page } = lease;
    const bounds = { mayGoOn, hasTime: this.#hasTime };
    const turn = { now: startedAt, horizon, page, cursor, hasWork: this.#hasWork, ...bounds };
    const result = await resultOf(part, this.#counted, turn);
    this.#counts = { ...this.#counts, ...result.counts };
    for (const id of result.undrained ?? []) this.#undrained.add(id);
    this.#keep(name, before, result);
    if (!result.more) return;
    this.#unfinished.push(name);
    // Saved at once: if this invocation dies, the next sweep continues from here.
    await this.#save(startedAt + LEASE_MS);
  }

  #keep(name: string, before: SweepPart, { cursor, more, failure }: PartResult): void {
    const isOk = failure === undefined;
    const after = isOk
      ? { at: this.#plan.startedAt, cursor, behind: more, failures: 0 }
      : { ...before, cursor, behind: more, failures: before.failures + 1 };
    this.#parts = { ...this.#parts, [name]: after };
    if (isOk) return;
    this.#failures.push(failure);
    const { failures } = after;
    this.#services.log({ what: "sweep_part_failed", part: name, failures, error: faultOf(failure) });
  }

  async #endOrContinue(): Promise<void> {
    const { lease, until } = this.#plan;
    const now = this.#services.now();
    const continues = this.#unfinished.length > 0 && lease.page < MOST_PAGES && now < until;
    const isOurs = await this.#save(continues ? this.#services.now() + LEASE_MS : 0);
    if (continues && isOurs && !(await this.#enqueueNextPage())) await this.#save(0);
  }

  /** Returns whether the page was enqueued. Without it the sweep ends, and the next one continues. */
  async #enqueueNextPage(): Promise<boolean> {
    const { upkeep, log } = this.#services;
    const { lease, until } = this.#plan;
    try {
      await upkeep.send({ sweep: lease.lease, page: lease.page + 1, until });
      return true;
    } catch (error) {
      log({ what: "sweep_page_not_sent", error: faultOf(error) });
      return false;
    }
  }

  /** Returns whether this sweep still holds the lease. */
  #save(leasedUntil: number): Promise<boolean> {
    const heartbeatAt = Math.min(...Object.values(this.#parts).map(({ at }) => at));
    return saveSweep(this.#services.db, this.#plan.lease, { parts: this.#parts, heartbeatAt, leasedUntil });
  }

  #log(): void {
    const { lease, startedAt } = this.#plan;
    this.#services.log({
      what: "sweep",
      ...(lease.page > 0 && { page: lease.page }),
      ...this.#counts,
      ...(this.#unfinished.length > 0 && { left: this.#unfinished.join(" ") }),
      queries: this.#queries(),
      took_ms: this.#services.now() - startedAt,
    });
  }
}

async function resultOf({ run }: Part, services: Services, turn: PartTurn): Promise<PartResult> {
  try {
    return await run(services, turn);
  } catch (failure) {
    return { counts: {}, cursor: turn.cursor, more: false, failure };
  }
}

/** The parts of this version. A part that is new counts from its first try, so that it does not make the sweep stalled. */
function withNewParts({ parts, saved, startedAt }: Plan): SweepParts {
  const fresh: SweepPart = { at: startedAt, behind: false, failures: 0, cursor: [] };
  return Object.fromEntries(Object.keys(parts).map((name) => [name, saved[name] ?? fresh]));
}
