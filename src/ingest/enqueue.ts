/** Putting committed bundles on the queue: ids only, in as few messages as name about a hundred deliveries each. */
import { type BundlePart, countOf, type Runs } from "../core/bundle.ts";
import { type DeliveryMessage, delaySecondsUntil } from "../delivery/message.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { CommittedBundle } from "./commit.ts";

/** Deliveries that one message names: what an invocation can work on in a few seconds. */
const DELIVERIES = 100;
/** Queues takes so many messages in one call. */
const BATCH = 100;

/** A failure is logged, not thrown: the sweep finds what has no outcome. */
export async function enqueueBundles(services: Services, bundles: readonly CommittedBundle[]): Promise<void> {
  const messages = messagesFor(bundles, services.now());
  for (let from = 0; from < messages.length; from += BATCH) {
    const batch = messages.slice(from, from + BATCH);
    try {
      await services.deliveries.sendBatch(batch);
    } catch (error) {
      services.log({ what: "enqueue_failed", messages: batch.length, error: faultOf(error) });
    }
  }
}

/** The messages for bundles, delayed until those are due. Pure. */
export function messagesFor(
  bundles: readonly CommittedBundle[],
  now: number,
): MessageSendRequest<DeliveryMessage>[] {
  const byTime = Map.groupBy(bundles, ({ deliverAt }) => deliverAt);
  return [...byTime].flatMap(([deliverAt, some]) => {
    const delay = deliverAt === undefined ? {} : { delaySeconds: delaySecondsUntil(deliverAt, now) };
    return packed(some).map((parts) => ({ body: { bundles: parts }, ...delay }));
  });
}

function packed(bundles: readonly CommittedBundle[]): BundlePart[][] {
  const messages: { bundle: number; destinations: string[] }[][] = [];
  let room = 0;
  for (const { id, plan } of bundles) {
    let open: string[] | undefined;
    for (const [destination, runs] of Object.entries<Runs>(plan)) {
      const count = countOf(runs);
      if (count > room) {
        messages.push([]);
        room = DELIVERIES;
        open = undefined;
      }
      room -= count;
      if (open) open.push(destination);
      else {
        open = [destination];
        messages.at(-1)?.push({ bundle: id, destinations: open });
      }
    }
  }
  return messages;
}
