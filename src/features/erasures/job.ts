/**
 * Erasures, step by step: a step continues where the last one stopped, and erases in one bundle after the other. A
 * repeated step finds its events erased.
 *
 * An erasure goes through everything twice. The first pass erases. Attempts that were under way may still arrive, and
 * their outcomes be recorded, with the receivers' answers; so the second pass begins when no invocation of that time
 * can live any more, redacts that too, and cancels what has been scheduled for a retry meanwhile.
 *
 * In each pass the archive of exchanges follows the events, database by database (store/archive.ts): so an erasure
 * completes only when the exchanges in R2 are removed; those that were still being written during the first pass are
 * removed in the second.
 *
 * A bundle that cannot be read is skipped, and the erasure reports that: if the second pass could not read one, it ends
 * as incomplete, with the bundles' ids. Any other failure is taken as temporary: the step is repeated from where it
 * was.
 */

import { bundleOf, eventAt } from "../../core/bundle.ts";
import { beforeFirstOf, databaseNumberOf } from "../../core/placement.ts";
import { isNumbers, readBundle } from "../../core/stored-bundle.ts";
import { newErasureId } from "../../ids.ts";
import { endDeleted } from "../../jobs/deleted-destinations.ts";
import { type MayContinue, queuedJob, type Turn } from "../../jobs/runner.ts";
import { reportUnreadable } from "../../jobs/unreadable.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";
import { archiveOf, removeGone } from "../../store/archive.ts";
import { allOf } from "../../store/databases.ts";
import { type ErasedBundle, type Extent, eraseFrom, indexesOfTenant } from "../../store/erase.ts";
import { eventNames } from "../../store/events.ts";
import { idRangeOf } from "../../store/time-ranges.ts";
import { eraseTenantRows } from "../tenants/removal.ts";
import {
  bundlesOfTenant,
  type Erasure,
  type ErasureInsert,
  type ErasureProgress,
  findErasureJob,
  insertErasure,
  insertPart,
  moveErasure,
  overdueErasures,
  type TenantBundle,
} from "./sql.ts";

/** Bundles that one statement reads. */
const PAGE = 100;
/** Longer than the invocation of a queue lives: none that has read a body before still runs by then. */
const QUIET_MS = 16 * 60_000;
const PASSES = 2;

/** The target of an erasure: an event, those accepted in a time range (epoch ms), or all that there are. */
export type ErasureTarget =
  | Readonly<{ kind: "event"; eventId: number }>
  | Readonly<{ kind: "range"; since: number | undefined; until: number | undefined }>
  | Readonly<{ kind: "tenant" }>;

/** Begins an erasure; undefined when the tenant has as many running as it may. Events posted from now on are not erased. */
export async function startErasure(services: Services, tenant: string, target: ErasureTarget) {
  const erasure = await insertErasure(services.db, newErasure(tenant, target, services.now()));
  return erasure && begun(services, erasure);
}

function newErasure(tenant: string, target: ErasureTarget, now: number): ErasureInsert {
  const range = target.kind === "range" ? target : { since: undefined, until: undefined };
  return {
    id: newErasureId(),
    tenant,
    kind: target.kind,
    eventId: target.kind === "event" ? target.eventId : null,
    since: range.since ?? null,
    until: target.kind === "event" ? null : Math.min(range.until ?? now + 1, now + 1),
    nextStepAt: now,
    createdAt: now,
  };
}

function begun(services: Services, erasure: Erasure): Erasure {
  services.log({ what: "erasure_begun", erasure: erasure.id, kind: erasure.kind });
  services.background(erasing.enqueue(services, erasure.id, services.now()));
  return erasure;
}

/** Deleted destinations whose deliveries are cancelled before the erasure or the next sweep comes to them. */
const ENDED_AT_ONCE = 10;

/**
 * Deletes a tenant with everything that it has: destinations, application, keys, sessions, portal links and settings at
 * once, the content of its events by an erasure, which is the receipt. Safe to repeat.
 */
