/** A request that was answered from what is stored is told of and counted: it shows how senders behave. */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { addToCount } from "../store/counts.ts";
import type { PostedEvent } from "./accept.ts";

/** A failure is logged, not thrown: the answer does not depend on it. */
export async function noteRepeat(services: Services, posted: readonly PostedEvent[]): Promise<void> {
  services.log({ what: "deduplicated", tenant: posted.at(-1)?.tenant, events: posted.length });
  try {
    await addToCount(services.db, "deduplicated", 1);
  } catch (error) {
    services.log({ what: "count_failed", error: faultOf(error) });
  }
}
