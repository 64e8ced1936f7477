/**
 * Queue messages while the Worker is misconfigured, which an operator may notice only after hours. No message is
 * handled, so no delivery loses an attempt. Each comes again after a minute, and the platform counts that against its
 * retries: a message of deliveries would be a dead letter after 100 minutes. So before its last retries a new message
 * takes its place, and the configuration may stay wrong for as long as D1 keeps the events. Messages of an operator's
 * queue of events are never replaced: their pauses grow, and then they go to that queue's own dead-letter queue.
 */
import type { Misconfiguration } from "../config.ts";
import { faultOf, type Log } from "../log.ts";
import { batchKindOf, deliveryMessage, eventsPauseSeconds, upkeepMessage } from "../queue-messages.ts";

/** Between two tries of a message: how much later than its correction a configuration takes effect, at most. */
const DELAY_S = 60;
/** Share of the 100 retries of deliveries and dead letters: ten are left for when the queue takes no new message. */
const RETRIES = 90;

/**
 * Retries the whole batch after a pause, and logs one line that names the variables at fault. Message by message, because
 * `retryAll` may retry what has been acknowledged.
 */
export async function keepMessages(
  env: Pick<Env, "DELIVERIES" | "UPKEEP">,
  batch: MessageBatch,
  fault: Misconfiguration,
  log: Log,
): Promise<void> {
  let replaced = 0;
  const areEvents = batchKindOf(env, batch) === "events";
  for (const message of batch.messages) {
    if (areEvents) {
      message.retry({ delaySeconds: eventsPauseSeconds(message.attempts, Math.random()) });
      continue;
    }
    const queue = queueToReplaceOn(env, message);
    if (queue && (await isSent(queue, message.body, log))) {
      message.ack();
      replaced += 1;
    } else message.retry({ delaySeconds: DELAY_S });
  }
  const messages = batch.messages.length;
  log({ what: "misconfigured", handler: batch.queue, messages, replaced, error: fault.message });
}

/**
 * The queue for a message that takes the place of this one; undefined while this one may be retried. A dead letter goes
 * back to the queue of deliveries: it has not failed by itself since.
 *
 * Drains and upkeep have three retries only. Of these, drains and pages of the cron's work are not replaced: gates
 * continue to schedule drains meanwhile, which would pile up, and the cron starts new pages.
 */
function queueToReplaceOn(
  { DELIVERIES, UPKEEP }: Pick<Env, "DELIVERIES" | "UPKEEP">,
  { body, attempts }: Message,
): Queue | undefined {
  const name = upkeepMessage(body)?.name;
  if (name === "deadLetterDigest" || name === "replay") return UPKEEP;
  return attempts >= RETRIES && deliveryMessage(body) ? DELIVERIES : undefined;
}

/** Each by itself: together they might be more than one call takes. */
async function isSent(queue: Queue, body: unknown, log: Log): Promise<boolean> {
  try {
    await queue.send(body, { delaySeconds: DELAY_S });
    return true;
  } catch (error) {
    log({ what: "replace_failed", error: faultOf(error) });
    return false;
  }
}
