/** Putting events on the queue: one small message for each planned delivery, delayed until it is due. */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { AcceptedEvent } from "../store/events.ts";
import { delaySecondsUntil } from "./carry.ts";
import type { DeliveryMessage } from "./message.ts";

/** Queues takes so many messages in one call. */
const BATCH = 100;

/** A failure is logged, not thrown: the sweep finds what has no outcome. */
export async function enqueue(services: Services, accepted: readonly AcceptedEvent[]): Promise<void> {
  const now = services.now();
  const messages = accepted.flatMap((event) => messagesFor(event, now));
  for (let from = 0; from < messages.length; from += BATCH) {
    const batch = messages.slice(from, from + BATCH);
    try {
      await services.deliveries.sendBatch(batch);
    } catch (error) {
      services.log({ what: "enqueue_failed", deliveries: batch.length, error: faultOf(error) });
    }
  }
}

function messagesFor(
  { id, plan, deliverAt }: AcceptedEvent,
  now: number,
): MessageSendRequest<DeliveryMessage>[] {
  const delay = deliverAt === undefined ? {} : { delaySeconds: delaySecondsUntil(deliverAt, now) };
  return plan.map((destination) => ({ body: { event: id, destination }, ...delay }));
}
