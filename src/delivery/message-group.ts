/**
 * Deliveries and the queue: what a message brings, and how what is still open is brought again at its time. A message
 * brings the deliveries of whole bundles; it goes when all of them are done with, and else comes again when the next
 * of them is due.
 */
import {
  type BundlePart,
  bundleOf,
  type DeliveryName,
  indexesOf,
  indexOf,
  isIn,
  partsOf,
  type Runs,
  runsOf,
} from "../core/bundle.ts";
import { type LoadedDelivery, ownerOf } from "../db/deliveries.ts";
import type { DeliveryRow } from "../db/schema.ts";
import { faultOf } from "../log.ts";
import { batchesOf, type DeliveryMessage, delaySecondsUntil, deliveryMessage } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import type { Disposition } from "./outcome.ts";

/** A message and what it alone brings: what another message of the batch brings as well is the first one's. */
export type MessageGroup = Readonly<{
  message: Message;
  parts: readonly BundlePart[];
  /** Nothing of what the message names is another's. */
  isWhole: boolean;
  owner: string | undefined;
}>;

/** A delivery that is to be brought again. */
export type OpenDelivery = Readonly<{
  name: DeliveryName;
  /** Not before this, epoch ms; and by so much later at most. */
  at: number;
  slackMs: number;
  /** The mark of the message that brings it. */
  owner: string | undefined;
}>;

/** A message is replaced by new ones before the platform's limit of 100 retries makes it a dead letter. */
const RETRIES = 90;
/** A delivery may come later than its time by so much, or by this share of what it has waited, to come with others. */
const TOGETHER_MS = 1_000;
const TOGETHER_SHARE = 0.05;
/** Every index that there could be. */
const ALL: Runs = [0, 127];

/** What is to be brought again of the verdicts. */
export function openDeliveriesOf(dispositions: readonly Disposition[]): OpenDelivery[] {
  return dispositions.flatMap(({ work: { event, destination, row: before }, row = before, againAt: at }) => {
    if (at === undefined) return [];
    const name = { event: event.id, destination: destination.id };
    return { name, at, slackMs: slackOf(row, at), owner: ownerOf(row) };
  });
}

function slackOf(row: DeliveryRow | undefined, at: number): number {
  const last = row?.state === "retrying" && row.nextAttemptAt === at ? row.log.at(-1) : undefined;
  return Math.max(TOGETHER_MS, last ? (at - last.at - last.latencyMs) * TOGETHER_SHARE : 0);
}

/**
 * What the batch carries, each delivery once, or once for each mark. A message that names none is logged and dropped.
 */
export function messageGroupsOf(services: Services, batch: MessageBatch): MessageGroup[] {
  const claimed = new Map<string, Runs>();
  return batch.messages.flatMap((message) => {
    const named = deliveryMessage(message.body);
    if (!named) dropUnreadable(services, message);
    const { bundles = [], owner } = named ?? {};
    const parts = bundles.flatMap((part) => unclaimed(part, owner, claimed));
    if (named && parts.length === 0) message.ack();
    const isWhole = parts.length === bundles.length && parts.every((part, i) => part === bundles[i]);
    return parts.length > 0 ? [{ message, parts, isWhole, owner }] : [];
  });
}

/** What nobody before has claimed of a part: the part itself, in the ordinary case. */
function unclaimed(part: BundlePart, owner: string | undefined, claimed: Map<string, Runs>): BundlePart[] {
  const { bundle, destinations, indexes = ALL } = part;
  const rests = new Map<string, readonly number[]>();
  let isWhole = true;
  for (const destination of destinations) {
    const key = `${bundle} ${destination} ${owner ?? ""}`;
    const before = claimed.get(key);
    if (!before) {
      claimed.set(key, indexes);
      continue;
    }
    const wanted = indexesOf(indexes);
    const rest = wanted.filter((index) => !isIn(before, index));
    rests.set(destination, rest);
    isWhole &&= rest.length === wanted.length;
    claimed.set(key, runsOf([...indexesOf(before), ...rest].sort((a, b) => a - b)));
  }
  if (isWhole) return [part];
  return destinations.flatMap((destination) => {
    const rest = rests.get(destination);
    if (!rest) return [{ ...part, destinations: [destination] }];
    return rest.length > 0 ? [{ bundle, destinations: [destination], indexes: runsOf(rest) }] : [];
  });
}

/**
 * The carrier of each delivery, for whoever has got them all mixed: a retry's is the one with its mark, and when it was
 * due by `now` without having been brought, any. Undefined when none of these is to bring it.
 */
