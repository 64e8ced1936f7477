/** Puts committed bundles on the queue, in messages of ids only that name about a hundred deliveries each. */
import { type BundlePart, countOf, type Runs } from "../core/bundle.ts";
import { faultOf } from "../log.ts";
import { batchesOf, type DeliveryMessage, delaySecondsUntil } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import type { CommittedBundle } from "./commit.ts";

/** Deliveries that one message names: as many as an invocation attempts in a few seconds. */
const MESSAGE_DELIVERIES = 100;

/** How far ahead the sweep enqueues scheduled bundles: to the next sweep, and half as far again in case that one is late. */
export const AHEAD_MS = 90_000;
/** A bundle due sooner is enqueued when it is accepted: as far ahead as the sweep looks, and the time that a commit takes. */
const SOON_MS = AHEAD_MS + 60_000;

/** Enqueues bundles that have just been committed, but those due so late that the sweep will enqueue them. */
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

/** Enqueues bundles. A failure is logged: the sweep finds deliveries without an outcome. */
export async function enqueueBundles(services: Services, bundles: readonly CommittedBundle[]): Promise<void> {
  for (const batch of batchesOf(messagesFor(bundles, services.now()))) {
    try {
      await services.deliveries.sendBatch(batch);
    } catch (error) {
      services.log({ what: "enqueue_failed", messages: batch.length, error: faultOf(error) });
    }
  }
}

/** The messages for bundles, delayed until those are due. */
function messagesFor(
  bundles: readonly CommittedBundle[],
  now: number,
): MessageSendRequest<DeliveryMessage>[] {
  const byTime = Map.groupBy(bundles, ({ deliverAt }) => deliverAt);
  return [...byTime].flatMap(([deliverAt, some]) => {
    const delay = deliverAt === undefined ? {} : { delaySeconds: delaySecondsUntil(deliverAt, now) };
    return partsByMessage(some).map((parts) => ({ body: { bundles: parts }, ...delay }));
  });
}

/** Fills one message after the other; a destination's deliveries of one bundle stay together. */
function partsByMessage(bundles: readonly CommittedBundle[]): BundlePart[][] {
  const messages: { bundle: number; destinations: string[] }[][] = [];
  let free = 0;
  for (const { id, plan } of bundles) {
    let open: string[] | undefined;
    for (const [destination, runs] of Object.entries<Runs>(plan)) {
      const count = countOf(runs);
      if (count > free) {
        messages.push([]);
        free = MESSAGE_DELIVERIES;
        open = undefined;
      }
      free -= count;
      if (open) open.push(destination);
      else {
        open = [destination];
        messages.at(-1)?.push({ bundle: id, destinations: open });
      }
    }
  }
  return messages;
}
