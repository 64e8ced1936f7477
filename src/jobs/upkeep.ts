/** The invocations that run jobs: the cron, and the consumers of the queues of upkeep and drains. */
import { mostSideBySide } from "../core/drain-queries.ts";
import { attempting } from "../delivery/attempt-log.ts";
import { connections } from "../delivery/connections.ts";
import { drain } from "../delivery/drain.ts";
import { Recorder } from "../delivery/recorder.ts";
import { faultOf } from "../log.ts";
import { type DrainMessage, drainMessage, upkeepMessage, waitingMessage } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import { allOf, countQueries } from "../store/databases.ts";
import type { UpkeepTask } from "./runner.ts";
import { scheduleDrainsOf } from "./waiting.ts";

/** The delay before a failed message is tried again. */
const PAUSE_S = 10;

type Consume = (services: Services, batch: MessageBatch) => Promise<void>;

type Upkeep = Readonly<{
  /**
   * Begins all tasks, every minute, in the order given. They run side by side: the failure of one does not keep the others
   * from running. Throws the first error once all have ended, so that the platform counts the invocation as failed.
   */
  runCron: (services: Services) => Promise<void>;
  /** Each message is an invocation of its own (wrangler.toml), with queries of its own. */
  consumeUpkeep: Consume;
  /**
   * Each message is handled by itself. Drains of different destinations run side by side, so that none waits for another,
   * and share connections and queries. Drains that an invocation may die of run after the others, one by one. Up to
   * 0.3.0 this was the queue of upkeep too: messages that such a version has left on it are handled as well.
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
    const { others, ready, alone } = arranged(batch.messages);
    const most = mostSideBySide(allOf(given).length, alone.length);
    const together = firstOfEach(ready).slice(0, most);
    const running = new Set(together);
    const shared = connections(running.size, "each");
    const { queries, ...databases } = countQueries(given);
    const { services, end } = await attempting({ ...given, ...databases }, "drain", shared);
    let toCome = alone.length;
    const context = {
      ...{ services, connections: shared, recorder: new Recorder(services), queries },
      ...{ sideBySide: () => running.size, toCome: () => toCome },
    };
    const run = async (one: Ordered) => {
      const { message, order } = one;
      running.add(one);
      await attempt(services, "drain_failed", message, () => drain(context, order, message.attempts));
      running.delete(one);
      shared.shareAmong(running.size);
    };
    await Promise.all([
      ...together.map(run),
      // For these the connections or the queries of this invocation do not suffice.
      ...ready
        .filter((one) => !together.includes(one))
        .map(({ message, order }) =>
          attempt(services, "drain_failed", message, () => services.drains.send(order)),
        ),
      ...others.map((message) =>
        attempt(services, "drain_failed", message, (_, body) => {
          const handedOn = waitingMessage(body);
          return handedOn ? scheduleDrainsOf(services, handedOn.waiting) : receive(services, body);
        }),
      ),
    ]);
    for (const one of alone) {
      toCome -= 1;
      await run(one);
    }
    end();
  }

  return { runCron, consumeUpkeep, consumeDrains };
}

type Ordered = Readonly<{ message: Message; order: DrainMessage }>;

/** The drains of a batch that run together, those that an invocation may die of, and the messages that are not drains. */
function arranged(messages: readonly Message[]) {
  const ordered = messages.flatMap((message): Ordered[] => {
    const order = drainMessage(message.body);
    return order ? [{ message, order }] : [];
  });
  // A drain that has come before may have ended its former invocation.
  const isSuspect = ({ message, order }: Ordered) => order.alone || message.attempts > 1;
  return {
    ready: ordered.filter((one) => !isSuspect(one)),
    alone: ordered.filter(isSuspect),
    others: messages.filter(({ body }) => drainMessage(body) === undefined),
  };
}

/** Two drains of a destination would share the connections that one can have, and take more leases for the same deliveries. */
function firstOfEach(drains: readonly Ordered[]): readonly Ordered[] {
  const byDestination = Map.groupBy(drains, ({ order }) => order.destination);
  return [...byDestination.values()].flatMap((some) => some.slice(0, 1));
}

/** A message that fails comes again after a pause. */
async function attempt(
  services: Services,
  what: string,
  message: Message,
  consume: (services: Services, body: unknown) => Promise<unknown>,
): Promise<void> {
  try {
    await consume(services, message.body);
  } catch (error) {
    services.log({ what, error: faultOf(error) });
    message.retry({ delaySeconds: PAUSE_S });
  }
}
