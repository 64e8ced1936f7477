/** The invocations that run jobs: the cron, and the consumers of the queues of upkeep and drains. */
import { archiving } from "../delivery/archiver.ts";
import { logCounts, withCounts } from "../delivery/attempt-log.ts";
import { type DrainContext, drain } from "../delivery/drain.ts";
import { connections, sendingInTurn } from "../delivery/http.ts";
import { Recorder } from "../delivery/recorder.ts";
import { faultOf } from "../log.ts";
import { drainMessage, upkeepMessage, waitingMessage } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import type { UpkeepTask } from "./runner.ts";
import { scheduleDrainsOf } from "./waiting.ts";

/** Before a message that failed is tried again. */
const PAUSE_S = 10;

type Consume = (services: Services, batch: MessageBatch) => Promise<void>;

export type Upkeep = Readonly<{
  /**
   * Begins all tasks, every minute, in the order given. They run side by side: the failure of one does not keep the others
   * from running. Throws the first error once all have ended, so that the platform counts the invocation as failed.
   */
  runCron: (services: Services) => Promise<void>;
  /** Each message is an invocation of its own (wrangler.toml), with queries of its own. */
  consumeUpkeep: Consume;
  /**
   * Each message is handled by itself; all drains of an invocation share its connections. Up to 0.3.0 this was the queue of
   * upkeep too: what such a version has left on it is handled as well.
   */
  consumeDrains: Consume;
}>;

/** @param tasks every name once */
export function upkeepOf(
  tasks: readonly (UpkeepTask | Readonly<{ run: NonNullable<UpkeepTask["run"]> }>)[],
): Upkeep {
  const receivers = new Map(tasks.flatMap((task) => ("name" in task ? [[task.name, task.receive]] : [])));

  async function runCron(services: Services): Promise<void> {
    const results = await Promise.allSettled(tasks.map((task) => task.run?.(services)));
    const failed = results.filter((result) => result.status === "rejected");
    for (const { reason } of failed) services.log({ what: "cron_task_failed", error: faultOf(reason) });
    if (failed[0]) throw failed[0].reason;
  }

  /** Does nothing for a body that no version has sent. */
  async function receive(services: Services, body: unknown): Promise<void> {
    const message = upkeepMessage(body);
    if (message) await receivers.get(message.name)?.(services, message);
  }

  async function consumeUpkeep(services: Services, batch: MessageBatch): Promise<void> {
    for (const message of batch.messages) await attempt(services, "upkeep_failed", message, receive);
  }

  async function consumeDrains(given: Services, batch: MessageBatch): Promise<void> {
    const shared = connections(batch.messages.length);
    const { services, release } = archiving(sendingInTurn(withCounts(given, "drain")), shared);
    const context: DrainContext = { services, connections: shared, recorder: new Recorder(services) };
    await Promise.all(
      batch.messages.map((message) =>
        attempt(services, "drain_failed", message, (_, body) => {
          const drainOrder = drainMessage(body);
          if (drainOrder) return drain(context, drainOrder, message.attempts);
          const handedOn = waitingMessage(body);
          return handedOn ? scheduleDrainsOf(services, handedOn.waiting) : receive(services, body);
        }),
      ),
    );
    logCounts(services);
    release();
  }

  return { runCron, consumeUpkeep, consumeDrains };
}

/** A message that fails comes again after a pause. */
async function attempt(
  services: Services,
  what: string,
  message: Message,
  consume: (services: Services, body: unknown) => Promise<void>,
): Promise<void> {
  try {
    await consume(services, message.body);
  } catch (error) {
    services.log({ what, error: faultOf(error) });
    message.retry({ delaySeconds: PAUSE_S });
  }
}
