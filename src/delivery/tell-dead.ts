/**
 * Deliveries that end dead without an attempt (expired while they waited, poisoned, their target forbidden)
 * appear in no attempt's line and in no settlement: each leaves a line of its own, and their gates are told of
 * them, behind everything that matters more.
 */
import { reportUnattemptedDead } from "../gate/gate-client.ts";
import { deliveryId, eventId } from "../id.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import { isTold } from "./announce.ts";
import { scheduleDigest } from "./toll.ts";
import type { Disposition } from "./verdicts.ts";

/** @param verdicts decided without an attempt, and recorded */
export function publishDead(services: Services, dispositions: readonly Disposition[]): void {
  const dead = dispositions.filter(({ row }) => row?.state === "dead");
  for (const { work, row } of dead) {
    const { event, destination } = work;
    const ids = { delivery: deliveryId(event.id, destination.id), event: eventId(event.id) };
    services.log({ what: "delivery_dead", ...ids, destination: destination.id, reason: row?.reason });
  }
  for (const theirs of Map.groupBy(dead, ({ work }) => work.destination.id).values()) {
    const [first] = theirs;
    if (first) services.background(countDead(services, first.work.destination, theirs.length));
  }
}

/** So many of the destination's deliveries have ended dead without an attempt. */
export async function countDead(
  services: Services,
  { id, tenant }: Pick<Destination, "id" | "tenant">,
  deliveries: number,
): Promise<void> {
  const isDue = await reportUnattemptedDead(services, id, deliveries);
  if (isDue && isTold({ tenant })) await scheduleDigest(services, id);
}
