/**
 * The API keys that an isolate caches.
 *
 * - It saves a query of the first database for every request.
 * - Cold, it costs a query for each key, and pages of `PAGE` keys that are read beside the first ones: of 10,000 keys
 *   about twenty queries. Full, the key that was used longest ago goes: beyond `MOST_KEYS` keys in turn a request costs
 *   a query. Old, it costs a check of what has changed, at most one in `CHECKED_MS`, however many keys there are: one
 *   row, and one more for each changed key. Beyond `MOST_CHANGES` of these the cache is cold again.
 * - A key that was changed counts as it was for `CHECKED_MS` and the time of a query, and never for `REMEMBERED_MS`: a
 *   cache that could not look for so long waits until it has. Whether a key has expired is no matter of the cache.
 * - It is invalidated by the revisions in `key_changes`, which triggers write: changes by any hand count. A database
 *   that was restored to an earlier time has a lower revision, which makes the cache cold.
 *
 * Ids that no key has are remembered too, so that repeating one costs nothing; these have a small room of their own,
 * where inventing keys displaces none.
 */
import { isRemembered, REMEMBERED_MS } from "../../core/credentials.ts";
import { BoundedMap } from "../../memory.ts";
import type { Services } from "../../services.ts";
import { within } from "../../time.ts";
import { type KeyCredentials, keyChangesSince, keysAfter, lookUpKey } from "./sql.ts";

/** About 400 bytes each. */
const MOST_KEYS = 30_000;
const MOST_UNKNOWN = 1_000;
/** Changes read at once. */
const MOST_CHANGES = 1_000;
/** Keys read beside a missing one, and pages of them. */
const PAGE = 1_000;
const MOST_PAGES = 50;
/** The least time between two reads of the changes. */
const CHECKED_MS = 10_000;
/** How long a request waits for a check that another has begun. */
const PATIENCE_MS = 5_000;

export type RememberedKey = {
  readonly credentials: KeyCredentials;
  /** The revision of all keys at which it was read. */
  readonly revision: number;
  lastUsedAt: number | null;
};

export class KeyCache {
  /** The most recently used key is at the end. */
  readonly #keys = new BoundedMap<RememberedKey>(MOST_KEYS);
  /** The revision at which there was no key of the id. */
  readonly #unknown = new BoundedMap<number>(MOST_UNKNOWN);
  /** The remembered keys are as they were at this revision or later; undefined while nothing is remembered. */
  #revision: number | undefined;
  /** When the last successful check was begun, epoch ms. */
  #checkedAt = 0;
  #checking: Readonly<{ startedAt: number; done: Promise<void> }> | undefined;
  /** The id after which the next page begins; undefined when there is no more to read. */
  #nextPage: string | undefined = "";
  #pages = 0;
  #isPaging = false;

  /** The key, or null when there was none of that id; undefined when neither is remembered: `lookUp` knows. */
  async remembered(services: Services, id: string): Promise<RememberedKey | null | undefined> {
    await this.#refresh(services);
    const key = this.#keys.get(id);
    if (key === undefined) return this.#unknown.get(id) === undefined ? undefined : null;
    this.#keys.set(id, key);
    return key;
  }

  /** Reads a key, with one query; null when no key has that id. */
  async lookUp(services: Services, id: string): Promise<RememberedKey | null> {
    const startedAt = services.now();
    const { key: credentials, revision } = await lookUpKey(services.db, id);
    if (this.#revision === undefined) {
      this.#revision = revision;
      this.#checkedAt = startedAt;
    }
    if (credentials === null) {
      if (this.#isNew(revision)) this.#unknown.set(id, revision);
      return null;
    }
    const key = { credentials, revision, lastUsedAt: credentials.lastUsedAt };
    if (this.#isNew(revision)) this.#keys.set(id, key);
    this.#readPage(services);
    return key;
  }

  /** False for keys read before the last check: a change since then has been seen, and will not be seen again. */
  #isNew(revision: number): boolean {
    return this.#revision !== undefined && revision >= this.#revision;
  }

  /** Checks for changes when it is time, and waits for the result if the cached keys no longer count. */
  async #refresh(services: Services): Promise<void> {
    const now = services.now();
    if (this.#revision === undefined || isRemembered(this.#checkedAt, now, CHECKED_MS)) return;
    const checking = this.#check(services, now, this.#revision);
    if (isRemembered(this.#checkedAt, now, REMEMBERED_MS)) return;
    // Each request has its own timer, because the request that checks may be gone.
    await within(services, PATIENCE_MS, checking);
  }

  #check(services: Services, startedAt: number, since: number): Promise<void> {
    if (this.#checking && isRemembered(this.#checking.startedAt, startedAt, PATIENCE_MS))
      return this.#checking.done;
    const done = keyChangesSince(services.db, since, MOST_CHANGES + 1).then(({ latest, changes }) => {
      if (latest < since || changes.length > MOST_CHANGES) this.#forgetAll();
      else for (const { id, revision } of changes) this.#forget(id, revision);
      this.#revision = latest;
      this.#checkedAt = startedAt;
    });
    const checking = { startedAt, done };
    this.#checking = checking;
    const ended = () => {
      if (this.#checking === checking) this.#checking = undefined;
    };
    // A failure is reported to the callers that wait for the check.
    services.background(done.then(ended, ended));
    return done;
  }

  #forget(id: string, changedAt: number): void {
    const key = this.#keys.get(id);
    if (key && key.revision < changedAt) this.#keys.delete(id);
    this.#unknown.delete(id);
  }

  #forgetAll(): void {
    this.#keys.clear();
    this.#unknown.clear();
    this.#nextPage = "";
    this.#pages = 0;
  }

  /** Reads the next page of keys in the background while there is room: they are likely to be used next. */
  #readPage(services: Services): void {
    const after = this.#nextPage;
    const hasRoom = this.#pages < MOST_PAGES && this.#keys.size + PAGE <= MOST_KEYS;
    if (after === undefined || this.#isPaging || !hasRoom) return;
    this.#isPaging = true;
    this.#pages += 1;
    const reading = keysAfter(services.db, after, PAGE).then((page) => {
      this.#nextPage = page.length < PAGE ? undefined : page.at(-1)?.key.id;
      for (const { key: credentials, revision } of page) {
        const { id, revokedAt, lastUsedAt } = credentials;
        if (revokedAt !== null || this.#keys.get(id) || !this.#isNew(revision)) continue;
        this.#keys.set(id, { credentials, revision, lastUsedAt });
      }
    });
    const ended = () => {
      this.#isPaging = false;
    };
    // A key that could not be read now is looked up when it is used.
    services.background(reading.then(ended, ended));
  }
}
