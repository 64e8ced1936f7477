/**
 * The consumer of an operator's own queues of events: each message is one event, accepted once.
 *
 * The messages of a batch are committed together. A message that the platform delivers again is recognized by the token
 * under which its event was committed, which is made of the queue's name and the message's id, so that this costs no
 * row. A message that a sender may send twice has an idempotency key of its own, as over HTTP.
 *
 * A message that can never be accepted is retried without a pause, until the platform moves it to the queue's
 * dead-letter queue unchanged: a copy would have another id, and might have another content type.
 */
import { type Refused, withFieldNames } from "../core/result.ts";
import { MAX_EVENT_BYTES, newEvent, ofOne } from "../features/events/schema.ts";
import { postEach } from "../features/events/service.ts";
import { idempotencyKey, strict } from "../features/parameters.ts";
import { messageToken } from "../ids.ts";
import { eventsPauseSeconds } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import { readValue } from "./json-value.ts";

/** Any sender that may send to the operator's queue may post for every tenant except the operator's own. */
const SENDER = { via: "queue", scopes: ["events:write"] } as const;

const KEY_FIELD = "idempotency_key";

const eventMessage = strict({ ...newEvent.shape, [KEY_FIELD]: idempotencyKey });

/** Why a message can never be accepted, for the log. */
type Unacceptable = Readonly<{ fault: string }>;

/** Characters of a fault in the log: it may name a field as the message does. */
const MAX_FAULT = 200;

/** The expectation and its place, but not the found value, which belongs to the message. */
function faultOf({ detail, errors = [] }: Refused): Unacceptable {
  const [first] = errors;
  if (first === undefined) return { fault: detail };
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : "";
  return { fault: `${`${first.field}: expected ${first.expected}`.slice(0, MAX_FAULT)}${more}` };
}

export async function consumeEvents(services: Services, batch: MessageBatch): Promise<void> {
  const read = await Promise.all(
    batch.messages.map(async (message) => ({ message, read: await readMessage(batch.queue, message) })),
  );
  const readable = read.flatMap(({ message, read }) => ("fault" in read ? [] : [{ message, posted: read }]));
  for (const { message, read: one } of read) if ("fault" in one) refuse(services, batch.queue, message, one);
  const handed = readable.map(({ posted }) => posted);
  const posted = await postEach({ services, principal: SENDER }, handed);
  if (posted.kind !== "ok") throw new Error(posted.detail);
  let delayed = 0;
  for (const [i, { message }] of readable.entries()) {
    const result = posted.value[i];
    if (result?.kind === "ok") message.ack();
    else if (result === undefined || result.kind === "unavailable") {
      message.retry({ delaySeconds: eventsPauseSeconds(message.attempts, services.random()) });
      delayed += 1;
    } else refuse(services, batch.queue, message, faultOf(withFieldNames(result, ofOne)));
  }
  if (delayed > 0) services.log({ what: "messages_delayed", queue: batch.queue, messages: delayed });
}

async function readMessage(queue: string, { id, body, timestamp, attempts }: Message) {
  const read = readValue(eventMessage, body, "message", MAX_EVENT_BYTES);
  if ("kind" in read) return faultOf(read);
  const { [KEY_FIELD]: key, ...event } = read.data;
  const token = await messageToken(queue, id);
  return { event, key, token, sentAt: timestamp.getTime(), isRepeated: attempts > 1 };
}

/** Lets the message go to the dead-letter queue of its queue. */
function refuse(services: Services, queue: string, message: Message, { fault }: Unacceptable): void {
  const { id, attempts } = message;
  message.retry({ delaySeconds: 0 });
  // Not at every attempt, because lines are billed; not only at the first, because that may have been lost.
  if (Number.isInteger(Math.log2(attempts)))
    services.log({ what: "message_refused", queue, message: id, fault });
}
