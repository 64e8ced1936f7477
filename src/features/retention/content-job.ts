/**
 * Retention by tenants and types, every minute: erases the content of events that are older than their tenant or type
 * keeps them, and that lists have hidden since; and that of delivered events of tenants which keep no payloads. Their
 * rows stay until the deployment's retention removes the whole bundle.
 *
 * Walks go over the bundles of each database in the order of their ids. Each passes a bundle once, when something may
 * be due in it, and never comes back:
 * - `payload_free` follows the newest bundles a minute behind: by then most are delivered.
 * - `kept_7` and the like, one for each number of days that is set for anyone, follow that many days behind.
 *
 * A bundle with a remainder (a delivery has not ended, the event is due later, the bundle failed or cannot be read) is
 * put on a list, with the time to check it again. So the work depends on what is to be erased, not on what is stored.
 * - `kept_again` goes over everything when such a setting has been changed, and once a day: for settings of events that
 *   the walks had passed. It decides by headers, of which one statement reads many.
 * - `kept_logs` goes over everything once: former versions could erase an event and leave receivers' answers.
 *
 * A step has a budget of D1 queries and of time, which walks and list share evenly: so a large backlog of one tenant
 * delays the walks for the others by no more than its share. A bundle with very many destinations is continued where
 * the step before has stopped. A repeated step finds its events erased.
 *
 * Without such settings, a minute costs one query of a few rows.
 */

import { headersOf, indexesOf, isErased, type Plan, type StoredHeader } from "../../core/bundle.ts";
import { DAY_MS } from "../../core/retention.ts";
import { HOUR_MS, MINUTE_MS } from "../../core/rollups.ts";
import type { UnreadableBundle } from "../../core/stored-bundle.ts";
import { inEachDatabase, type MayContinue, periodicJob, type Turn, walkFrom } from "../../jobs/runner.ts";
import { reportUnreadable } from "../../jobs/unreadable.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";
import {
  bundlesLater,
  type ContentLimits,
  contentLimitsOf,
  eventsDone,
  eventsInInboxes,
  type LimitsInUse,
  limitsInUse,
  type PostponedBundle,
  planOfBundle,
  saveLater,
  type WalkedBundle,
  walkOn,
} from "../../store/content-retention.ts";
import { type Cutoffs, hasEnded, overBy } from "../../store/delivery-filter.ts";
import { type Extent, eraseFrom } from "../../store/erase.ts";
import type { BegunErasure } from "../../store/schema.ts";
import { type KeptWalk, moveCursor, type Position, readCursors } from "../../store/sweep.ts";
import { removeArchived } from "../archive/job.ts";

/** Bundles that one statement reads. */
const PAGE = 200;
/** Bundles of the list: each of them costs queries of its own. */
const LATER_PAGE = 50;

/** Expired content is hidden: nothing of it is needed any more. */
const OVER: Extent = { cancels: false, tags: true, keys: "removed" };
/** A delivered event is shown as before, found by its tags, and a repeat of its request gets the first answer. */
const DELIVERED: Extent = { cancels: false, tags: false, keys: "kept" };

/**
 * A walk that follows the newest bundles always continues where it stopped; a round ends, and starts over when it is
 * due.
 */
type Round = Readonly<{
  cursor: KeptWalk;
  kind: "follows" | "round";
  /** The age from which bundles are checked, in ms. */
  ageMs: number;
  /** Whether it has something to do; its position is that of its last step, and `at` when it came to its end or began. */
  isDue: (position: Position) => boolean;
  look: "content" | "logs";
}>;

/** Workers' clocks differ a little: a change this long before a round may have come after it. */
const SKEW_MS = 2 * MINUTE_MS;

