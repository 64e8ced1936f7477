/**
 * One runner for all work that does not fit into one invocation. A job is its name, where it continues, and its step; the
 * runner gives the step a budget, and continues with a further invocation what the step has left.
 *
 * There are two kinds of jobs:
 * - A periodic job is begun by the cron every minute. What its step leaves is continued by pages: messages of the upkeep
 *   queue, one after the other, until the next cron is due. A page that is lost is no loss: the next cron continues.
 * - A queued job has a row for each piece of work, with the time of its next step. Each step enqueues the next one. A step
 *   whose message is lost is late, and enqueued again by the cron.
 *
 * Nothing lives in memory between steps. A step stores what it has done before it moves its cursor, so one that dies is
 * repeated from a place before which nothing is missing, and one that runs twice finds done what it would do.
 */
import { faultOf, type LogLine } from "../log.ts";
import { delaySecondsUntil, type UpkeepMessage, type UpkeepName } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import { countQueries, inTurn } from "../store/databases.ts";
import { moveCursor, type Position, readCursor, type Walk } from "../store/sweep.ts";

/** A task that the cron and the consumer of the upkeep queue run. */
export type UpkeepTask = Readonly<{
  name: UpkeepName;
  /** The cron's part of it, every minute. */
  run?: (services: Services) => Promise<void>;
  /** Consumes a message with the task's name. */
  receive?: (services: Services, message: UpkeepMessage) => Promise<void>;
}>;

type Budget = Readonly<{
  /**
   * D1 queries after which a step begins no further work, of the 1,000 that D1 allows an invocation; the work begun may
   * take a handful more.
   */
  queries: number;
  /** The time after which a step begins no further work. */
  ms?: number;
}>;

const STEP_MS = 15_000;

export type MayContinue = () => boolean;

/** The input of a step. */
export type Turn = Readonly<{
  /** Queries through these databases count towards the budget. */
  services: Services;
  /** Epoch ms. */
  startedAt: number;
  /** 0 in the cron's invocation. */
  page: number;
  queries: () => number;
  hasTime: MayContinue;
  /** Whether the budget allows more work. */
  mayContinue: MayContinue;
  /** Whether an equal share of the remaining budget, one of this many, allows more work. */
  shareOf: (shares: number) => MayContinue;
}>;

export type Step<S = void> = Readonly<{
  /** Whether a further page is to continue. */
  more: boolean;
  state?: S;
  /** For the log. */
  counts?: Readonly<Record<string, number | string>>;
  /** The error that kept the step from some of its work. Thrown once everything is saved. */
  failure?: unknown;
}>;

/** An invocation of a periodic job. */
export type Page = Readonly<{
  number: number;
  /** No further page is enqueued after this, epoch ms. */
  until: number;
  /** The value that the previous step passed on. */
  handedOver?: unknown;
}>;

type PeriodicJob<S = void> = Readonly<{
  name: UpkeepName;
  /** The name of the line that a step logs when it has done something. */
  line?: string;
  /** Whether a step logs its line in any case. */
  isAlwaysLogged?: boolean;
  budget: Budget;
  /** Whether pages continue a step that has left something; otherwise the next cron does. */
  hasPages?: boolean;
  /** Where a step continues; undefined: there is nothing to do. Absent: the step finds out. */
  load?: (services: Services, page: Page) => Promise<S | undefined>;
  step: (turn: Turn, state: S) => Promise<Step<S>>;
  /** Saves what the step has done; false: another invocation has taken over. Absent: the step saves it. */
  save?: (services: Services, state: S, continues: boolean) => Promise<boolean>;
  /** The value that the next page gets. */
  handOver?: (state: S) => string;
}>;

/** No page is enqueued later than this after the cron: the next cron is about to continue. */
const PAGES_MS = 35_000;
const MOST_PAGES = 20;

/** A job that the cron begins every minute. */
export function periodicJob<S = void>(job: PeriodicJob<S>): Required<UpkeepTask> {
  async function runPage(given: Services, page: Page): Promise<void> {
    const state = await job.load?.(given, page);
    if (job.load && state === undefined) return;
    const turn = turnOf(given, job.budget, page.number);
    const done = await job.step(turn, state as S);
    const after = (done.state ?? state) as S;
    const save = async (continues: boolean) => (await job.save?.(given, after, continues)) ?? true;
    const continues =
      job.hasPages === true && done.more && page.number < MOST_PAGES && given.now() < page.until;
    const isOurs = await save(continues);
    const handedOver = job.handOver?.(after);
    if (continues && isOurs && !(await sendPage(given, job.name, page, handedOver))) await save(false);
    logStep(turn, job, done);
    if (done.failure !== undefined) throw done.failure;
  }

  return {
    name: job.name,
    run: (services) => runPage(services, { number: 0, until: services.now() + PAGES_MS }),
    receive: async (services, { page, until, subject }) => {
      if (page !== undefined && until !== undefined)
        await runPage(services, { number: page, until, handedOver: subject });
    },
  };
}

/** False when the page could not be enqueued: then the next cron continues. */
async function sendPage(
  { upkeep, log }: Services,
  name: UpkeepName,
  { number, until }: Page,
  handedOver: string | undefined,
): Promise<boolean> {
  try {
    const page = number + 1;
    await upkeep.send(
      handedOver === undefined ? { [name]: page, until } : { [name]: handedOver, page, until },
    );
    return true;
  } catch (error) {
    log({ what: `${name}_page_not_sent`, error: faultOf(error) });
    return false;
  }
}

