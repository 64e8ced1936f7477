/**
 * Retention, every minute: removes events older than `RETENTION_DAYS` with their deliveries, in bounded steps.
 *
 * A walk goes over the bundles of each database in the order of their ids. It passes bundles with deliveries that have
 * not ended, or that a running replay may still come to; when it reaches bundles that are too young, it begins again
 * from the lowest, so that no bundle is skipped for ever. If nothing is old, it reads two rows and writes none. Two
 * steps at once remove the same bundles, once.
 */
import { cursorOf, inEachDatabase, periodicJob, walkFrom } from "../../jobs/runner.ts";
import { reportUnreadable } from "../../jobs/unreadable.ts";
import { destinationFacts, oldBundles, removeEnded } from "../../store/retention.ts";
import type { Position } from "../../store/sweep.ts";

/** Bundles that one statement reads: a step with one database gets through 3,000 full bundles. */
const PAGE = { bundles: 500, deliveries: 25_000 };

export const retention = periodicJob({
  name: "retention",
  line: "removed",
  budget: { queries: 120 },
  hasPages: true,
  step: async (turn) => {
    const { services, startedAt: now, mayContinue } = turn;
    const bounds = { ...PAGE, horizon: now - services.config.retentionMs };
    const removed = { events: 0, deliveries: 0 };
    const { more, ...done } = await inEachDatabase(turn, async (db) => {
      const page = async ({ row }: Position) => {
        const { bundles, unreadable, upto, isLast } = await oldBundles(db, row, bounds);
        await reportUnreadable(services, unreadable);
        if (bundles.length > 0) {
          const facts = await destinationFacts(services.db, bundles);
          const { events, deliveries } = await removeEnded(db, bundles, facts, now);
          removed.events += events;
          removed.deliveries += deliveries;
        }
        return { at: { at: 0, row: isLast ? 0 : upto }, more: !isLast };
      };
      return (await walkFrom(cursorOf(db, "retention"), page, mayContinue)).more;
    });
    // A walk that finds only bundles which cannot be removed yet may take its time.
    return { ...done, more: more && removed.events > 0, counts: removed };
  },
});
