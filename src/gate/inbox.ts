/**
 * The inbox of a polled destination, in the storage of its gate: the consumers' positions, the pages that are handed
 * out, and the log of late events (core/inbox.ts). Events themselves are in D1, and Workers read them.
 *
 * Pages of a consumer follow each other without a gap: each begins where the one before it ends, and the object refuses
 * one that begins elsewhere. A page is handed out until a time; after that, another process gets the same page. A
 * consumer's position is the end of its oldest committed pages, so it never passes an uncommitted one.
 *
 * Everything here is synchronous, so no other call sees a change half-way.
 */
import {
  INBOX_START,
  type InboxPosition,
  isSamePosition,
  MOST_CONSUMERS,
  MOST_PAGES,
  MOST_RETURNED,
} from "../core/inbox.ts";

export type LateEvent = Readonly<{ position: number; event: number; placedAt: number }>;

/** A page that is handed out: the events between the positions, or events that were returned. */
export type InboxPage = Readonly<{
  page: number;
  start: InboxPosition;
  end: InboxPosition;
  /** Returned events: the page is these, and no range. */
  events: readonly number[] | null;
  /** The events of the page that have been acknowledged or returned. */
  done: readonly number[];
  /** The late events of the page's range. */
  late: readonly LateEvent[];
}>;

/** The next page of a consumer, or where it begins. */
export type NextInInbox =
  /** A page that was handed out before, or one of returned events: it is handed out again. */
  | (Readonly<{ kind: "page" }> & InboxPage)
  /**
   * The range after the last page, to be read and then claimed. `againAt`: when a page or a returned event is to be
   * handed out again, epoch ms; null: there is none.
   */
  | Readonly<{ kind: "unread"; start: InboxPosition; late: readonly LateEvent[]; againAt: number | null }>
  /** There are too many pages without a commit, or too many consumers. */
  | Readonly<{ kind: "full"; of: "pages" | "consumers" }>;

export type PageRequest = Readonly<{
  consumer: string;
  limit: number;
  /** How long a page is handed out, in ms. */
  visibleMs: number;
  /** Whether the consumer has one process: its uncommitted pages are handed out again at once. */
  isAlone?: boolean;
}>;

export type PageClaim = Readonly<{
  consumer: string;
  start: InboxPosition;
  end: InboxPosition;
  /** How many events the page has. */
  count: number;
  visibleMs: number;
}>;

export type PageCommit = Readonly<{
  consumer: string;
  page: number;
  /** Only these events are acknowledged; absent: all that are not returned. */
  acknowledged?: readonly number[] | undefined;
  returned: readonly Readonly<{ event: number; afterMs: number }>[];
}>;

export type CommittedPage =
  | Readonly<{ kind: "committed"; position: InboxPosition }>
  | Readonly<{ kind: "unknown_page" }>
  /** Events that are not in the page. */
  | Readonly<{ kind: "foreign"; events: readonly number[] }>
  | Readonly<{ kind: "full" }>;

/** A consumer, for people. Times are epoch ms. */
export type ConsumerView = Readonly<{
  name: string;
  position: InboxPosition;
  /** Accurate to the minute if nothing was handed out. */
  fetchedAt: number | null;
  committedAt: number | null;
  /** Pages that are handed out and not committed. */
  pages: number;
  /** Returned events that are not handed out yet. */
  returned: number;
  /** Late events behind the position, and since when the first of them could be read. */
  late: number;
  lateSince: number | null;
  /**
   * Absent if it does not lag behind, as far as the gate knows. The time, epoch ms, distinguishes one lag from the
   * next.
   */
  lagging?: Readonly<{ since: number; isPublished: boolean }>;
}>;

/** A consumer's lag has begun, was published, or has ended. */
export type LagChange = Readonly<{ consumer: string; is: "begun" | "published" | "ended"; since: number }>;

type ConsumerRow = Readonly<{
  name: string;
  position: string;
  last_page: number;
  fetched_at: number | null;
  committed_at: number | null;
}>;

