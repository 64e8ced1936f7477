/** What is done when a gate says that something has happened to its destination: a sick one is paused. */
import { faultOf } from "../log.ts";
import type { News } from "../policy/gate-state.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import { pausing } from "../store/pausing.ts";

/** A failure is logged, not thrown: the gate says it again with the next failure. */
export async function heed(services: Services, { id }: Destination, news: readonly News[]): Promise<void> {
  const because = news.find((one) => one === "rejecting" || one === "failing");
  if (because === undefined) return;
  try {
    const { results } = await pausing(services.db, [id], because, services.now()).all();
    if (results.length > 0) services.log({ what: "destination_paused", destination: id, because });
  } catch (error) {
    services.log({ what: "pause_failed", destination: id, error: faultOf(error) });
  }
}
