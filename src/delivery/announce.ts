/**
 * Telling the operator: an event for the destinations of the reserved tenant, and a mail where one is wanted.
 *
 * The events go the way of all events: stored, sent, retried, held. That of which they tell is never their own
 * delivery: trouble at a destination of the operator's raises none, so that nothing can go round in circles.
 */
import { acceptOperational, type OperationalNotice } from "../ingest/accept.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { isOperatorListening, OPERATOR } from "../store/notices.ts";
import { forgetStatements, type StatusChange } from "../store/status-changes.ts";
import { mail } from "./mail.ts";
import type { OperationalEvent } from "./operational-event.ts";

/**
 * Safe to repeat: an event is stored once, by its key. A failure is logged, not thrown: what is told has happened all
 * the same.
 * @param told changes of status that are no longer untold once the events are stored
 */
export async function publish(
  services: Services,
  events: readonly OperationalEvent[],
  told: readonly StatusChange[] = [],
): Promise<void> {
  if (events.length + told.length === 0) return;
  try {
    // Once more at once: whoever has this to tell says it only once. What is stored already is not stored again.
    const store = async () => {
      if (await isOperatorListening(services.db)) await acceptOperational(services, events.map(noticeOf));
    };
    if (events.length > 0) await store().catch(store);
    const forgotten = forgetStatements(services.db, told);
    if (forgotten.length > 0) await services.db.batch([...forgotten]);
    for (const event of events) await mail(services, event);
  } catch (error) {
    const types = [...new Set(events.map(({ type }) => type))].join(" ");
    services.log({ what: "announcements_lost", types, error: faultOf(error) });
  }
}

function noticeOf({ type, key, data }: OperationalEvent): OperationalNotice {
  return { tenant: OPERATOR, type, data, key };
}

/** Whether trouble at this destination is told of. */
export function isTold({ tenant }: Readonly<{ tenant: string }>): boolean {
  return tenant !== OPERATOR;
}