/** The walks for the settings in use; none without settings. */
function roundsFor({ days, payloadFree, changedAt }: LimitsInUse, now: number): Round[] {
  if (days.length === 0 && !payloadFree) return [];
  const free: Round = {
    ...{ cursor: "payload_free", kind: "follows", ageMs: MINUTE_MS, look: "content" },
    isDue: () => true,
  };
  const kept = days.map(
    (count): Round => ({
      ...{ cursor: `kept_${count}`, kind: "follows", ageMs: count * DAY_MS, look: "content" },
      isDue: ({ at }) => now - at >= HOUR_MS,
    }),
  );
  const again: Round = {
    ...{ cursor: "kept_again", kind: "round", ageMs: MINUTE_MS, look: "content" },
    isDue: ({ at, row }) => row > 0 || now - at >= DAY_MS || changedAt > at - SKEW_MS,
  };
  const logs: Round = {
    ...{ cursor: "kept_logs", kind: "round", ageMs: MINUTE_MS, look: "logs" },
    isDue: ({ at, row }) => row > 0 || at === 0,
  };
  return [...(payloadFree ? [free] : []), ...kept, again, logs];
}

export const contentRetention = periodicJob({
  name: "content_retention",
  line: "erased_over",
  // A portion of work takes a few queries more, or 200 for 50,000 destinations.
  budget: { queries: 300 },
  hasPages: true,
  step: async (turn) => {
    const rounds = roundsFor(await limitsInUse(turn.services.db), turn.startedAt);
    if (rounds.length === 0) return { more: false };
    const step = new ContentStep(turn, rounds);
    const done = await inEachDatabase(turn, (db) => step.eraseIn(db));
    return { ...done, counts: { events: step.erased } };
  },
});

/** The remainder of a bundle, without its id; undefined: there is none. */
type Left = Omit<PostponedBundle, "bundle"> | undefined;

class ContentStep {
  readonly #turn: Turn;
  readonly #services: Services;
  readonly #over: Cutoffs;
  readonly #rounds: readonly Round[];
  /** Events whose content has been erased. */
  erased = 0;

  constructor(turn: Turn, rounds: readonly Round[]) {
    this.#turn = turn;
    this.#services = turn.services;
    this.#over = overBy(turn.services);
    this.#rounds = rounds;
  }

