/**
 * The consumer of the drains queue. Each message is handled by itself; all drains of an invocation share its connections.
 *
 * Up to 0.3.0 this was the queue of upkeep too: what such a version has left on it is handled as well.
 */
import { archiving } from "../delivery/archiver.ts";
import { logCounts, withCounts } from "../delivery/attempt-log.ts";
import { type DrainContext, drain } from "../delivery/drain.ts";
import { connections, sendingInTurn } from "../delivery/http.ts";
import { Recorder } from "../delivery/recorder.ts";
import { faultOf } from "../log.ts";
import { drainMessage, waitingMessage } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import { doUpkeep } from "./upkeep-queue.ts";
import { scheduleDrainsOf } from "./waiting.ts";

/** Before a message that failed is tried again. */
const PAUSE_S = 10;

export async function consumeDrains(given: Services, batch: MessageBatch): Promise<void> {
  const shared = connections(batch.messages.length);
  const { services, release } = archiving(sendingInTurn(withCounts(given, "drain")), shared);
  const context = { services, connections: shared, recorder: new Recorder(services) };
  await Promise.all(
    batch.messages.map(async (message) => {
      try {
        await handle(context, message);
      } catch (error) {
        services.log({ what: "drain_failed", error: faultOf(error) });
        message.retry({ delaySeconds: PAUSE_S });
      }
    }),
  );
  logCounts(services);
  release();
}

async function handle(context: DrainContext, { body, attempts }: Message): Promise<void> {
  const drainOrder = drainMessage(body);
  if (drainOrder) return drain(context, drainOrder, attempts);
  const handedOn = waitingMessage(body);
  if (handedOn) return scheduleDrainsOf(context.services, handedOn.waiting);
  return doUpkeep(context.services, body);
}
