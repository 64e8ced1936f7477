/**
 * The deliveries of new events as they come, and their progress.
 *
 * Watching writes nothing. A step reads the new bundles of each database above a watermark, and reads again the
 * deliveries that it has shown and that have not ended. Both are bounded: if more arrive, the newest are shown, and a
 * gap event marks omissions.
 */

import { bundleOf, detailsAt, indexOf } from "../core/bundle.ts";
import { databaseNumberOfBundle } from "../core/placement.ts";
import { headerToShow } from "../core/stored-bundle.ts";
import { sharesOf } from "./bundles.ts";
import { allOf, type Databases, select } from "./databases.ts";
import { type FoundDelivery, withDestinations } from "./delivery-list.ts";
import type { Destination } from "./destination.ts";
import type { EventName } from "./events.ts";
import {
  BUNDLE_COLUMNS,
  type BundleRow,
  foundOf,
  foundWith,
  type Planned,
  plannedIn,
  storedStatesOf,
} from "./planned-deliveries.ts";
import { jsonOrEmpty } from "./sql.ts";

/** Bundles that a step reads in each database, new deliveries that it takes, and those that it follows. */
const BUNDLES = 200;
const MOST_NEW = 50;
const MOST_FOLLOWED = 100;

export type TailFilter = Readonly<{
  tenant?: string | undefined;
  destinationId?: string | undefined;
  /** A pattern of types, as destinations have them. */
  type?: string | undefined;
}>;

/** The newest bundle of each database that has been looked at. */
export type Watermarks = readonly number[];

type Followed = Readonly<{
  planned: Planned;
  event: EventName;
  destination: Destination | null;
  /** The part of the delivery that was shown. */
  shown: string;
}>;

export type Tail = Readonly<{ after: Watermarks; followed: readonly Followed[] }>;

export type TailedDelivery = Readonly<{ found: FoundDelivery; event: EventName }>;

type TailStep = Readonly<{
  tail: Tail;
  /** New or changed deliveries, the oldest event first. */
  news: readonly TailedDelivery[];
  /** Whether there was more news than a step takes. */
  isGap: boolean;
}>;

/** Begins after the newest event of now. */
export async function newTail(databases: Databases): Promise<Tail> {
  const newest = allOf(databases).map(async (db) => (await db.prepare(NEWEST).first<number>("id")) ?? 0);
  return tailAfter(await Promise.all(newest));
}

/** Continues after these; a database without one begins at its first bundle. */
export function tailAfter(after: Watermarks): Tail {
  return { after, followed: [] };
}

/** How many bundles back a resumed tail may start: fewer than a step reads. */
const MOST_RESUMED = BUNDLES / 2;

/** Where an interrupted tail continues: with deliveries that have not ended, if they are recent. They are shown again. */
export function resumeAfter({ after, followed }: Tail): Watermarks {
  return after.map((newest, database) => {
    const open = followed
      .map(({ planned }) => bundleOf(planned.eventId))
      .filter((bundle) => databaseNumberOfBundle(bundle) === database);
    return Math.max(Math.min(newest, ...open.map((bundle) => bundle - 1)), newest - MOST_RESUMED, 0);
  });
}

/** Deliveries that have come, or changed, since the step before. */
export async function tailStep(databases: Databases, filter: TailFilter, before: Tail): Promise<TailStep> {
  const arrived = await Promise.all(
    allOf(databases).map((db, i) => arrivedIn(db, filter, before.after[i] ?? 0)),
  );
  const planned = arrived
    .flatMap(({ planned }) => planned)
    .sort((a, b) => a.planned.acceptedAt - b.planned.acceptedAt);
  const followed = [...before.followed, ...(await placed(databases, planned.slice(-MOST_NEW)))];
  const looked = await lookedUp(databases, followed.slice(-MOST_FOLLOWED));
  const news = looked.filter(({ followed, shown }) => followed.shown !== shown);
  return {
    tail: {
      after: arrived.map(({ newest }) => newest),
      followed: looked
        .filter(({ found }) => !hasEnded(found))
        .map(({ followed, shown }) => ({ ...followed, shown })),
    },
    news: news.map(({ found, followed: { event } }) => ({ found, event })),
    isGap: planned.length > MOST_NEW || arrived.some(({ isGap }) => isGap),
  };
}

const NEWEST = "SELECT max(id) AS id FROM bundles";

/** The newest bundles after both `?1` and `?2`. */
const ARRIVED = `
  SELECT ${BUNDLE_COLUMNS} FROM bundles WHERE id > max(?1, ?2)
    AND (?3 IS NULL OR instr(${jsonOrEmpty("header")} -> '$.tenants', ?3) > 0) AND (?4 IS NULL OR instr(plan, ?4) > 0)
  ORDER BY id DESC LIMIT ${MOST_NEW}`;

type New = Pick<Followed, "planned" | "event">;

async function arrivedIn(db: D1Database, filter: TailFilter, after: number) {
  const newest = (await db.prepare(NEWEST).first<number>("id")) ?? 0;
  if (newest <= after) return { newest: after, planned: [], isGap: false };
  const { tenant, destinationId } = filter;
  // As names in JSON: what is no id of a destination is in no plan, and no path in it either.
  const named = [tenant, destinationId].map((name) => (name === undefined ? null : `"${name}"`));
  const floor = newest - BUNDLES;
  const rows = await select<BundleRow>(db, ARRIVED, after, floor, ...named);
  return {
    newest: Math.max(newest, rows[0]?.id ?? 0),
    planned: rows.toReversed().flatMap((row) => newIn(row, filter)),
    isGap: after < floor || rows.length === MOST_NEW,
  };
}

function newIn(row: BundleRow, filter: TailFilter): New[] {
  const header = headerToShow(row.header);
  if (header === undefined) return [];
  return plannedIn(row, { ...filter, limit: MOST_NEW }).flatMap((planned) => {
    const details = detailsAt(header, indexOf(planned.eventId));
    return details ? [{ planned, event: { ...details, acceptedAt: row.acceptedAt } }] : [];
  });
}

/** With their destinations, which are read once. */
async function placed(databases: Databases, news: readonly New[]): Promise<Followed[]> {
  const found = await withDestinations(
    databases,
    news.map(({ planned }) => foundOf(planned, undefined, null)),
  );
  return news.map((one, i) => ({ ...one, destination: found[i]?.destination ?? null, shown: "" }));
}

async function lookedUp(databases: Databases, followed: readonly Followed[]) {
  const wanted = followed.map(({ planned }) => planned);
  const shares = [...sharesOf(databases, wanted, ({ eventId }) => eventId)];
  const read = shares.map(([db, share]) => storedStatesOf(db, share));
  const states = new Map((await Promise.all(read)).flatMap((some) => [...some]));
  return followed.map((one) => {
    const found = foundWith(one.planned, states, one.destination);
    return { followed: one, found, shown: shownOf(found) };
  });
}

function shownOf(found: FoundDelivery): string {
  if (found.kind === "planned") return "queued";
  const { state, reason, attempts, nextAttemptAt } = found.row;
  return [state, reason, attempts, nextAttemptAt].join(" ");
}

function hasEnded(found: FoundDelivery): boolean {
  return found.kind === "stored" && ["delivered", "dead", "cancelled"].includes(found.row.state);
}
