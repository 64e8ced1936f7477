/**
 * Order by key: which deliveries of a destination are in one line, and which of them may be attempted.
 *
 * Every open ordered delivery has a row of `lines` from its commit to its end (store/lines.ts). The one with the lowest
 * event number is the head of its key. Numbers only grow, so a head stays the head until it ends: a sender that has
 * read that a delivery is the head may send it without another read.
 */
import { numberOf, valueAt } from "./json-value.ts";

/** `destination`: all events are in one line. `key`: those with the same key are. */
export const orderings = ["destination", "key"] as const;
export type Ordering = (typeof orderings)[number];

/** What happens when the head of a line ends as dead: the next one continues, or the line waits for a decision. */
export const deadEnds = ["skip", "hold"] as const;
export type DeadEnd = (typeof deadEnds)[number];

/** Characters of an event's `ordering_key`. */
export const MAX_ORDERING_KEY = 128;

/** A path from `data` to a value, through keys of objects. */
export const ORDERING_PATH = /^data(\.[^"\\.\p{Cc}]{1,100}){1,10}$/u;

/** How a destination orders its deliveries. */
export type OrderRule = Readonly<{
  by: Ordering;
  /** Where in an event the key is; null: its `ordering_key`. */
  path: string | null;
  /** Whether a key waits when its head has ended as dead. */
  holds: boolean;
  /** How long a delivery may wait for its first attempt, ms. */
  expireAfterMs: number;
}>;

type OrderedEvent = Readonly<{
  orderingKey?: string | undefined;
  /** Whether it is delivered later than it is accepted: then it is in no line. */
  isScheduled: boolean;
  /** The event's data; undefined if it has none. Called only for a path. */
  data: () => unknown;
}>;

/** The line of an event at a destination; undefined: none. */
export function lineOf({ by, path }: OrderRule, event: OrderedEvent): string | undefined {
  if (event.isScheduled) return undefined;
  if (by === "destination") return ONE_LINE;
  const key = path === null ? event.orderingKey : textOf(valueAt(event.data(), path.split(".").slice(1)));
  return key === undefined ? undefined : hashOf(key);
}

/** Whether it orders events without an `ordering_key`: then all of their tenant's have to be numbered by one database. */
export function pinsTenant({ by, path }: OrderRule): boolean {
  return by === "destination" || path !== null;
}

/** The line of a destination that has only one. No hash has this value. */
export const ONE_LINE = "*";

/**
 * Appended to the name of a line: the line of deliveries that replays send again. It has a separate order, because they
 * have been overtaken already, and must not delay new events.
 */
export const REPLAYED = "~";

/**
 * Texts, numbers and booleans are keys, and nothing else. Digits beyond a double's precision never count, because not
 * every reader has them.
 */
function textOf(value: unknown): string | undefined {
  const scalar = numberOf(value) ?? value;
  return scalar === null || scalar === undefined || typeof scalar === "object" ? undefined : String(scalar);
}

/**
 * 64 bits of a key, so that rows are small and show no content. Keys with the same hash share a line, which keeps the
 * order of both.
 */
function hashOf(text: string): string {
  let high = 0xdeadbeef;
  let low = 0x41c6ce57;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    high = Math.imul(high ^ code, 0x9e3779b1);
    low = Math.imul(low ^ code, 0x5f356495);
  }
  high = Math.imul(high ^ (high >>> 16), 0x85ebca6b) ^ Math.imul(low ^ (low >>> 13), 0xc2b2ae35);
  low = Math.imul(low ^ (low >>> 16), 0x85ebca6b) ^ Math.imul(high ^ (high >>> 13), 0xc2b2ae35);
  return [high, low].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
}

/** The place of an open ordered delivery. */
export type LinePlace = Readonly<{
  line: string;
  /** The event right before it in its line; null: it is the head. */
  before: number | null;
  /** Whether its line waits when it ends as dead. */
  holds: boolean;
}>;

type Placed = Readonly<{
  event: Readonly<{ id: number }>;
  destination: Readonly<{ id: string }>;
  place?: LinePlace | undefined;
}>;

/** Whether another delivery of its line has to end first. */
export function standsBehind({ place }: Pick<Placed, "place">): boolean {
  return place !== undefined && place.before !== null;
}

/** The delivery right before one in its line, among these. */
export function predecessors<D extends Placed>(deliveries: readonly D[]): ReadonlyMap<D, D> {
  const behind = deliveries.filter(standsBehind);
  if (behind.length === 0) return NONE as ReadonlyMap<D, D>;
  const nameOf = (event: number | null | undefined, { destination }: Placed) => `${event} ${destination.id}`;
  const byName = new Map(deliveries.map((one) => [nameOf(one.event.id, one), one]));
  return new Map(
    behind.flatMap((one) => {
      const before = byName.get(nameOf(one.place?.before, one));
      return before ? [[one, before] as const] : [];
    }),
  );
}

const NONE: ReadonlyMap<unknown, unknown> = new Map();

/**
 * The deliveries whose turn has come: unordered ones, heads, and those right behind them as far as the line is among
 * these. The others are `parked`: the sender that ends the delivery before them has them sent.
 */
export function whoseTurn<D extends Placed>(deliveries: readonly D[]): Readonly<{ ready: D[]; parked: D[] }> {
  const before = predecessors(deliveries);
  const parked = new Set<D>();
  for (const one of deliveries.filter(standsBehind).sort((a, b) => a.event.id - b.event.id)) {
    const former = before.get(one);
    if (former === undefined || parked.has(former)) parked.add(one);
  }
  return { ready: deliveries.filter((one) => !parked.has(one)), parked: [...parked] };
}

/**
 * Which of those that have ended under a lease to record while it continues: all but the last of each line that has
 * `open` ones under it. So the record at the lease's end names every line that it leaves.
 * @param ended in the order of their ends
 */
export function endedBeforeLast<D extends Placed>(
  ended: readonly D[],
  open: readonly D[],
): Readonly<{ ended: readonly D[]; followed: ReadonlySet<D> }> {
  const lines = new Set(open.flatMap(({ place }) => place?.line ?? []));
  const isOpen = ({ place }: D) => place !== undefined && lines.has(place.line);
  const last = new Map(ended.map((one) => [one.place?.line, one]));
  const before = ended.filter((one) => !isOpen(one) || last.get(one.place?.line) !== one);
  return { ended: before, followed: new Set(before.filter(isOpen)) };
}