export function messageGroupFinder(
  messageGroups: readonly MessageGroup[],
  now: number,
): (work: LoadedDelivery) => MessageGroup | undefined {
  const owners = new Map<string, (readonly [Runs, MessageGroup])[]>();
  for (const messageGroup of messageGroups) {
    for (const { bundle, destinations, indexes = ALL } of messageGroup.parts) {
      for (const destination of destinations) {
        const key = `${bundle} ${destination}`;
        const some = owners.get(key);
        if (some) some.push([indexes, messageGroup]);
        else owners.set(key, [[indexes, messageGroup]]);
      }
    }
  }
  return ({ event, destination, row }) => {
    const some = owners.get(`${bundleOf(event.id)} ${destination.id}`) ?? [];
    const naming = some.filter(([indexes]) => isIn(indexes, indexOf(event.id)));
    if (row?.state !== "retrying") return naming[0]?.[1];
    const owner = ownerOf(row);
    const own = naming.find(([, messageGroup]) => messageGroup.owner === owner);
    return (own ?? ((row.nextAttemptAt ?? 0) <= now ? naming[0] : undefined))?.[1];
  };
}

/** Each delivery once. Only messages with marks may name one that another names too. */
export function distinct(
  works: readonly LoadedDelivery[],
  messageGroups: readonly MessageGroup[],
): readonly LoadedDelivery[] {
  if (messageGroups.every(({ owner }) => owner === undefined)) return works;
  const each = new Map(works.map((work) => [`${work.event.id} ${work.destination.id}`, work]));
  return [...each.values()];
}

/** Lets a carrier's message go: done with, or to come again when the next of what is open is due. */
export async function ackOrRetry(
  services: Services,
  { message }: MessageGroup,
  open: readonly OpenDelivery[] = [],
): Promise<void> {
  if (open.length === 0) return message.ack();
  const now = services.now();
  const delaySeconds = delaySecondsUntil(wakeUpAt(open), now);
  const isReplaced =
    message.attempts >= RETRIES && (await replaced(services, () => sendOpen(services, open)));
  if (isReplaced) message.ack();
  else message.retry({ delaySeconds });
}

/** Has all that a message brings come again after a pause. */
export async function postpone(
  services: Services,
  messageGroup: MessageGroup,
  delaySeconds: number,
): Promise<void> {
  const { message, parts, owner } = messageGroup;
  const body = { bundles: parts, ...(owner !== undefined && { owner }) };
  const again = async () => void (await services.deliveries.send(body, { delaySeconds }));
  if (message.attempts >= RETRIES && (await replaced(services, again))) message.ack();
  else message.retry({ delaySeconds });
}

/**
 * When to come for the first of them, and for those that are due soon after it: one invocation for all of these. None
 * comes before its time, nor later than it by more than it may.
 */
export function wakeUpAt(open: readonly Pick<OpenDelivery, "at" | "slackMs">[]): number {
  let until = Number.POSITIVE_INFINITY;
  for (const { at, slackMs } of open) until = Math.min(until, at + slackMs);
  let last = 0;
  for (const { at } of open) if (at <= until) last = Math.max(last, at);
  return last;
}

/** Whether something new has taken the old message's place. */
async function replaced(services: Services, send: () => Promise<void>): Promise<boolean> {
  try {
    await send();
    return true;
  } catch (error) {
    services.log({ what: "replace_failed", error: faultOf(error) });
    return false;
  }
}

/** New messages for deliveries that have none, or whose message is about to go. */
export async function sendAgain(services: Services, dispositions: readonly Disposition[]): Promise<void> {
  await sendOpen(services, openDeliveriesOf(dispositions));
}

/** Those that are due together share a message, which names what is open and nothing else. */
async function sendOpen(services: Services, open: readonly OpenDelivery[]): Promise<void> {
  const messages = [...Map.groupBy(open, ({ owner }) => owner)].flatMap(([owner, some]) =>
    togetherOf(some).map((together) => messageFor(together, owner, services.now())),
  );
  for (const batch of batchesOf(messages)) await services.deliveries.sendBatch(batch);
}

/** By the invocations that they come in. */
function togetherOf(open: readonly OpenDelivery[]): OpenDelivery[][] {
  const groups: OpenDelivery[][] = [];
  let rest = open;
  while (rest.length > 0) {
    const at = wakeUpAt(rest);
    groups.push(rest.filter((one) => one.at <= at));
    rest = rest.filter((one) => one.at > at);
  }
  return groups;
}

/** One message for all of them, when the last is due. */
function messageFor(
  open: readonly OpenDelivery[],
  owner: string | undefined,
  now: number,
): MessageSendRequest<DeliveryMessage> {
  const bundles = partsOf(open.map(({ name }) => name));
  const delaySeconds = delaySecondsUntil(Math.max(...open.map(({ at }) => at)), now);
  return { body: { bundles, ...(owner !== undefined && { owner }) }, delaySeconds };
}

/** A message for each of them alone, at its time. */
export async function sendAlone(services: Services, open: readonly OpenDelivery[]): Promise<void> {
  const messages = open.map((one) => messageFor([one], one.owner, services.now()));
  for (const batch of batchesOf(messages)) await services.deliveries.sendBatch(batch);
}

function dropUnreadable(services: Services, message: Message): void {
  services.log({ what: "message_unreadable", message: message.id });
  message.ack();
}
