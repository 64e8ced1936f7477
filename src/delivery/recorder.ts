/**
 * Records dispositions: an invocation makes one write at a time to each database; the next write has everything that
 * was reported meanwhile. A write that fails is repeated, because it is idempotent. One that does not answer in time is
 * not awaited any longer: the next is made beside it.
 */

import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { DeliveryRecord } from "../store/delivery.ts";
import { recordOutcomes, recordsByDatabase } from "../store/record.ts";
import type { StatusChange } from "../store/status-changes.ts";
import { attemptWaiting } from "./message-group.ts";
import type { Disposition } from "./outcome.ts";

const TRIES = 3;
/** Before the second try, doubled before the third; each is shortened by up to half, so that invocations spread. */
const PAUSE_MS = 250;
/**
 * How long a report waits if others of the same batch may report in a moment. No longer than a write takes: without
 * this wait, a report in that time would wait for this write, and then for its own.
 */
export const LINGER_MS = 10;
/**
 * How long a report waits to share a write if no lease, and so no capacity, depends on it. About as long as a receiver
 * usually takes, so that refused deliveries are written together with delivered ones.
 */
export const RIDE_MS = 250;
/**
 * How long the reports that follow a write wait for its answer. The leases that they end give a settlement five seconds
 * (SETTLE_MARGIN_MS in core/lease.ts): then they expire, and what was sent may be sent again.
 */
export const STALLED_MS = 2_000;

/** Rows that are reported together, and written as a whole. */
type Entry = Readonly<{
  rows: readonly DeliveryRecord[];
  /** Destinations to be paused. */
  gone: readonly string[];
  recorded: PromiseWithResolvers<readonly StatusChange[]>;
}>;

/** A write under way. */
type Write = Readonly<{ stalledAt: number }>;

/** The recorder of one invocation. */
export class Recorder {
  readonly #services: Services;
  readonly #lanes = new Map<D1Database, Lane>();

  constructor(services: Services) {
    this.#services = services;
  }

  /**
   * Resolves when the dispositions are in D1, with the pauses of destinations that are gone. Rejects when they cannot
   * be written. They are written at once, or with what is reported while another write is under way.
   * @param waitMs how long they may wait for others, to share a write. A report without a wait, even an empty one,
   *   takes along all waiting reports
   */
  async report(dispositions: readonly Disposition[], waitMs = 0): Promise<readonly StatusChange[]> {
    const rows = dispositions.flatMap(({ row }) => row ?? []);
    const gone = new Set(dispositions.flatMap((one) => (one.gone ? one.delivery.destination.id : [])));
    const shares = recordsByDatabase(this.#services, rows, [...gone]);
    const recorded = [...shares].map(([db, share]) => this.#laneOf(db).add(share.rows, share.gone, waitMs));
    if (waitMs === 0) for (const lane of this.#lanes.values()) void lane.write();
    const paused = (await Promise.all(recorded)).flat();
    this.#reportHeld(dispositions);
    return paused;
  }

  #reportHeld(dispositions: readonly Disposition[]): void {
    const held = dispositions.flatMap(({ delivery: { event, destination }, row }) =>
      row?.state === "dead" && row.place?.holds ? [{ event: event.id, destination }] : [],
    );
    const { background, notify } = this.#services;
    if (held.length > 0) background(notify(this.#services, { held }));
  }

  #laneOf(db: D1Database): Lane {
    const lane = this.#lanes.get(db) ?? new Lane(this.#services);
    this.#lanes.set(db, lane);
    return lane;
  }
}

/** Writes to one database: one after the other, unless one of them stalls. */
class Lane {
  readonly #services: Services;
  #gathered: Entry[] = [];
  /** When the gathered reports are to be written. */
  #dueAt = Number.POSITIVE_INFINITY;
  /** The current write, which later reports wait for. */
  #current: Write | undefined;
  /** The last write that is watched for stalling: a write is watched only if reports wait for it. */
  #watched: Write | undefined;

  constructor(services: Services) {
    this.#services = services;
  }

  add(
    rows: readonly DeliveryRecord[],
    gone: readonly string[],
    waitMs: number,
  ): Promise<readonly StatusChange[]> {
    const recorded = Promise.withResolvers<readonly StatusChange[]>();
    this.#gathered.push({ rows, gone, recorded });
    if (this.#current) this.#watch(this.#current);
    else if (waitMs > 0) this.#writeAt(this.#services.now() + waitMs);
    return recorded.promise;
  }

  #writeAt(at: number): void {
    if (at >= this.#dueAt) return;
    this.#dueAt = at;
    const { sleep, now } = this.#services;
    void sleep(at - now()).then(() => {
      if (this.#dueAt === at) void this.write();
    });
  }

  #watch(write: Write): void {
    if (this.#watched === write) return;
    this.#watched = write;
    const { sleep, now } = this.#services;
    void sleep(Math.max(0, write.stalledAt - now())).then(() => {
      if (this.#current !== write) return;
      this.#current = undefined;
      void this.write();
    });
  }

  /**
   * Writes the gathered reports, one write after the other, unless a write under way will be followed by another
   * anyway.
   */
  async write(): Promise<void> {
    const { now } = this.#services;
    let own: Write | undefined;
    // Until there is nothing more, or another has taken over.
    while (this.#gathered.length > 0 && this.#current === own) {
      own = { stalledAt: now() + STALLED_MS };
      this.#current = own;
      this.#dueAt = Number.POSITIVE_INFINITY;
      const entries = this.#gathered.splice(0);
      // The same time for every repeat: this write's pauses are found by it, whichever repeat made them.
      await write(this.#services, entries, now());
    }
    if (this.#current === own) this.#current = undefined;
  }
}

/** Records for an invocation that makes only one report. */
export function report(
  services: Services,
  dispositions: readonly Disposition[],
): Promise<readonly StatusChange[]> {
  return new Recorder(services).report(dispositions);
}

/** The last try is made with each entry by itself: an entry that D1 refuses does not prevent others from being recorded. */
async function write(services: Services, entries: readonly Entry[], now: number, attempt = 1): Promise<void> {
  const rows = entries.flatMap((entry) => entry.rows);
  const gone = new Set(entries.flatMap((entry) => entry.gone));
  try {
    const { paused, next } = await recordOutcomes(services, rows, [...gone], now);
    resolveAll(entries, paused);
    // Not awaited: if it fails, a drain comes for them.
    if (next.length > 0) services.background(attemptWaiting(services, next));
  } catch (error) {
    services.log({ what: "record_failed", deliveries: rows.length, attempt, error: faultOf(error) });
    if (attempt === TRIES) return rejectAll(entries, error);
    await services.sleep(Math.round(PAUSE_MS * 2 ** (attempt - 1) * (1 - services.random() / 2)));
    const portions = attempt + 1 < TRIES ? [entries] : entries.map((entry) => [entry]);
    for (const portion of portions) await write(services, portion, now, attempt + 1);
  }
}

/** Each pause goes to one of the entries that requested it, to be published once. */
function resolveAll(entries: readonly Entry[], paused: readonly StatusChange[]): void {
  let left = paused;
  for (const { gone, recorded } of entries) {
    recorded.resolve(left.filter(({ id }) => gone.includes(id)));
    left = left.filter(({ id }) => !gone.includes(id));
  }
}

function rejectAll(entries: readonly Entry[], error: unknown): void {
  for (const { recorded } of entries) recorded.reject(error);
}
