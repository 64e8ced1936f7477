/** What is done when gates say that something has happened to their destinations: who is sick is paused, and all is told. */
import { faultOf } from "../log.ts";
import type { News } from "../policy/news.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import { pausing } from "../store/pausing.ts";
import { announce, isTold } from "./announce.ts";
import { noticeEvent, statusEvent } from "./operational-event.ts";
import { tellStatus } from "./tell-status.ts";
import { sendForToll } from "./toll.ts";

/** News of a destination. */
export type Heard = Readonly<{ destination: Destination; news: News }>;

/**
 * Heeds all that a batch has brought to light, and tells of it in one round trip.
 * @param gone destinations that have just been paused for that
 */
export async function heed(
  services: Services,
  heard: readonly Heard[],
  gone: readonly Destination[],
): Promise<void> {
  for (const one of heard) {
    tellOfStorm(services, one);
    await pauseIfSick(services, one);
  }
  const told = heard.filter(({ destination }) => isTold(destination));
  const notices = told.flatMap(({ destination, news }) =>
    news.notices.map((notice) => noticeEvent(destination, notice, news)),
  );
  const now = services.now();
  const paused = gone.filter(isTold).map((destination) => statusEvent(destination, "paused", "gone", now));
  await announce(services, ...paused, ...notices);
  for (const { destination, news } of told) if (news.tollDue) await sendForToll(services, destination.id);
}

/** A failure is logged, not thrown: the gate says it again with the next failure. */
async function pauseIfSick(services: Services, { destination, news }: Heard): Promise<void> {
  const { id } = destination;
  if (news.diagnosis === undefined) return;
  try {
    const { results } = await pausing(services.db, [id], news.diagnosis, services.now()).all();
    if (results.length > 0) await tellStatus(services, destination, "paused", news.diagnosis);
  } catch (error) {
    services.log({ what: "pause_failed", destination: id, error: faultOf(error) });
  }
}

/** What happens to a door is in the log already. */
function tellOfStorm({ log }: Services, { destination, news: { notices, figures } }: Heard): void {
  const { first, retries, failures } = figures.traffic;
  const line = { destination: destination.id, first_attempts: first, retries, failures };
  if (notices.includes("storm_detected")) log({ what: "storm_detected", ...line });
  if (notices.includes("recovered")) log({ what: "storm_over", ...line });
}