  /** Continues the walks through the database, and its list; returns whether more is left to check. */
  async eraseIn(db: D1Database): Promise<boolean> {
    const names = this.#rounds.map(({ cursor }) => cursor);
    const cursors = await readCursors(db, names);
    const walks = this.#rounds.flatMap((round) => {
      const from = cursors.get(round.cursor) ?? { at: 0, row: 0 };
      return round.isDue(from) ? [(may: MayContinue) => this.#walk(db, round, from, may)] : [];
    });
    const tasks = [...walks, (may: MayContinue) => this.#goThroughList(db, may)];
    let more = false;
    for (const [at, task] of tasks.entries())
      if (await task(this.#turn.shareOf(tasks.length - at))) more = true;
    return more;
  }

  async #walk(
    db: D1Database,
    { cursor, kind, ageMs, look }: Round,
    from: Position,
    mayContinue: MayContinue,
  ): Promise<boolean> {
    const { now } = this.#over;
    const bounds = { horizon: now - ageMs, limit: PAGE };
    const beganAt = from.row === 0 ? now : from.at;
    const positionAt = (row: number, isEnd: boolean): Position =>
      kind === "follows"
        ? { at: isEnd && ageMs >= DAY_MS ? now : 0, row }
        : { at: beganAt, row: isEnd ? 0 : row };
    const page = async ({ row: after }: Position) => {
      const { bundles, upto, isLast } = await walkOn(db, after, bounds);
      const looked = await this.#lookAtAll(db, bundles, look, mayContinue);
      const isWhole = looked === bundles.length;
      const row = isWhole ? upto : (bundles[looked - 1]?.id ?? after);
      return { at: positionAt(row, isLast && isWhole), more: !(isLast && isWhole) };
    };
    const position = { load: async () => from, save: (at: Position) => moveCursor(db, cursor, at) };
    return (await walkFrom(position, page, mayContinue)).more;
  }

  /** Returns how many of the bundles it has checked. The remainders of these are on the list then. */
  async #lookAtAll(
    db: D1Database,
    bundles: readonly WalkedBundle[],
    look: Round["look"],
    mayContinue: MayContinue,
  ): Promise<number> {
    const limits = await this.#limitsOf(bundles);
    const found = new Found();
    let looked = 0;
    for (const bundle of bundles) {
      const left =
        look === "content"
          ? await this.#lookAt(db, bundle, limits, undefined, mayContinue, found)
          : await this.#redact(db, bundle, mayContinue, found);
      if (left) found.later.push({ bundle: bundle.id, ...left });
      looked += 1;
      if (!mayContinue()) break;
    }
    await reportUnreadable(this.#services, found.unreadable);
    await saveLater(db, found.later);
    return looked;
  }

  /** Checks the bundles of the list that are due; returns whether more are. */
  async #goThroughList(db: D1Database, mayContinue: MayContinue): Promise<boolean> {
    for (;;) {
      const listed = await bundlesLater(db, this.#over.now, LATER_PAGE);
      const limits = await this.#limitsOf(listed.flatMap(({ bundle }) => bundle ?? []));
      const found = new Found();
      const looked: number[] = [];
      for (const { id, bundle, begun } of listed) {
        const left = bundle && (await this.#lookAt(db, bundle, limits, begun, mayContinue, found));
        if (left) found.later.push({ bundle: id, ...left });
        looked.push(id);
        if (!mayContinue()) break;
      }
      await reportUnreadable(this.#services, found.unreadable);
      await saveLater(db, found.later, looked);
      if (looked.length === LATER_PAGE && mayContinue()) continue;
      return listed.length === LATER_PAGE || looked.length < listed.length || found.isBegun();
    }
  }

  async #limitsOf(bundles: readonly WalkedBundle[]): Promise<ContentLimits> {
    const headers = bundles.flatMap(({ read }) => (read.kind === "read" ? [read.header] : []));
    if (headers.length === 0) return { keptMs: () => Number.POSITIVE_INFINITY, isPayloadFree: () => false };
    const [tenants, types] = [headers.flatMap((one) => one.tenants), headers.flatMap((one) => one.types)];
    return contentLimitsOf(this.#services.db, tenants, types);
  }

  /** Erases what is due of a bundle. A failure of one bundle is logged, and the bundle checked again later. */
  async #lookAt(
    db: D1Database,
    bundle: WalkedBundle,
    limits: ContentLimits,
    begun: BegunErasure | undefined,
    mayContinue: MayContinue,
    found: Found,
  ): Promise<Left> {
    return this.#byItself(bundle, found, async (header) => {
      const { now } = this.#over;
      const handled = new Set<number>();
      const open = openIn(bundle, header, limits, now);
      if (begun === undefined && open.over.length + open.free.length === 0) return open.later;
      const plan = await planOfBundle(db, bundle.id);
      if (plan === "gone") return undefined;
      if (plan === "unreadable") return found.cannotRead({ bundle: bundle.id, fault: "plan" }, now);
      const erase = async (why: BegunErasure["why"], events: readonly number[], destinations = 0) => {
        const work = { why, events, destinations };
        const upto = await this.#erase(db, bundle.id, plan, work, mayContinue);
        for (const index of events) handled.add(index);
        if (upto === undefined) this.erased += events.length;
        return upto === undefined ? undefined : { lookAt: now, begun: { ...work, destinations: upto } };
      };
      const unfinished = begun && (await erase(begun.why, begun.events, begun.destinations));
      if (unfinished) return unfinished;
      for (const [why, isDone] of [
        ["over", (end) => hasEnded(end, this.#over)],
        ["delivered", ({ state }) => isDelivered(state)],
      ] as const satisfies readonly (readonly [BegunErasure["why"], Parameters<typeof eventsDone>[4]])[]) {
        const due = open[why === "over" ? "over" : "free"].filter((index) => !handled.has(index));
        const done = due.length === 0 ? [] : await eventsDone(db, bundle.id, plan, due, isDone);
        // Those in inboxes keep theirs until retention; a walk that goes over everything finds them once their destination is deleted.
        const isKept = why === "delivered" && done.length > 0;
        const kept = isKept ? await eventsInInboxes(this.#services.db, plan, done) : [];
        for (const index of kept) handled.add(index);
        const erased = done.filter((index) => !kept.includes(index));
        const stopped = erased.length === 0 ? undefined : await erase(why, erased);
        if (stopped) return stopped;
      }
      const isLeft = [...open.over, ...open.free].some((index) => !handled.has(index));
      return isLeft ? earlier({ lookAt: againAt(bundle.dueAt, now) }, open.later) : open.later;
    });
  }

  /** Redacts the logs of events that are erased: in one go for any number of them. */
  #redact(db: D1Database, bundle: WalkedBundle, mayContinue: MayContinue, found: Found): Promise<Left> {
    return this.#byItself(bundle, found, async ({ erased = [] }) => {
      if (erased.length === 0) return undefined;
      const plan = await planOfBundle(db, bundle.id);
      if (plan === "gone") return undefined;
      const { now } = this.#over;
      if (plan === "unreadable") return found.cannotRead({ bundle: bundle.id, fault: "plan" }, now);
      const work = { why: "delivered", events: indexesOf(erased), destinations: 0 } as const;
      const upto = await this.#erase(db, bundle.id, plan, work, mayContinue);
      return upto === undefined ? undefined : { lookAt: now, begun: { ...work, destinations: upto } };
    });
  }

