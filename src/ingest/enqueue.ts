/** Puts committed bundles on the queue, in messages of ids only that name about a hundred deliveries each. */
import { type BundlePart, lengthOf, type Runs } from "../core/bundle.ts";
import { faultOf, orLogged } from "../log.ts";
import { batchesOf, type DeliveryMessage, delaySecondsUntil, MESSAGE_DELIVERIES } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import { repeatedly } from "../time.ts";
import type { CommittedBundle } from "./commit.ts";

/** How far ahead the sweep enqueues scheduled bundles: to the next sweep, and half as far again in case that one is late. */
export const AHEAD_MS = 90_000;
/** A bundle due sooner is enqueued when it is accepted: as far ahead as the sweep looks, and the time that a commit takes. */
const SOON_MS = AHEAD_MS + 60_000;

/**
 * How long a failed send is repeated: most failures of a queue are shorter, and background work of a request may take
 * 30 seconds. Then the sweep is left to find the deliveries, after the grace period.
 */
const REPEAT_MS = 10_000;
/** The pause before the first repeat, doubled each time; each is shortened by up to half, so that senders spread. */
const PAUSE_MS = 250;

/**
 * Enqueues bundles that have just been committed, except those due so late that the sweep will enqueue them. Failed
 * sends are repeated for some seconds, so call it in the background. A message that is sent twice, because a send
 * failed only for its caller, delivers nothing twice.
 */
export async function enqueueCommitted(services: Services, bundles: readonly CommittedBundle[]) {
  const until = services.now() + SOON_MS;
  for (const destination of new Set(bundles.flatMap(({ polled = [] }) => polled)))
    services.background(wakeInbox(services, destination));
  await enqueueBundles(
    services,
    bundles.filter(({ deliverAt }) => deliverAt === undefined || deliverAt <= until),
    REPEAT_MS,
  );
}

/** Wakes the requests that wait for the inbox. If the call is lost, they find the events at the end of their wait. */
async function wakeInbox(services: Services, destination: string): Promise<void> {
  const { gates, gateLocation } = services;
  await orLogged(services, { what: "inbox_unreachable", destination }, async () => {
    const id = gates.idFromName(destination);
    await gates.get(id, gateLocation && { locationHint: gateLocation }).wakeInbox();
  });
}

/**
 * Enqueues bundles; returns whether all are on the queue. A failure is logged: the sweep finds deliveries without an
 * outcome.
 * @param repeatMs how long failed sends are repeated, of all messages together
 */
export async function enqueueBundles(
  services: Services,
  bundles: readonly CommittedBundle[],
  repeatMs: number,
): Promise<boolean> {
  const now = services.now();
  let until = now + repeatMs;
  let isComplete = true;
  for (const batch of batchesOf(messagesFor(bundles, now))) {
    if (await sendRepeatedly(services, batch, until)) continue;
    isComplete = false;
    // After one send has been given up, the others are tried once.
    until = now;
  }
  return isComplete;
}

/** Sends a batch, again and again until it is sent or the next repeat would come too late: false. Never throws. */
async function sendRepeatedly(
  services: Services,
  batch: MessageSendRequest<DeliveryMessage>[],
  until: number,
): Promise<boolean> {
  let sends = 0;
  const send = () => {
    sends += 1;
    return services.deliveries.sendBatch(batch);
  };
  try {
    await repeatedly(services, { until, pauseMs: PAUSE_MS, isWorthwhile: () => true }, send);
    if (sends > 1) services.log({ what: "enqueue_repeated", messages: batch.length, sends });
    return true;
  } catch (error) {
    services.log({ what: "enqueue_failed", messages: batch.length, sends, error: faultOf(error) });
    return false;
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
  for (const { id, plan, polled = [] } of bundles) {
    let open: string[] | undefined;
    for (const [destination, runs] of Object.entries<Runs>(plan)) {
      if (polled.includes(destination)) continue;
      const count = lengthOf(runs);
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
