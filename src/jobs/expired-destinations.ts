/**
 * The end of expired destinations: they already get no new events, and are deleted like others
 * (deleted-destinations.ts).
 */
import type { Services } from "../services.ts";
import { deleteExpired } from "../store/destinations.ts";

/** Deleted each minute. */
const MOST_EXPIRED = 200;

/** For the cron: deletes the destinations that expired first. */
export async function removeExpired({ db, now, log }: Services): Promise<void> {
  for (const destination of await deleteExpired(db, now(), MOST_EXPIRED))
    log({ what: "subscription_expired", destination });
}