export async function deleteTenant(services: Services, tenant: string): Promise<Erasure> {
  const now = services.now();
  const job = newErasure(tenant, { kind: "tenant" }, now);
  const { erasure, destinations } = await eraseTenantRows(services.db, tenant, job, now);
  services.log({ what: "tenant_deleted", destinations: destinations.length });
  for (const id of destinations.slice(0, ENDED_AT_ONCE)) services.background(endDeleted(services, id));
  return begun(services, erasure);
}

/** Begins to erase one event of the tenant; undefined when the tenant has no such event. */
export async function eraseEvent(services: Services, tenant: string, event: number) {
  const name = (await eventNames(services, [event])).get(event);
  if (name?.tenant !== tenant) return undefined;
  return startErasure(services, tenant, { kind: "event", eventId: event });
}

export const erasing = queuedJob<Erasure>({
  name: "erasure",
  budget: { queries: 300 },
  find: ({ db }, id) => findErasureJob(db, id),
  step: async (turn, job) => {
    const progress = await new ErasureStep(turn, job).run();
    const { db, now, log } = turn.services;
    if (!(await moveErasure(db, job, progress, now()))) return undefined;
    const { state, cursor, nextStepAt } = progress;
    log({ what: "erasure_step", erasure: job.id, state, cursor: cursor.join() });
    return state === "running" ? nextStepAt : undefined;
  },
  findLate: overdueErasures,
});

class ErasureStep {
  readonly #services: Services;
  readonly #job: Erasure;
  readonly #databases: readonly D1Database[];
  readonly #mayContinue: MayContinue;
  /** Bundles of this pass that could not be read. */
  readonly #unreadable: Set<number>;

  constructor({ services, mayContinue }: Turn, job: Erasure) {
    this.#services = services;
    this.#databases = allOf(services);
    this.#mayContinue = mayContinue;
    this.#job = job;
    const [, database, after, archived, part] = cursorOf(job);
    const isBeginning = database + after + archived + part === 0;
    this.#unreadable = new Set(isBeginning ? [] : job.unreadable);
  }

