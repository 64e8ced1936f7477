/**
 * The consumer of the drains queue: drains, steps of replays and erasures, dead-letter digests, and pages of the sweep and of
 * retention that did not fit into a cron run. Each message is handled by itself; all drains of an invocation share its
 * connections.
 */
import { archiving } from "../delivery/archiver.ts";
import { logCounts, withCounts } from "../delivery/attempt-log.ts";
import { type DrainContext, drain } from "../delivery/drain.ts";
import { connections, sendingInTurn } from "../delivery/http.ts";
import { Recorder } from "../delivery/recorder.ts";
import { faultOf } from "../log.ts";
import { publishDigest } from "../notifications/publish.ts";
import {
  digestMessage,
  drainMessage,
  erasureMessage,
  replayMessage,
  upkeepMessage,
} from "../queue-messages.ts";
import { stepReplay } from "../replay/run.ts";
import type { Services } from "../services.ts";
import { continueUpkeep } from "./cron.ts";
import { stepErasure } from "./erasure.ts";

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
  const { services } = context;
  const drainOrder = drainMessage(body);
  if (drainOrder) await drain(context, drainOrder, attempts);
  const step = replayMessage(body);
  if (step) await stepReplay(services, step.replay);
  const erasureStep = erasureMessage(body);
  if (erasureStep) await stepErasure(services, erasureStep.erasure);
  const digest = digestMessage(body);
  if (digest) await publishDigest(services, digest.deadLetterDigest);
  const upkeep = upkeepMessage(body);
  if (upkeep) await continueUpkeep(services, upkeep);
}
