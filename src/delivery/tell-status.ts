/** A destination has been paused or resumed: one line in the log, and the operator is told. */
import type { Services } from "../services.ts";
import { announce, isTold } from "./announce.ts";
import { type Named, statusEvent } from "./operational-event.ts";

/** @param because `manual`, or what it answered */
export async function tellStatus(
  services: Services,
  destination: Named,
  status: "paused" | "resumed",
  because: string,
): Promise<void> {
  services.log({ what: `destination_${status}`, destination: destination.id, because });
  if (isTold(destination))
    await announce(services, statusEvent(destination, status, because, services.now()));
}
