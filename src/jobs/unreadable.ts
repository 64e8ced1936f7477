/**
 * Bundles that cannot be read: after an edit by hand, damage, or a rollback to code that does not know their headers.
 * Each job skips them, reports them here, and continues with the others. Reported once, they are counted by a metric as
 * long as they are unreadable, and tried again (unreadable-retry.ts).
 */
import type { UnreadableBundle } from "../core/stored-bundle.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { recordUnreadable } from "../store/unreadable.ts";

/** Lines of one report: a rollback may leave thousands of bundles, and the metric counts them. */
const LINES = 50;

/** Logs the bundles that are not known yet. A failure is logged: the jobs that meet them again report them again. */
export async function reportUnreadable(
  services: Pick<Services, "db" | "now" | "log">,
  found: readonly UnreadableBundle[],
): Promise<void> {
  if (found.length === 0) return;
  try {
    const fresh = await recordUnreadable(services.db, found, services.now());
    for (const { bundle, fault } of fresh.slice(0, LINES))
      services.log({ what: "bundle_unreadable", bundle, fault });
    if (fresh.length > LINES)
      services.log({
        what: "bundles_unreadable",
        bundles: fresh.length - LINES,
        after: fresh[LINES - 1]?.bundle,
      });
  } catch (error) {
    services.log({ what: "bundles_not_reported", bundles: found.length, error: faultOf(error) });
  }
}