  async #byItself(
    { id, read }: WalkedBundle,
    found: Found,
    work: (header: StoredHeader) => Promise<Left>,
  ): Promise<Left> {
    const { now } = this.#over;
    if (read.kind === "unreadable") return found.cannotRead({ bundle: id, fault: read.fault }, now);
    try {
      return await work(read.header);
    } catch (error) {
      this.#services.log({ what: "bundle_not_erased", bundle: id, error: faultOf(error) });
      return { lookAt: now + AGAIN_MS };
    }
  }

  /** Returns how many destinations are done, when it may not continue. */
  async #erase(
    db: D1Database,
    id: number,
    plan: Plan,
    { why, events, destinations }: BegunErasure,
    mayContinue: MayContinue,
  ): Promise<number | undefined> {
    const extent = why === "over" ? OVER : DELIVERED;
    return eraseFrom(db, { id, plan, indexes: events }, extent, this.#over.now, {
      from: destinations,
      mayGoOn: mayContinue,
      erased: (deliveries) => removeArchived(this.#services, deliveries),
    });
  }
}

/** The findings of a page of bundles. */
class Found {
  readonly later: PostponedBundle[] = [];
  readonly unreadable: UnreadableBundle[] = [];

  cannotRead(bundle: UnreadableBundle, now: number): Left {
    this.unreadable.push(bundle);
    return { lookAt: now + LATEST_AGAIN_MS };
  }

  /** Whether the step stopped in the middle of a bundle. */
  isBegun(): boolean {
    return this.later.some(({ begun }) => begun !== undefined);
  }
}

type Open = Readonly<{
  /** The indexes of events that are over, and still have their content. */
  over: readonly number[];
  /** Bundles with events of tenants that keep no payloads. */
  free: readonly number[];
  /** When a scheduled event, which the walks pass before its time, will be over. */
  later: Left;
}>;

function openIn(
  { acceptedAt, dueAt }: WalkedBundle,
  header: StoredHeader,
  { keptMs, isPayloadFree }: ContentLimits,
  now: number,
): Open {
  const over: number[] = [];
  const free: number[] = [];
  let later: Left;
  for (const [index, about] of headersOf(header).entries()) {
    if (isErased(header, index)) continue;
    const ms = keptMs(about);
    if (dueAt + ms <= now) over.push(index);
    else if (acceptedAt + ms <= now) later = earlier({ lookAt: dueAt + ms }, later);
    if (isPayloadFree(about.tenant)) free.push(index);
  }
  return { over, free, later };
}

function earlier(one: NonNullable<Left>, other: Left): NonNullable<Left> {
  return other && other.lookAt < one.lookAt ? other : one;
}

/** An undelivered event is checked again after an eighth of its age, but no sooner and no later than this. */
const AGAIN_MS = 15 * MINUTE_MS;
const LATEST_AGAIN_MS = 6 * HOUR_MS;

/** @param dueAt of the event; a scheduled one is checked a minute later, like others */
function againAt(dueAt: number, now: number): number {
  const pause = Math.min(LATEST_AGAIN_MS, Math.max(AGAIN_MS, (now - dueAt) / 8));
  return Math.ceil(Math.max(now + pause, dueAt + MINUTE_MS));
}

/** A cancelled delivery will not be delivered; a dead one may be, by a retry. */
function isDelivered(state: string): boolean {
  return state === "delivered" || state === "cancelled";
}