  /** Continues until a pass has ended or it may not continue; returns its position. */
  async run(): Promise<ErasureProgress> {
    let [pass, database, after, archived, part] = cursorOf(this.#job);
    for (; database < this.#databases.length; database++, after = 0, archived = 0, part = 0) {
      // Once the archive has been begun, the events are through.
      const stopped = archived > 0 ? undefined : await this.#eraseIn(database, after, part);
      if (stopped) return this.#running([pass, database, stopped.after, 0, stopped.part]);
      const cleaned = await this.#cleanArchive(database, archived);
      if (cleaned !== undefined) return this.#running([pass, database, 0, cleaned]);
    }
    pass += 1;
    const now = this.#services.now();
    if (pass < PASSES) return this.#running([pass, 0, 0], now + QUIET_MS);
    const state = this.#unreadable.size > 0 ? "incomplete" : "completed";
    return { ...this.#running([pass, 0, 0], now), state, endedAt: now };
  }

  #running(cursor: readonly number[], nextStepAt = this.#services.now()): ErasureProgress {
    const unreadable = [...this.#unreadable].slice(0, MOST_NAMED);
    return { cursor, state: "running", unreadable, nextStepAt, endedAt: null };
  }

  /**
   * Returns where it has stopped: the last bundle that is done, and how many destinations of the next one are;
   * undefined when the database has no more. A failure after something was done stops it there, so that it stays done.
   */
  async #eraseIn(number: number, from: number, begun: number): Promise<Stopped | undefined> {
    const db = this.#databases[number];
    if (db === undefined) return undefined;
    const range = await this.#rangeIn(db, number);
    if (range === undefined) return undefined;
    if (number > 0) await insertPart(db, this.#job, this.#services.now());
    const start = Math.max(from, range.first - 1);
    let after = start;
    let part = begun;
    try {
      for (;;) {
        const page = { after, last: range.last, limit: PAGE };
        const { bundles, upto } = await bundlesOfTenant(db, this.#job.tenant, page);
        for (const bundle of bundles) {
          const stopped = await this.#erase(db, bundle, part);
          if (stopped !== undefined) return { after, part: stopped };
          after = bundle.id;
          part = 0;
          if (!this.#mayContinue()) return { after, part };
        }
        if (upto === undefined) return undefined;
        after = upto;
        if (!this.#mayContinue()) return { after, part };
      }
    } catch (error) {
      if (after === start) throw error;
      this.#services.log({
        what: "erasure_step_failed",
        erasure: this.#job.id,
        after,
        error: faultOf(error),
      });
      return { after, part };
    }
  }

  /**
   * Removes erased events' exchanges from the archive; returns the last event read, or undefined when the database has
   * no more. If no time bounds the erasure, exchanges of events that are no longer stored are removed too.
   */
  async #cleanArchive(number: number, from: number): Promise<number | undefined> {
    const db = this.#databases[number];
    const archive = archiveOf(this.#services);
    const range = db && archive && (await this.#rangeIn(db, number));
    if (range === undefined || archive === undefined) return undefined;
    const first = Math.max(eventAt(range.first, 0) - 1, beforeFirstOf(number));
    const last = Math.min(eventAt(range.last + 1, 0) - 1, beforeFirstOf(number + 1));
    const bounds = { after: Math.max(from, first), last };
    const { upto, isLast } = await removeGone(this.#services, archive, bounds, this.#mayContinue);
    return isLast ? undefined : upto;
  }

  /** The bundles that the erasure is about; undefined when none can be in this database. */
  async #rangeIn(db: D1Database, number: number) {
    const { eventId, since, until } = this.#job;
    if (eventId !== null) {
      const bundle = bundleOf(eventId);
      return databaseNumberOf(eventId) === number ? { first: bundle, last: bundle } : undefined;
    }
    const { first, last } = await idRangeOf(db, { since: since ?? undefined, until: until ?? undefined });
    return { first: bundleOf(first), last: bundleOf(last) };
  }

  /** Returns how many destinations are done, when it may not continue. */
  async #erase(db: D1Database, stored: TenantBundle, from: number): Promise<number | undefined> {
    const { id, acceptedAt } = stored;
    const { tenant, kind, eventId, since, until } = this.#job;
    if (kind !== "event" && (acceptedAt < (since ?? 0) || acceptedAt >= (until ?? Number.POSITIVE_INFINITY)))
      return undefined;
    const read = readBundle(stored);
    if (read.kind === "unreadable") {
      this.#unreadable.add(id);
      await reportUnreadable(this.#services, [{ bundle: id, fault: read.fault }]);
      return undefined;
    }
    const own = indexesOfTenant(read.header, tenant);
    const indexes = own.filter((index) => eventId === null || eventAt(id, index) === eventId);
    const bundle: ErasedBundle = { id, plan: read.plan, indexes };
    const extent: Extent = {
      cancels: true,
      tags: true,
      keys: kind === "tenant" ? "removed" : "closed",
      erasure: this.#job.id,
    };
    if (indexes.length === 0) return undefined;
    return eraseFrom(db, bundle, extent, this.#services.now(), { from, mayGoOn: this.#mayContinue });
  }
}

/** The most bundles that an erasure names; of more it reports only that there are some. */
const MOST_NAMED = 100;

/** The last bundle that is done, and how many destinations of the next one are. */
type Stopped = Readonly<{ after: number; part: number }>;

/**
 * The pass, the number of the database, the last bundle read there, the last event in the archive, and how many
 * destinations of the next bundle are done.
 */
function cursorOf({
  cursor,
}: Erasure): [pass: number, database: number, after: number, archived: number, part: number] {
  const [pass = 0, database = 0, after = 0, archived = 0, part = 0] = isNumbers(cursor) ? cursor : [];
  return [pass, database, after, archived, part];
}