type PageRow = Readonly<{
  id: number;
  start: string;
  end: string;
  events: string | null;
  done: string;
  count: number;
  committed: number;
}>;

type LaggingRow = Readonly<{ consumer: string; since: number; is_published: number }>;

const TABLES = `
  CREATE TABLE IF NOT EXISTS consumers (
    name TEXT PRIMARY KEY, position TEXT NOT NULL, last_page INTEGER NOT NULL, fetched_at INTEGER, committed_at INTEGER
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS pages (
    consumer TEXT, id INTEGER, start TEXT NOT NULL, "end" TEXT NOT NULL, events TEXT, done TEXT NOT NULL,
    count INTEGER NOT NULL, until INTEGER NOT NULL, committed INTEGER NOT NULL, PRIMARY KEY (consumer, id)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS returned (
    consumer TEXT, event INTEGER, due_at INTEGER NOT NULL, PRIMARY KEY (consumer, event)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS late (
    position INTEGER PRIMARY KEY AUTOINCREMENT, event INTEGER NOT NULL, placed_at INTEGER NOT NULL
  );
  CREATE TABLE IF NOT EXISTS lagging (
    consumer TEXT PRIMARY KEY, since INTEGER NOT NULL, is_published INTEGER NOT NULL
  ) WITHOUT ROWID;`;

const NOTES: Readonly<Record<LagChange["is"], string>> = {
  begun: "INSERT INTO lagging VALUES (?, ?, 0) ON CONFLICT DO NOTHING",
  published: "UPDATE lagging SET is_published = 1 WHERE consumer = ? AND since = ?",
  ended: "DELETE FROM lagging WHERE consumer = ? AND since = ?",
};

/** Late events that are too old and are removed when one is added. */
const REMOVED_AT_ONCE = 4;
/** The shortest time between writes for fetches that hand out nothing. */
const FETCH_WRITTEN_MS = 60_000;

export class Inbox {
  readonly #storage: DurableObjectStorage;
  #hasTables = false;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** The storage has been emptied. */
  forget(): void {
    this.#hasTables = false;
  }

