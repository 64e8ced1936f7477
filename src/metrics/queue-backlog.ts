/** How far the queues are behind, where the platform says so. */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";

export type QueueBacklog = Readonly<{
  queue: "deliveries" | "drains";
  /** Null when it cannot be told. */
  messages: number | null;
  /** Epoch ms. */
  oldestAt: number | null;
}>;

export function queueBacklogs(services: Services): Promise<QueueBacklog[]> {
  return Promise.all((["deliveries", "drains"] as const).map((queue) => backlogOf(services, queue)));
}

async function backlogOf(services: Services, queue: QueueBacklog["queue"]): Promise<QueueBacklog> {
  try {
    const { backlogCount, oldestMessageTimestamp } = await services[queue].metrics();
    return { queue, messages: backlogCount, oldestAt: oldestMessageTimestamp?.getTime() || null };
  } catch (error) {
    services.log({ what: "queue_metrics_unavailable", error: faultOf(error) });
    return { queue, messages: null, oldestAt: null };
  }
}
