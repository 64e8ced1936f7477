/**
 * Deliveries and the queue: what a message brings, and how what is still open is brought again at its time. A message
 * brings the deliveries of whole bundles; it goes when all of them are done with, and else comes again when the next
 * of them is due.
 */
import {
  type BundlePart,
  bundleOf,
  indexesOf,
  indexOf,
  isIn,
  partsOf,
  type Runs,
  runsOf,
} from "../core/bundle.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { Work } from "../store/work.ts";
import { type DeliveryMessage, delaySecondsUntil, deliveryMessage } from "./message.ts";
import type { Verdict } from "./verdicts.ts";

/** A message and what it alone brings: what another message of the batch brings as well is the first one's. */
export type Carrier = Readonly<{ message: Message; parts: readonly BundlePart[] }>;

/** A delivery that is to be brought again at a time, epoch ms. */
export type Open = Readonly<{ work: Work; at: number }>;

/** A message is replaced by new ones before the platform's limit of 100 retries makes it a dead letter. */
const RETRIES = 90;
/** Queues takes so many messages in one call. */
const BATCH = 100;
/** What falls due within this of the first, or within this share of its wait, is brought together with it. */
const TOGETHER_MS = 1_000;
const TOGETHER_SHARE = 0.05;
/** Every index that there could be. */
const ALL: Runs = [0, 127];

/** What the batch carries, each delivery once. A message that names none is logged and dropped. */
export function carriersOf(services: Services, batch: MessageBatch): Carrier[] {
  const claimed = new Map<string, Runs>();
  return batch.messages.flatMap((message) => {
    const named = deliveryMessage(message.body);
    if (!named) dropUnreadable(services, message);
    const parts = named?.bundles.flatMap((part) => unclaimed(part, claimed)) ?? [];
    if (named && parts.length === 0) message.ack();
    return parts.length > 0 ? [{ message, parts }] : [];
  });
}

/** What nobody before has claimed of a part: as it stands, in the ordinary case. */
function unclaimed(part: BundlePart, claimed: Map<string, Runs>): BundlePart[] {
  const keyOf = (destination: string) => `${part.bundle} ${destination}`;
  const isNew = part.destinations.every((destination) => !claimed.has(keyOf(destination)));
  const own = isNew
    ? [part]
    : part.destinations.flatMap((destination) => {
        const before = claimed.get(keyOf(destination)) ?? [];
        const left = indexesOf(part.indexes ?? ALL).filter((index) => !isIn(before, index));
        return left.length > 0
          ? [{ bundle: part.bundle, destinations: [destination], indexes: runsOf(left) }]
          : [];
      });
  for (const { destinations, indexes = ALL } of own) {
    for (const destination of destinations) {
      const both = [...indexesOf(claimed.get(keyOf(destination)) ?? []), ...indexesOf(indexes)];
      claimed.set(keyOf(destination), runsOf([...new Set(both)].sort((a, b) => a - b)));
    }
  }
  return own;
}

/** The carrier of each delivery, for whoever has got them all mixed. */
export function carrierFinder(carriers: readonly Carrier[]): (work: Work) => Carrier | undefined {
  const owners = new Map<string, (readonly [Runs, Carrier])[]>();
  for (const carrier of carriers) {
    for (const { bundle, destinations, indexes = ALL } of carrier.parts) {
      for (const destination of destinations) {
        const key = `${bundle} ${destination}`;
        owners.set(key, [...(owners.get(key) ?? []), [indexes, carrier]]);
      }
    }
  }
  return ({ event, destination }) => {
    const some = owners.get(`${bundleOf(event.id)} ${destination.id}`) ?? [];
    return some.find(([indexes]) => isIn(indexes, indexOf(event.id)))?.[1];
  };
}

/** Lets a carrier's message go: done with, or to come again when the next of what is open is due. */
export async function dispose(
  services: Services,
  { message }: Carrier,
  open: readonly Open[] = [],
): Promise<void> {
  if (open.length === 0) return message.ack();
  const now = services.now();
  const delaySeconds = delaySecondsUntil(wakeUpAt(open, now), now);
  if (message.attempts < RETRIES || !(await replaced(services, open))) return message.retry({ delaySeconds });
  message.ack();
}

/** Has a message come again as it is, after a pause. */
export function postpone({ message }: Carrier, delaySeconds: number): void {
  message.retry({ delaySeconds });
}

/**
 * When the first of them is due, and those that are due soon after it: one invocation for all of these. Later than
 * the first alone would be, by no more than a second or a twentieth of its wait; never earlier than any of them.
 */
export function wakeUpAt(open: readonly Open[], now: number): number {
  const first = Math.min(...open.map(({ at }) => at));
  const until = first + Math.max(TOGETHER_MS, (first - now) * TOGETHER_SHARE);
  return Math.max(...open.flatMap(({ at }) => (at <= until ? [at] : [])));
}

/** Whether new messages have taken the old one's place: they name what is open, and nothing else. */
async function replaced(services: Services, open: readonly Open[]): Promise<boolean> {
  try {
    await sendOpen(services, open);
    return true;
  } catch (error) {
    services.log({ what: "replace_failed", error: faultOf(error) });
    return false;
  }
}

/** New messages for deliveries whose message is gone and that are to be tried again. */
export async function sendAgain(services: Services, verdicts: readonly Verdict[]): Promise<void> {
  await sendOpen(
    services,
    verdicts.flatMap(({ work, againAt: at }) => (at === undefined ? [] : [{ work, at }])),
  );
}

/** Those that are due together share a message. */
async function sendOpen(services: Services, open: readonly Open[]): Promise<void> {
  const now = services.now();
  const messages: MessageSendRequest<DeliveryMessage>[] = [];
  let rest = open.toSorted((a, b) => a.at - b.at);
  while (rest.length > 0) {
    const at = wakeUpAt(rest, now);
    const bundles = partsOf(
      rest
        .filter((one) => one.at <= at)
        .map(({ work }) => ({ event: work.event.id, destination: work.destination.id })),
    );
    messages.push({ body: { bundles }, delaySeconds: delaySecondsUntil(at, now) });
    rest = rest.filter((one) => one.at > at);
  }
  for (let from = 0; from < messages.length; from += BATCH) {
    await services.deliveries.sendBatch(messages.slice(from, from + BATCH));
  }
}

function dropUnreadable(services: Services, message: Message): void {
  services.log({ what: "message_unreadable", message: message.id });
  message.ack();
}
