/**
 * Positions in a polled destination's inbox. An inbox is several logs: the events of each database in the order of
 * their numbers, and one of events that became due after they were accepted (scheduled, replayed, sent again), which
 * have a position of their own, because their numbers may be lower than those already handed out. Entries are only ever
 * appended to a log, so a position in each of them skips nothing.
 */

/** The stored target of a polled destination, in the place of a URL. */
export const POLLED_TARGET = "poll:inbox";

/** A position: how far an inbox has been read. */
export type InboxPosition = Readonly<{
  /** The position of the last late event. */
  late: number;
  /** By database number: the first event number that has not been read; absent: none has. */
  next: readonly number[];
}>;

export const INBOX_START: InboxPosition = { late: 0, next: [] };

/** Whether the positions are the same. */
export function isSamePosition(a: InboxPosition, b: InboxPosition): boolean {
  const databases = Math.max(a.next.length, b.next.length);
  const isSame = (database: number) => (a.next[database] ?? 0) === (b.next[database] ?? 0);
  return a.late === b.late && Array.from({ length: databases }, (_, database) => database).every(isSame);
}

/** The position with another one in a database's log. */
export function withNext({ late, next }: InboxPosition, database: number, event: number): InboxPosition {
  const length = Math.max(next.length, database + 1);
  return { late, next: Array.from({ length }, (_, i) => (i === database ? event : (next[i] ?? 0))) };
}

/** A position as callers store it: decimal numbers with dots between, of late events and of each database. */
export function positionText({ late, next }: InboxPosition): string {
  return [late, ...next].join(".");
}

export function positionIn(text: string): InboxPosition | undefined {
  if (!/^\d{1,15}(\.\d{1,16}){0,8192}$/.test(text)) return undefined;
  const [late = 0, ...next] = text.split(".").map(Number);
  return { late, next };
}

/** Names a page: a consumer sends it back to commit the page. */
type InboxIterator = Readonly<{
  consumer: string;
  /** 0: there was nothing to commit. */
  page: number;
}>;

export const CONSUMER = /^[A-Za-z0-9_-]{1,64}$/;

export function iteratorText({ consumer, page }: InboxIterator): string {
  return `${consumer}.${page}`;
}

export function iteratorIn(text: string): InboxIterator | undefined {
  const [, consumer, page] = /^([A-Za-z0-9_-]{1,64})\.(\d{1,15})$/.exec(text) ?? [];
  return consumer === undefined ? undefined : { consumer, page: Number(page) };
}

export const PAGE_EVENTS = 1_000;
/** Bytes of the bodies of a page, unless its only event has more. */
export const PAGE_BYTES = 1024 * 1024;
/** Pages of a consumer that are neither committed nor returned, at most. */
export const MOST_PAGES = 1_000;
/** Events of a consumer that have been returned and are not handed out yet, at most. */
export const MOST_RETURNED = 10_000;
export const MOST_CONSUMERS = 100;
