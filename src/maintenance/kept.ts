/**
 * Retention by tenants and types, every minute: erases the content of events that are older than their tenant or type keeps
 * them, and that lists have hidden since. Their rows stay until the deployment's retention removes the whole bundle.
 *
 * A walk goes over the bundles of each database in the order of their ids, begins again a few hours after it has come to
 * the end, and passes what has not ended. It looks at whose events are in a bundle, and reads no more of it unless
 * something is set for one of them. Where nothing is set for anybody, a minute costs one query of three rows.
 *
 * A step has a budget of D1 queries; what is left then is continued by pages over the queue. A step that comes twice finds
 * erased what it would erase.
 */
import { headersOf } from "../core/bundle.ts";
import { isErased } from "../core/erase.ts";
import { hasEnded, type Over, overBy } from "../db/delivery-filter.ts";
import { type Extent, eraseFrom } from "../db/erase.ts";
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

/** Bundles that one statement looks at. */
const PAGE = 200;
/** Queries after which a step looks at no further bundle: one bundle may take 400 more. */
const QUERIES = 300;
/** A step looks at no further bundle after this. */
const STEP_MS = 15_000;
/** No page is enqueued later than this after the cron: the next one is about to continue. */
const PAGES_MS = 35_000;
const MOST_PAGES = 20;
/** A walk begins again so long after it began: four times in the shortest time that can be set. */
const ROUND_MS = 6 * 3_600_000;

const OVER: Extent = { cancels: false, tags: true, keys: "removed" };

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
  const { shortestMs } = await limitsInUse(services.db);
  if (shortestMs === Number.POSITIVE_INFINITY) return;
  const step = new Step(services, shortestMs);
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
  readonly databases: Pick<Services, "db" | "further">;
  readonly #queries: () => number;
  readonly #now: () => number;
  readonly #startedAt: number;
  readonly #over: Over;
  readonly #shortestMs: number;
  /** Events whose content has been erased. */
  erased = 0;

  constructor(services: Services, shortestMs: number) {
    const { queries, ...databases } = countQueries(services);
    this.databases = databases;
    this.#queries = queries;
    this.#now = services.now;
    this.#startedAt = services.now();
    this.#over = overBy({ ...services, ...databases });
    this.#shortestMs = shortestMs;
  }

  readonly mayGoOn = () => this.#queries() < QUERIES && this.#now() - this.#startedAt < STEP_MS;

  /** Goes on with the walk through the database; returns whether there is more to look at. */
  async eraseIn(db: D1Database): Promise<boolean> {
    const from = await readCursor(db, "kept");
    const isResting = from.row === 0 && this.#over.now - from.at < ROUND_MS;
    if (isResting) return false;
    const beganAt = from.row === 0 ? this.#over.now : from.at;
    const bounds = { horizon: this.#over.now - this.#shortestMs, limit: PAGE };
    let after = from.row;
    for (;;) {
      const { bundles, upto, isLast } = await walkOn(db, after, bounds);
      const looked = await this.#lookAt(db, bundles);
      const isWhole = looked === bundles.length;
      after = isWhole ? upto : (bundles[looked - 1]?.id ?? after);
      if ((isLast && isWhole) || !this.mayGoOn()) {
        const isEnd = isLast && isWhole;
        await moveCursor(db, "kept", { at: beganAt, row: isEnd ? 0 : after });
        return !isEnd;
      }
    }
  }

  /** Returns how many of the bundles it has looked at. */
  async #lookAt(db: D1Database, bundles: readonly WalkedBundle[]): Promise<number> {
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
    const isOver = (about: { tenant: string; type: string }) =>
      dueAt <= this.#over.now - limits.keptMs(about);
    const old = headersOf(header).flatMap((about, index) =>
      isOver(about) && !isErased(header, index) ? [index] : [],
    );
    if (old.length === 0) return;
    const indexes = await eventsDone(db, id, plan, old, (end) => hasEnded(end, this.#over));
    if (indexes.length === 0) return;
    await eraseFrom(db, { id, plan, indexes }, OVER, this.#over.now);
    this.erased += indexes.length;
  }
}

/** Whether an event of the bundle may be over: of one of its tenants, or one of its types. */
function isConcerned({ dueAt, tenants, types }: WalkedBundle, { keptMs }: Limits, { now }: Over): boolean {
  const shortest = Math.min(
    ...tenants.map((tenant) => keptMs({ tenant, type: "" })),
    ...types.map((type) => keptMs({ tenant: "", type })),
  );
  return dueAt <= now - shortest;
}
