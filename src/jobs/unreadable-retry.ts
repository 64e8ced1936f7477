/**
 * Bundles that could not be read are tried again every quarter of an hour. Most jobs return to them by themselves; the
 * sweep does not, so this job finds lost deliveries of a bundle that has become readable again.
 */

import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { forgetUnreadable, markTried, recordedBefore, unreadableFaultsOf } from "../store/unreadable.ts";
import { periodicJob } from "./runner.ts";
import { recoverLostOf } from "./sweep.ts";

const AGAIN_MS = 15 * 60_000;
/** Bundles tried by one statement: a plan may be large. */
const PAGE = 20;

/** Costs a query that reads nothing where there is no such bundle. */
export const unreadableRetry = periodicJob({
  name: "unreadable",
  budget: { queries: 50, ms: 10_000 },
  step: async ({ services, startedAt, mayContinue }) => {
    do {
      const page = await recordedBefore(services.db, startedAt - AGAIN_MS, PAGE);
      if (page.length === 0) break;
      await retry(
        services,
        page.map(({ bundle }) => bundle),
        startedAt,
      );
    } while (mayContinue());
    return { more: false };
  },
});

async function retry(services: Services, ids: readonly number[], now: number): Promise<void> {
  const mended = new Set<number>();
  for (const [id, { fault, db }] of await unreadableFaultsOf(services, ids))
    if (fault === undefined && (await isRecovered(services, db, id))) mended.add(id);
  await forgetUnreadable(services.db, [...mended]);
  await markTried(
    services.db,
    ids.filter((id) => !mended.has(id)),
    now,
  );
}

/** A failure is logged: the bundle is tried again later, and does not keep the others from being tried. */
async function isRecovered(services: Services, db: D1Database, bundle: number): Promise<boolean> {
  try {
    await recoverLostOf(services, db, bundle);
    return true;
  } catch (error) {
    services.log({ what: "bundle_not_recovered", bundle, error: faultOf(error) });
    return false;
  }
}
