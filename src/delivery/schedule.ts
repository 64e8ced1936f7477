/**
 * Events that are not to be delivered at once.
 *
 * A queue keeps a message for a day at most, and may lose it; D1 forgets nothing. So a scheduled event stays
 * in D1 alone until shortly before its time: then the sweep, which comes every minute, puts it on the queue
 * with the seconds that are left. One that is due before the sweep could be counted on goes there when it is
 * accepted. Where both do it, the second message finds nothing to do.
 */
import { AHEAD_MS, enqueueBundles } from "../ingest/enqueue.ts";
import type { Services } from "../services.ts";
import { moveCursor, readCursor } from "../store/cursors.ts";
import { inTurn } from "../store/query-count.ts";
import { nextScheduled } from "../store/scheduled.ts";
import type { PartResult, PartTurn } from "./sweep-part.ts";

/** What one statement looks at. */
const SCHEDULED_PAGE = { bundles: 500, deliveries: 2_000 };

/** Puts on the queue what falls due before the next sweep can be counted on. */
export async function enqueueScheduled(services: Services, turn: PartTurn): Promise<PartResult> {
  let scheduled = 0;
  const walked = await inTurn(services, Number(turn.cursor[0]) || 0, turn.mayGoOn, async (db) => {
    let after = await readCursor(db, "scheduled");
    let more = false;
    do {
      const due = await nextScheduled(db, after, turn.now + AHEAD_MS, SCHEDULED_PAGE);
      if (due.bundles.length === 0) return false;
      await enqueueBundles(services, due.bundles);
      after = due.upto;
      await moveCursor(db, "scheduled", after);
      scheduled += due.bundles.length;
      more = due.more;
    } while (more && turn.mayGoOn());
    return more;
  });
  return { ...walked, counts: { scheduled }, cursor: [walked.next] };
}
