/**
 * Cleaning the archive, every minute: removes exchanges from R2 whose events are not stored any more or have been erased. A
 * walk over all of it begins four times a day, so that whatever removes content from D1, this follows within hours; and a
 * write that comes after an erasure does not stay. Erasures wait for it (erasure.ts), and for nothing else.
 *
 * It costs a call for each thousand exchanges, and where nothing is kept, one query a minute. A failure is repeated by the
 * next cron from where the walk was.
 */
import { type AttemptKey, MOST_EVENT } from "../../core/archive.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";
import { archiveOf, mayBeArchived, removeExchanges, removeGone } from "../../store/archive.ts";
import type { ErasedDelivery } from "../../store/erase.ts";
import { moveCursor, readCursor } from "../../store/sweep.ts";

const EVERY_MS = 6 * 3_600_000;
/** A step lists no further page after this. */
const STEP_MS = 15_000;

/** The cron's step. */
export async function cleanArchive(services: Services): Promise<void> {
  const archive = archiveOf(services);
  if (archive === undefined) return;
  const now = services.now();
  const from = await readCursor(services.db, "archive");
  if (from.row === 0 && now - from.at < EVERY_MS) return;
  const mayGoOn = () => services.now() - now < STEP_MS;
  const all = { after: from.row, last: MOST_EVENT };
  const { upto, isLast, removed } = await removeGone(services, archive, all, mayGoOn);
  const beganAt = from.row === 0 ? now : from.at;
  await moveCursor(services.db, "archive", { at: beganAt, row: isLast ? 0 : upto });
  if (removed > 0) services.log({ what: "exchanges_removed", exchanges: removed });
}

/** Removes what is kept of erased events, as far as their logs tell. A failure is logged: the walk above follows. */
export async function removeArchived(services: Services, erased: readonly ErasedDelivery[]): Promise<void> {
  const archive = archiveOf(services);
  if (archive === undefined) return;
  const keys = erased.flatMap(({ event, destination, log }) =>
    log
      .filter((entry) => mayBeArchived(services.config, entry))
      .map(({ at }): AttemptKey => ({ event, destination, at })),
  );
  try {
    await removeExchanges(archive, keys);
  } catch (error) {
    services.log({ what: "exchanges_not_removed", exchanges: keys.length, error: faultOf(error) });
  }
}
