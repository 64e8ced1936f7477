/**
 * Retention by tenants and types, every minute: erases the content of events that are older than their tenant or type keeps
 * them, and that lists have hidden since; and that of delivered events of tenants which keep no payloads. Their rows stay
 * until the deployment's retention removes the whole bundle.
 *
 * Walks go over the bundles of each database in the order of their ids. They look at whose events are in a bundle, and read
 * no more of it unless something is set for one of them. Where nothing is set for anybody, a minute costs one query of
 * three rows.
 *
 * - `kept` goes over all bundles that may be old enough, four times a day.
 * - `payload_free` follows the newest bundles a minute behind, and looks at each once: by then most are delivered.
 * - `payload_late` goes over all of them, every 15 minutes, for what was delivered later.
 *
 * A step has a budget of D1 queries; what is left then is continued by pages over the queue. A step that comes twice finds
 * erased what it would erase.
 */
import { headersOf, type StoredHeader } from "../core/bundle.ts";
import { isErased } from "../core/erase.ts";
import { hasEnded, type Over, overBy } from "../db/delivery-filter.ts";
import { type ErasedBundle, type Extent, eraseFrom } from "../db/erase.ts";
import {
  bundleParts,
  eventsDone,
  type Limits,
  limitsInUse,
  limitsOf,
  type WalkedBundle,
  walkOn,
} from "../db/kept.ts";
import { countQueries, inTurn } from "../db/shards.ts";
import { moveCursor, readCursor } from "../db/sweep.ts";
import { faultOf } from "../log.ts";
import type { UpkeepMessage } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import { removeArchived } from "./archive.ts";

/** Bundles that one statement looks at. */
const PAGE = 200;
/** Queries after which a step looks at no further bundle: one bundle may take 400 more. */
const QUERIES = 300;
/** A step looks at no further bundle after this. */
const STEP_MS = 15_000;
/** No page is enqueued later than this after the cron: the next one is about to continue. */
const PAGES_MS = 35_000;
const MOST_PAGES = 20;

/** What is over is hidden: nothing of it is needed any more. */
const OVER: Extent = { cancels: false, tags: true, keys: "removed" };
/** What is delivered is shown as before, found by its tags, and a repeat of its request gets the first answer. */
const DELIVERED: Extent = { cancels: false, tags: false, keys: "kept" };

type Round = Readonly<{
  cursor: "kept" | "payload_free" | "payload_late";
  /** Bundles that were accepted longer ago are looked at, in ms. */
  ageMs: number;
  /** It begins again so long after it began; absent: it goes on where it has stopped, for ever. */
  everyMs?: number;
}>;

/** The walks for what is in use; none when nothing is. */
function roundsFor({ shortestMs, payloadFree }: Awaited<ReturnType<typeof limitsInUse>>): Round[] {
  const kept = { cursor: "kept", ageMs: shortestMs, everyMs: 6 * 3_600_000 } as const;
  const free = { cursor: "payload_free", ageMs: 60_000 } as const;
  const late = { cursor: "payload_late", ageMs: 60_000, everyMs: 15 * 60_000 } as const;
  return [...(shortestMs < Number.POSITIVE_INFINITY ? [kept] : []), ...(payloadFree ? [free, late] : [])];
}

/** The cron's step. */
export async function eraseOver(services: Services): Promise<void> {
  await eraseIn(services, 0, services.now() + PAGES_MS);
}

type KeptMessage = Extract<UpkeepMessage, { kept: number }>;

/** Continues where the step before has stopped. */
export async function eraseMore(services: Services, { kept, until }: KeptMessage): Promise<void> {
  await eraseIn(services, kept, until);
}

async function eraseIn(services: Services, page: number, until: number): Promise<void> {
  const rounds = roundsFor(await limitsInUse(services.db));
  if (rounds.length === 0) return;
  const step = new Step(services, rounds);
  const first = Math.floor(services.random() * (1 + (services.further ?? []).length));
  const { more, failure } = await inTurn(step.databases, first, step.mayGoOn, (db) => step.eraseIn(db));
  if (step.erased > 0) services.log({ what: "erased_over", events: step.erased });
  if (more && page < MOST_PAGES && services.now() < until) await enqueuePage(services, page + 1, until);
  if (failure !== undefined) throw failure;
}

/** A failure is logged: the next cron continues. */
async function enqueuePage(services: Services, page: number, until: number): Promise<void> {
  try {
    await services.drains.send({ kept: page, until });
  } catch (error) {
    services.log({ what: "retention_page_not_sent", error: faultOf(error) });
  }
}

class Step {
  readonly #services: Services;
  readonly databases: Pick<Services, "db" | "further">;
  readonly #queries: () => number;
  readonly #now: () => number;
  readonly #startedAt: number;
  readonly #over: Over;
  readonly #rounds: readonly Round[];
  /** Events whose content has been erased. */
  erased = 0;