function logStep(
  { services, page, startedAt, queries }: Turn,
  { line, isAlwaysLogged }: Pick<PeriodicJob, "line" | "isAlwaysLogged">,
  { counts = {} }: Pick<Step, "counts">,
): void {
  const isWorth = isAlwaysLogged || Object.values(counts).some(Boolean);
  if (line === undefined || !isWorth) return;
  const logged: LogLine = {
    what: line,
    ...(page > 0 && { page }),
    ...counts,
    queries: queries(),
    took_ms: services.now() - startedAt,
  };
  services.log(logged);
}

type QueuedJob<R extends QueuedRow> = Readonly<{
  name: UpkeepName;
  budget: Budget;
  find: (services: Services, id: string) => Promise<R | undefined>;
  /** Makes a step and saves it; returns when the next one is due (epoch ms), or undefined when there is none. */
  step: (turn: Turn, row: R) => Promise<number | undefined>;
  /** Ids of up to `limit` rows whose next step was due by then, epoch ms. */
  findLate: (db: D1Database, dueBy: number, limit: number) => Promise<readonly string[]>;
}>;

type QueuedRow = Readonly<{ state: string; nextStepAt: number }>;

/** A step that is this late has been lost. */
const LATE_MS = 30_000;
/** Lost steps that one cron invocation enqueues again. */
const MOST_LATE = 100;

type QueuedTask = Required<UpkeepTask> &
  Readonly<{
    /** Makes the row's next step, if it is running and the step is due. */
    step: (services: Services, id: string) => Promise<void>;
    /** Enqueues the row's next step. A failure is logged: the cron enqueues steps that are late. */
    enqueue: (services: Services, id: string, at: number) => Promise<void>;
  }>;

/** A job with a row for each piece of work. */
export function queuedJob<R extends QueuedRow>(job: QueuedJob<R>): QueuedTask {
  const { name } = job;

  async function enqueue({ upkeep, log, now }: Services, id: string, at: number): Promise<void> {
    try {
      await upkeep.send({ [name]: id, at }, { delaySeconds: delaySecondsUntil(at, now()) });
    } catch (error) {
      log({ what: `${name}_step_not_sent`, [name]: id, error: faultOf(error) });
    }
  }

  /** @param at when the message says that the step is due; a message for an earlier step is a duplicate */
  async function step(services: Services, id: string, at = 0): Promise<void> {
    const row = await job.find(services, id);
    if (row?.state !== "running") return;
    if (row.nextStepAt > services.now()) {
      // Early by this clock, which is behind the one that has set the time.
      if (at >= row.nextStepAt) await enqueue(services, id, row.nextStepAt);
      return;
    }
    const nextStepAt = await job.step(turnOf(services, job.budget, 0), row);
    if (nextStepAt !== undefined) await enqueue(services, id, nextStepAt);
  }

  async function run(services: Services): Promise<void> {
    const now = services.now();
    const late = await job.findLate(services.db, now - LATE_MS, MOST_LATE);
    for (const id of late) await enqueue(services, id, now);
  }

  return {
    name,
    step,
    enqueue,
    run,
    receive: (services, { subject, at }) => step(services, String(subject), at),
  };
}

function turnOf(given: Services, { queries: most, ms = STEP_MS }: Budget, page: number): Turn {
  const { queries, ...databases } = countQueries(given);
  const startedAt = given.now();
  const isWithin = (queriesUntil: number, until: number) => () =>
    queries() < queriesUntil && given.now() < until;
  return {
    services: { ...given, ...databases },
    startedAt,
    page,
    queries,
    hasTime: isWithin(Number.POSITIVE_INFINITY, startedAt + ms),
    mayContinue: isWithin(most, startedAt + ms),
    shareOf: (shares) => {
      const [used, now] = [queries(), given.now()];
      const share = (left: number) => Math.max(0, left) / shares;
      return isWithin(used + share(most - used), now + share(startedAt + ms - now));
    },
  };
}

/**
 * Works in one database after the other while the budget allows it. Begins with a random one, so that each of many gets
 * its turn. A failure in one does not stop the others.
 * @param work returns whether there is more to do in that database
 */
export function inEachDatabase(
  { services, mayContinue }: Turn,
  work: (db: D1Database) => Promise<boolean>,
): Promise<Readonly<{ more: boolean; failure?: unknown }>> {
  const first = Math.floor(services.random() * (1 + (services.further ?? []).length));
  return inTurn(services, first, mayContinue, work);
}

/** How far a walk has got. */
export type Walked<P> = Readonly<{ at: P; more: boolean }>;

/** Where a walk keeps its position. */
type Cursor<P> = Readonly<{ load: () => Promise<P>; save: (at: P) => Promise<void> }>;

export function cursorOf(db: D1Database, walk: Walk): Cursor<Position> {
  return { load: () => readCursor(db, walk), save: (at) => moveCursor(db, walk, at) };
}

/**
 * Continues a walk from its cursor, page by page, until a page finds no more or the walk may not continue. The first page is
 * always made.
 * @param page sees to what comes after a position
 * @param saves whether the position is saved after each page, or once at the end, where a repeated page does no harm
 */
export async function walkFrom<P>(
  { load, save }: Cursor<P>,
  page: (after: P) => Promise<Walked<P>>,
  mayContinue: MayContinue,
  saves: "each" | "end" = "end",
): Promise<Walked<P>> {
  const isSame = (one: P, other: P) => JSON.stringify(one) === JSON.stringify(other);
  let saved: P = await load();
  let walked: Walked<P> = { at: saved, more: true };
  let isDone = false;
  do {
    walked = await page(walked.at);
    isDone = !walked.more || !mayContinue();
    if ((isDone || saves === "each") && !isSame(walked.at, saved)) {
      await save(walked.at);
      saved = walked.at;
    }
  } while (!isDone);
  return walked;
}
