/**
 * Cleaning the archive, every minute: removes exchanges from R2 whose events are not stored any more or have been
 * erased. A walk over all of it begins four times a day, so that exchanges follow within hours after any removal of
 * content from D1; and a write that comes after an erasure does not stay. Only erasures wait for it (erasure.ts).
 *
 * It costs a call for each thousand exchanges, and if none are stored, one query a minute. A failure is repeated by the
 * next cron from where the walk was.
 */
import { type AttemptKey, MOST_EVENT } from "../../core/archive.ts";
import { periodicJob } from "../../jobs/runner.ts";
import { orLogged } from "../../log.ts";
import type { Services } from "../../services.ts";
import { archiveOf, mayBeArchived, removeExchanges, removeGone } from "../../store/archive.ts";
import type { ErasedDelivery } from "../../store/erase.ts";
import { moveCursor, type Position, readCursor } from "../../store/sweep.ts";

const EVERY_MS = 6 * 3_600_000;

export const archiveCleaning = periodicJob<Position>({
  name: "archive",
  line: "exchanges_removed",
  budget: { queries: Number.POSITIVE_INFINITY },
  load: async (services) => {
    if (archiveOf(services) === undefined) return undefined;
    const from = await readCursor(services.db, "archive");
    return from.row === 0 && services.now() - from.at < EVERY_MS ? undefined : from;
  },
  step: async ({ services, startedAt, hasTime }, from) => {
    const archive = archiveOf(services);
    if (archive === undefined) return { more: false };
    const all = { after: from.row, last: MOST_EVENT };
    const { upto, isLast, removed } = await removeGone(services, archive, all, hasTime);
    const beganAt = from.row === 0 ? startedAt : from.at;
    const state = { at: beganAt, row: isLast ? 0 : upto };
    return { more: !isLast, state, counts: { exchanges: removed } };
  },
  save: async ({ db }, position) => {
    await moveCursor(db, "archive", position);
    return true;
  },
});

/**
 * Removes the exchanges of erased events, as far as their logs show any. A failure is logged: the walk above removes
 * them later.
 */
export async function removeArchived(services: Services, erased: readonly ErasedDelivery[]): Promise<void> {
  const archive = archiveOf(services);
  if (archive === undefined) return;
  const keys = erased.flatMap(({ event, destination, log }) =>
    log
      .filter((entry) => mayBeArchived(services.config, entry))
      .map(({ at }): AttemptKey => ({ event, destination, at })),
  );
  const failed = { what: "exchanges_not_removed", exchanges: keys.length };
  await orLogged(services, failed, () => removeExchanges(archive, keys));
}