  constructor(services: Services, rounds: readonly Round[]) {
    const { queries, ...databases } = countQueries(services);
    this.#services = services;
    this.databases = databases;
    this.#queries = queries;
    this.#now = services.now;
    this.#startedAt = services.now();
    this.#over = overBy({ ...services, ...databases });
    this.#rounds = rounds;
  }

  readonly mayGoOn = () => this.#queries() < QUERIES && this.#now() - this.#startedAt < STEP_MS;

  /** Goes on with the walks through the database; returns whether there is more to look at. */
  async eraseIn(db: D1Database): Promise<boolean> {
    let more = false;
    for (const round of this.#rounds) if (await this.#goOn(db, round)) more = true;
    return more;
  }

  async #goOn(db: D1Database, { cursor, ageMs, everyMs }: Round): Promise<boolean> {
    const from = await readCursor(db, cursor);
    const isResting = everyMs !== undefined && from.row === 0 && this.#over.now - from.at < everyMs;
    if (isResting) return false;
    const beganAt = from.row === 0 ? this.#over.now : from.at;
    const bounds = { horizon: this.#over.now - ageMs, limit: PAGE };
    let after = from.row;
    let isEnd = false;
    while (!isEnd && this.mayGoOn()) {
      const { bundles, upto, isLast } = await walkOn(db, after, bounds);
      const looked = await this.#lookAt(db, bundles);
      const isWhole = looked === bundles.length;
      after = isWhole ? upto : (bundles[looked - 1]?.id ?? after);
      isEnd = isLast && isWhole;
    }
    const row = isEnd && everyMs !== undefined ? 0 : after;
    if (row !== from.row || row === 0) await moveCursor(db, cursor, { at: beganAt, row });
    return !isEnd;
  }

  /** Returns how many of the bundles it has looked at. */
  async #lookAt(db: D1Database, bundles: readonly WalkedBundle[]): Promise<number> {
    if (bundles.length === 0) return 0;
    const [tenants, types] = [bundles.flatMap((one) => one.tenants), bundles.flatMap((one) => one.types)];
    const limits = await limitsOf(this.databases.db, tenants, types);
    for (const [looked, bundle] of bundles.entries()) {
      if (!isConcerned(bundle, limits, this.#over)) continue;
      await this.#erase(db, bundle, limits);
      if (!this.mayGoOn()) return looked + 1;
    }
    return bundles.length;
  }

  async #erase(db: D1Database, { id, dueAt }: WalkedBundle, limits: Limits): Promise<void> {
    const parts = await bundleParts(db, id);
    if (parts === undefined) return;
    const { plan, header } = parts;
    const { now } = this.#over;
    const isOver = (about: About) => dueAt <= now - limits.keptMs(about);
    const isFree = ({ tenant }: About) => limits.isPayloadFree(tenant);
    const over = await eventsDone(db, id, plan, openIn(header, isOver), (end) => hasEnded(end, this.#over));
    if (over.length > 0) await this.#eraseFrom(db, { id, plan, indexes: over }, OVER);
    const others = openIn(header, isFree).filter((index) => !over.includes(index));
    const free = await eventsDone(db, id, plan, others, ({ state }) => isDelivered(state));
    if (free.length > 0) await this.#eraseFrom(db, { id, plan, indexes: free }, DELIVERED);
    this.erased += over.length + free.length;
  }

  async #eraseFrom(db: D1Database, bundle: ErasedBundle, extent: Extent): Promise<void> {
    await removeArchived(this.#services, await eraseFrom(db, bundle, extent, this.#over.now));
  }
}

type About = Readonly<{ tenant: string; type: string }>;

/** The indexes of such events that still have their content. */
function openIn(header: StoredHeader, isMeant: (about: About) => boolean): number[] {
  return headersOf(header).flatMap((about, index) =>
    isMeant(about) && !isErased(header, index) ? [index] : [],
  );
}

/** What is cancelled will not be delivered; what is dead may be, by a retry. */
function isDelivered(state: string): boolean {
  return state === "delivered" || state === "cancelled";
}

/** Whether an event of the bundle may lose its content: by what is set for one of its tenants, or one of its types. */
function isConcerned(
  { dueAt, tenants, types }: WalkedBundle,
  { keptMs, isPayloadFree }: Limits,
  { now }: Over,
): boolean {
  const shortest = Math.min(
    ...tenants.map((tenant) => keptMs({ tenant, type: "" })),
    ...types.map((type) => keptMs({ tenant: "", type })),
  );
  return dueAt <= now - shortest || tenants.some(isPayloadFree);
}
