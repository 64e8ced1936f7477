/** Deliveries and the queue: what a message names, and how a delivery is brought again at its time. */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { Work } from "../store/work.ts";
import { type DeliveryMessage, deliveryMessage } from "./message.ts";
import type { Verdict } from "./verdicts.ts";

/** The messages of a batch that name the same delivery: the first carries it, the others are echoes. */
export type Carrier = Readonly<{ named: DeliveryMessage; messages: readonly Message[] }>;

/** Queues takes whole seconds, a day at most; whoever comes too early is sent on again. */
const LONGEST_DELAY_S = 86_400;
/** A message is replaced by a new one before the platform's limit of 100 retries makes it a dead letter. */
const RETRIES = 90;
/** Queues takes so many messages in one call. */
const BATCH = 100;

/** What the batch carries, each delivery once. A message that names none is logged and dropped. */
export function carriersOf(services: Services, batch: MessageBatch): Carrier[] {
  const carriers = new Map<string, { named: DeliveryMessage; messages: Message[] }>();
  for (const message of batch.messages) {
    const named = deliveryMessage(message.body);
    const key = `${named?.event} ${named?.destination}`;
    if (!named) dropUnreadable(services, message);
    else if (!carriers.get(key)?.messages.push(message)) carriers.set(key, { named, messages: [message] });
  }
  return [...carriers.values()];
}

/** Lets a carrier's messages go: done with, or to come again at the verdict's time. */
export async function dispose(
  services: Services,
  { messages, named }: Carrier,
  againAt?: number,
): Promise<void> {
  const [first, ...echoes] = messages;
  for (const echo of echoes) echo.ack();
  if (againAt === undefined) return first?.ack();
  const delaySeconds = delaySecondsUntil(againAt, services.now());
  if (!first || first.attempts < RETRIES || !(await replaced(services, named, delaySeconds))) {
    return first?.retry({ delaySeconds });
  }
  first.ack();
}

/** Whether a new message has taken the old one's place. */
async function replaced(services: Services, named: DeliveryMessage, delaySeconds: number): Promise<boolean> {
  try {
    await services.deliveries.send(named, { delaySeconds });
    return true;
  } catch (error) {
    services.log({ what: "replace_failed", error: faultOf(error) });
    return false;
  }
}

/** New messages for deliveries whose message is gone and that are to be tried again. */
export async function sendAgain(services: Services, verdicts: readonly Verdict[]): Promise<void> {
  const now = services.now();
  const messages = verdicts.flatMap(({ work, againAt }) =>
    againAt === undefined ? [] : [{ body: messageFor(work), delaySeconds: delaySecondsUntil(againAt, now) }],
  );
  for (let from = 0; from < messages.length; from += BATCH) {
    await services.deliveries.sendBatch(messages.slice(from, from + BATCH));
  }
}

/** Seconds until `at`, rounded up, so that nothing comes before its time. */
export function delaySecondsUntil(at: number, now: number): number {
  return Math.min(LONGEST_DELAY_S, Math.max(0, Math.ceil((at - now) / 1000)));
}

function messageFor({ event, destination }: Work): DeliveryMessage {
  return { event: event.id, destination: destination.id };
}

function dropUnreadable(services: Services, message: Message): void {
  services.log({ what: "message_unreadable", message: message.id });
  message.ack();
}
