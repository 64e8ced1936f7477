/** Putting committed bundles on the queue: ids only, in as few messages as name about a hundred deliveries each. */
import { type BundlePart, countOf, type Runs } from "../core/bundle.ts";
import { faultOf } from "../log.ts";
import { batchesOf, type DeliveryMessage, delaySecondsUntil } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import type { CommittedBundle } from "./commit.ts";

/** Deliveries that one message names: what an invocation can work on in a few seconds. */
const DELIVERIES = 100;

/** How far ahead the sweep looks for what is scheduled: to the next one, and half as far again, should that one be late. */
export const AHEAD_MS = 90_000;
/** What is due sooner is put on the queue when it is accepted: as far ahead, and the time to commit it. */
const SOON_MS = AHEAD_MS + 60_000;

/** What has just been committed goes on the queue, unless it is due so late that the sweep will see to it. */
export async function enqueueCommitted(
  services: Services,
  bundles: readonly CommittedBundle[],
): Promise<void> {
  const until = services.now() + SOON_MS;
  await enqueueBundles(
    services,
    bundles.filter(({ deliverAt }) => deliverAt === undefined || deliverAt <= until),
  );
}

/** A failure is logged, not thrown: the sweep finds what has no outcome. */
export async function enqueueBundles(services: Services, bundles: readonly CommittedBundle[]): Promise<void> {
  for (const batch of batchesOf(messagesFor(bundles, services.now()))) {
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