  /** Adds an event to the log of late ones, and removes some that were added before `keptSince`. */
  place(event: number, now: number, keptSince: number): void {
    this.#rows("INSERT INTO late (event, placed_at) VALUES (?, ?)", event, now);
    this.#rows(
      `DELETE FROM late WHERE position IN (
        SELECT position FROM (SELECT position, placed_at FROM late ORDER BY position LIMIT ${REMOVED_AT_ONCE})
        WHERE placed_at < ?)`,
      keptSince,
    );
  }

  next({ consumer, limit, visibleMs, isAlone = false }: PageRequest, now: number): NextInInbox {
    const known = this.#consumer(consumer);
    if (known === undefined && this.#count("consumers") >= MOST_CONSUMERS)
      return { kind: "full", of: "consumers" };
    const page =
      this.#overduePage(consumer, now + visibleMs, isAlone ? Number.MAX_SAFE_INTEGER : now) ??
      this.#returnedPage(consumer, limit, now + visibleMs, now);
    if (page) return { kind: "page", ...page };
    const open = this.#count("pages WHERE consumer = ? AND committed = 0", consumer);
    if (open >= MOST_PAGES) return { kind: "full", of: "pages" };
    if (now - (known?.fetched_at ?? 0) >= FETCH_WRITTEN_MS) this.#keepFetch(consumer, now);
    const start = this.#head(consumer);
    const late = this.late(start.late, undefined, limit);
    return { kind: "unread", start, late, againAt: this.#againAt(consumer) };
  }

  /**
   * Hands out a page that follows the last one. Undefined if another one has been handed out meanwhile. A page without
   * events is committed at once, and its number is 0.
   */
  claim({ consumer, start, end, count, visibleMs }: PageClaim, now: number): number | undefined {
    if (!isSamePosition(start, this.#head(consumer))) return undefined;
    if (isSamePosition(start, end)) return 0;
    const page = this.#addPage(consumer, { start, end, events: null, count, until: now + visibleMs }, now);
    if (count > 0) return page;
    this.commit({ consumer, page, returned: [] }, now);
    return 0;
  }

  /** Acknowledges a page or events of it, and returns others, which are handed out again later. Safe to repeat. */
  commit({ consumer, page, acknowledged, returned }: PageCommit, now: number): CommittedPage {
    const known = this.#consumer(consumer);
    if (known === undefined || page > known.last_page) return { kind: "unknown_page" };
    const row = this.#page(consumer, page);
    if (row === undefined || row.committed === 1)
      return { kind: "committed", position: JSON.parse(known.position) };
    const ended = [...(acknowledged ?? []), ...returned.map(({ event }) => event)];
    const foreign = ended.filter((event) => !this.#isIn(row, event));
    if (foreign.length > 0) return { kind: "foreign", events: foreign };
    if (this.#count("returned WHERE consumer = ?", consumer) + returned.length > MOST_RETURNED)
      return { kind: "full" };
    for (const { event, afterMs } of returned)
      this.#rows("INSERT OR REPLACE INTO returned VALUES (?, ?, ?)", consumer, event, now + afterMs);
    const done = [...new Set([...(JSON.parse(row.done) as number[]), ...ended])];
    if (acknowledged !== undefined && done.length < row.count) {
      const set = "UPDATE pages SET done = ? WHERE consumer = ? AND id = ?";
      this.#rows(set, JSON.stringify(done), consumer, page);
      return { kind: "committed", position: JSON.parse(known.position) };
    }
    return { kind: "committed", position: this.#commitPage(consumer, row, now) };
  }

  /**
   * The consumer starts over: at a position in the databases, and at the late events since a time. Its pages can no
   * longer be committed.
   */
  seek(consumer: string, next: InboxPosition["next"], since: number, now: number): boolean {
    const isNew = this.#consumer(consumer) === undefined;
    if (isNew && this.#count("consumers") >= MOST_CONSUMERS) return false;
    this.#keepFetch(consumer, now);
    const position = { late: this.lateBefore(since), next };
    this.#rows("DELETE FROM pages WHERE consumer = ?", consumer);
    this.#rows("DELETE FROM returned WHERE consumer = ?", consumer);
    this.#rows("UPDATE consumers SET position = ? WHERE name = ?", JSON.stringify(position), consumer);
    return true;
  }

  /** The late events behind a position, up to another. */
  late(after: number, upto = Number.MAX_SAFE_INTEGER, limit = Number.MAX_SAFE_INTEGER): LateEvent[] {
    return this.#rows<LateEvent>(
      `SELECT position, event, placed_at AS placedAt FROM late
       WHERE position > ? AND position <= ? ORDER BY position LIMIT ?`,
      ...[after, upto, limit],
    );
  }

  /** A position before all late events that were placed at a time or later, even if the clock has gone back meanwhile. */
  lateBefore(since: number): number {
    const last = `SELECT coalesce(
      (SELECT min(position) - 1 FROM late WHERE placed_at >= ?), (SELECT max(position) FROM late), 0) AS late`;
    return this.#rows<{ late: number }>(last, since)[0]?.late ?? 0;
  }

  /** Notes which lags are known and published. A change that another one has overtaken changes nothing. */
  noteLags(changes: readonly LagChange[]): void {
    for (const { consumer, is, since } of changes) this.#rows(NOTES[is], consumer, since);
  }

  /** The consumers, by name. */
  view(): ConsumerView[] {
    const lags = new Map(
      this.#rows<LaggingRow>("SELECT * FROM lagging").map((row) => [row.consumer, row] as const),
    );
    return this.#rows<ConsumerRow>("SELECT * FROM consumers ORDER BY name").map((row) => {
      const position = JSON.parse(row.position) as InboxPosition;
      const lag = lags.get(row.name);
      return {
        name: row.name,
        position,
        fetchedAt: row.fetched_at,
        committedAt: row.committed_at,
        pages: this.#count("pages WHERE consumer = ? AND committed = 0", row.name),
        returned: this.#count("returned WHERE consumer = ?", row.name),
        late: this.#count("late WHERE position > ?", position.late),
        lateSince: this.late(position.late, undefined, 1)[0]?.placedAt ?? null,
        ...(lag && { lagging: { since: lag.since, isPublished: lag.is_published === 1 } }),
      };
    });
  }

  /** Hands out again the oldest page whose visibility has expired. */
  #overduePage(consumer: string, until: number, overdueAt: number): InboxPage | undefined {
    const [row] = this.#rows<PageRow>(
      "SELECT * FROM pages WHERE consumer = ? AND committed = 0 AND until <= ? ORDER BY id LIMIT 1",
      consumer,
      overdueAt,
    );
    if (row === undefined) return undefined;
    this.#rows("UPDATE pages SET until = ? WHERE consumer = ? AND id = ?", until, consumer, row.id);
    const start = JSON.parse(row.start) as InboxPosition;
    const end = JSON.parse(row.end) as InboxPosition;
    return {
      page: row.id,
      start,
      end,
      events: row.events === null ? null : JSON.parse(row.events),
      done: JSON.parse(row.done),
      late: this.late(start.late, end.late),
    };
  }

  /** A page of the events that were returned and are due. */
  #returnedPage(consumer: string, limit: number, until: number, now: number): InboxPage | undefined {
    const events = this.#rows<{ event: number }>(
      "SELECT event FROM returned WHERE consumer = ? AND due_at <= ? ORDER BY due_at, event LIMIT ?",
      consumer,
      now,
      limit,
    ).map(({ event }) => event);
    if (events.length === 0) return undefined;
    const at = INBOX_START;
    const page = this.#addPage(consumer, { start: at, end: at, events, count: events.length, until }, now);
    const handedOut = "DELETE FROM returned WHERE consumer = ? AND event IN (SELECT value FROM json_each(?))";
    this.#rows(handedOut, consumer, JSON.stringify(events));
    return { page, start: at, end: at, events, done: [], late: [] };
  }

  #addPage(
    consumer: string,
    added: Pick<InboxPage, "start" | "end" | "events"> & Readonly<{ count: number; until: number }>,
    now: number,
  ): number {
    this.#keepFetch(consumer, now);
    const page = (this.#consumer(consumer)?.last_page ?? 0) + 1;
    const { start, end, events, count, until } = added;
    const place = [JSON.stringify(start), JSON.stringify(end), events && JSON.stringify(events)];
    const put = "INSERT INTO pages VALUES (?, ?, ?, ?, ?, '[]', ?, ?, 0)";
    this.#rows(put, consumer, page, ...place, count, until);
    this.#rows("UPDATE consumers SET last_page = ? WHERE name = ?", page, consumer);
    return page;
  }

  /** Returns the consumer's position, which moves to the end of its oldest pages that are committed. */
  #commitPage(consumer: string, { id, events }: PageRow, now: number): InboxPosition {
    if (events === null)
      this.#rows("UPDATE pages SET committed = 1 WHERE consumer = ? AND id = ?", consumer, id);
    else this.#rows("DELETE FROM pages WHERE consumer = ? AND id = ?", consumer, id);
    const open = this.#rows<{ id: number }>(
      "SELECT id FROM pages WHERE consumer = ? AND events IS NULL AND committed = 0 ORDER BY id LIMIT 1",
      consumer,
    )[0]?.id;
    const before = open ?? Number.MAX_SAFE_INTEGER;
    const [last] = this.#rows<{ end: string }>(
      'SELECT "end" FROM pages WHERE consumer = ? AND id < ? AND events IS NULL ORDER BY id DESC LIMIT 1',
      consumer,
      before,
    );
    if (last !== undefined) {
      this.#rows("DELETE FROM pages WHERE consumer = ? AND id < ? AND events IS NULL", consumer, before);
      this.#rows("UPDATE consumers SET position = ? WHERE name = ?", last.end, consumer);
    } else if (events === null) this.#join(consumer, id);
    this.#rows("UPDATE consumers SET committed_at = ? WHERE name = ?", now, consumer);
    return JSON.parse(this.#consumer(consumer)?.position ?? "");
  }

  /** Joins a committed page to its neighbours that are committed too, so that one which stays open leaves few rows behind it. */
  #join(consumer: string, id: number): void {
    const ranges = "FROM pages WHERE consumer = ? AND events IS NULL";
    const [before] = this.#rows<PageRow>(
      `SELECT * ${ranges} AND id < ? ORDER BY id DESC LIMIT 1`,
      consumer,
      id,
    );
    const [after] = this.#rows<PageRow>(`SELECT * ${ranges} AND id > ? ORDER BY id LIMIT 1`, consumer, id);
    const first = before?.committed === 1 ? before.id : id;
    const last = after?.committed === 1 ? after.id : id;
    if (first === last) return;
    const move =
      'UPDATE pages SET "end" = (SELECT "end" FROM pages WHERE consumer = ?1 AND id = ?3) WHERE consumer = ?1 AND id = ?2';
    this.#rows(move, consumer, first, last);
    this.#rows(
      "DELETE FROM pages WHERE consumer = ? AND id > ? AND id <= ? AND events IS NULL",
      consumer,
      first,
      last,
    );
  }

  /** Where the consumer's next page begins. */
  #head(consumer: string): InboxPosition {
    const [last] = this.#rows<{ end: string }>(
      'SELECT "end" FROM pages WHERE consumer = ? AND events IS NULL ORDER BY id DESC LIMIT 1',
      consumer,
    );
    const position = last?.end ?? this.#consumer(consumer)?.position;
    return position === undefined ? INBOX_START : JSON.parse(position);
  }

  #againAt(consumer: string): number | null {
    const [row] = this.#rows<{ at: number | null }>(
      `SELECT min(at) AS at FROM (
        SELECT min(until) AS at FROM pages WHERE consumer = ?1 AND committed = 0
        UNION ALL SELECT min(due_at) FROM returned WHERE consumer = ?1)`,
      consumer,
    );
    return row?.at ?? null;
  }

  #isIn({ start, end, events }: PageRow, event: number): boolean {
    if (events !== null) return (JSON.parse(events) as number[]).includes(event);
    const [from, to] = [JSON.parse(start) as InboxPosition, JSON.parse(end) as InboxPosition];
    const isInRange = to.next.some((next, database) => event >= (from.next[database] ?? 0) && event < next);
    return isInRange || this.late(from.late, to.late).some((late) => late.event === event);
  }

  #consumer(name: string): ConsumerRow | undefined {
    return this.#rows<ConsumerRow>("SELECT * FROM consumers WHERE name = ?", name)[0];
  }

  #page(consumer: string, page: number): PageRow | undefined {
    return this.#rows<PageRow>("SELECT * FROM pages WHERE consumer = ? AND id = ?", consumer, page)[0];
  }

  #keepFetch(consumer: string, now: number): void {
    const put = `
      INSERT INTO consumers VALUES (?, ?, 0, ?, NULL) ON CONFLICT DO UPDATE SET fetched_at = excluded.fetched_at`;
    this.#rows(put, consumer, JSON.stringify(INBOX_START), now);
  }

  /** @param from a table, and which of its rows */
  #count(from: string, ...values: readonly (string | number)[]): number {
    return this.#rows<{ n: number }>(`SELECT count(*) AS n FROM ${from}`, ...values)[0]?.n ?? 0;
  }

  #rows<Row = never>(statement: string, ...values: readonly (string | number | null)[]): Row[] {
    const { sql } = this.#storage;
    if (!this.#hasTables) sql.exec(TABLES);
    this.#hasTables = true;
    return sql.exec(statement, ...values).toArray() as Row[];
  }
}
