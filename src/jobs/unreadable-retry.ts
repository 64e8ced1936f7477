/**
 * Bundles that could not be read are tried again every quarter of an hour. Most jobs come back to them by themselves; the
 * sweep does not, so deliveries that were lost of a bundle that can be read again are found here.
 */

import type { Services } from "../services.ts";
import { countQueries } from "../store/databases.ts";
import { faultsOf, forgetUnreadable, markTried, recordedBefore } from "../store/unreadable.ts";
import { recoverLostOf } from "./sweep.ts";

const AGAIN_MS = 15 * 60_000;
/** Bundles tried by one statement: a plan may be large. */
const PAGE = 20;
/** Queries after which a step tries no further ones. */
const QUERIES = 50;
const STEP_MS = 10_000;

/** The cron's step: tries again what could not be read. Costs a query that reads nothing where there is none. */
export async function retryUnreadable(given: Services): Promise<void> {
  const startedAt = given.now();
  const { queries, ...databases } = countQueries(given);
  const services = { ...given, ...databases };
  do {
    const page = await recordedBefore(services.db, startedAt - AGAIN_MS, PAGE);
    if (page.length === 0) return;
    const ids = page.map(({ bundle }) => bundle);
    const checked = [...(await faultsOf(services, ids))];
    const readable = checked.filter(([, { fault }]) => fault === undefined);
    for (const [id, { db }] of readable) await recoverLostOf(services, db, id);
    const mended = readable.map(([id]) => id);
    await forgetUnreadable(services.db, mended);
    await markTried(
      services.db,
      ids.filter((id) => !mended.includes(id)),
      startedAt,
    );
  } while (queries() < QUERIES && given.now() - startedAt < STEP_MS);
}
