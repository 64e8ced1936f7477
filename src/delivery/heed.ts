/** What is done when gates say that something has happened to their destinations: who is sick is paused, and all is told. */
import { faultOf } from "../log.ts";
import type { News } from "../policy/news.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import { pausing, type StatusChange, untoldChanges } from "../store/status-changes.ts";
import { isTold } from "./announce.ts";
import { noticeEvent } from "./operational-event.ts";
import { findUntold, tellStatus } from "./tell-status.ts";
import { sendForToll } from "./toll.ts";

/** News of a destination. */
export type Heard = Readonly<{ destination: Destination; news: News }>;

/**
 * Heeds all that a batch has brought to light, and tells of it in one round trip.
 * @param gone pauses that have just been made
 */
export async function heed(
  services: Services,
  heard: readonly Heard[],
  gone: readonly StatusChange[],
): Promise<void> {
  const paused = [...gone];
  for (const one of heard) {
    tellOfStorm(services, one);
    paused.push(...(await pauseIfSick(services, one)));
  }
  const told = heard.filter(({ destination }) => isTold(destination));
  const notices = told.flatMap(({ destination, news }) =>
    news.notices.map((notice) => noticeEvent(destination, notice, news)),
  );
  await tellStatus(services, paused, notices);
  for (const { destination, news } of told) if (news.tollDue) await sendForToll(services, destination.id);
}

/** The pause that is made, if any. A failure is logged, not thrown: the gate says it again with the next failure. */
async function pauseIfSick(
  services: Services,
  { destination: { id }, news: { diagnosis } }: Heard,
): Promise<readonly StatusChange[]> {
  if (diagnosis === undefined) return [];
  const { db, log } = services;
  const now = services.now();
  const untold = { ids: [id], at: now };
  try {
    const [, paused] = await db.batch<StatusChange>([
      pausing(db, [id], diagnosis, now),
      untoldChanges(db, untold),
    ]);
    return paused?.results ?? [];
  } catch (error) {
    log({ what: "pause_failed", destination: id, error: faultOf(error) });
    // It may be the answer alone that was lost.
    return findUntold(services, untold);
  }
}

/** What happens to a door is in the log already. */
function tellOfStorm({ log }: Services, { destination, news: { notices, figures } }: Heard): void {
  const { first, retries, failures } = figures.traffic;
  const line = { destination: destination.id, first_attempts: first, retries, failures };
  if (notices.includes("storm_detected")) log({ what: "storm_detected", ...line });
  if (notices.includes("recovered")) log({ what: "storm_over", ...line });
}
