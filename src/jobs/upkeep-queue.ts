/**
 * The consumer of the upkeep queue: steps of replays and erasures, dead-letter digests, and pages of the cron's work that did
 * not fit into its invocation. Each message is an invocation of its own (wrangler.toml), with queries of its own.
 */

import { stepErasure } from "../features/erasures/job.ts";
import { publishDigest } from "../features/notifications/publish.ts";
import { stepReplay } from "../features/replays/job.ts";
import { faultOf } from "../log.ts";
import { upkeepQueueMessage } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import { continueUpkeep } from "./cron.ts";

/** Before a message that failed is tried again. */
const PAUSE_S = 10;

export async function consumeUpkeep(services: Services, batch: MessageBatch): Promise<void> {
  for (const message of batch.messages)
    try {
      await doUpkeep(services, message.body);
    } catch (error) {
      services.log({ what: "upkeep_failed", error: faultOf(error) });
      message.retry({ delaySeconds: PAUSE_S });
    }
}

/** Does nothing for a body that no version has sent. */
export async function doUpkeep(services: Services, body: unknown): Promise<void> {
  const message = upkeepQueueMessage(body);
  if (message === undefined) return;
  if ("replay" in message) return stepReplay(services, message.replay);
  if ("erasure" in message) return stepErasure(services, message.erasure);
  if ("deadLetterDigest" in message) return publishDigest(services, message.deadLetterDigest);
  return continueUpkeep(services, message);
}
