/**
 * A virtual world in which nothing happens by itself: nothing consumes its queues, and there is no cron. A test passes
 * messages to the handlers, and checks what they do with them, what they send, and what they request of the gates.
 */
import { consumeDeliveries } from "../../src/delivery/consumer.ts";
import { consumeDeadLetters } from "../../src/delivery/dead-letters.ts";
import type { DeliveryMessage, DrainMessage, UpkeepQueueMessage } from "../../src/queue-messages.ts";
import type { Services } from "../../src/services.ts";
import { consumeDrains } from "../../src/upkeep.ts";
import { batchOf, fakeQueue, type MessageResult } from "./queues.ts";
import { type Posted, virtualWorld, type WorldOptions } from "./virtual-world.ts";

export type GateCall = Readonly<{
  method: string;
  destination: string;
  given: readonly unknown[];
  at: number;
}>;

/** A gate's answer to a call; `real` makes the real call. */
type Answer = (call: GateCall, real: () => Promise<unknown>) => Promise<unknown>;

/** The longest time that a handler may take. */
const MOST_MS = 120_000;
/** How long a call takes, there and back. */
const CALL_MS = 2;

type Handled = Readonly<{
  /** How many times its messages have been delivered, including this time. */
  attempts?: number;
  /** Replaces services of the handler. */
  instead?: (services: Services) => Partial<Services>;
}>;

export type ByHand = ReturnType<typeof worldByHand>;

export function worldByHand(options: Pick<WorldOptions, "seed" | "vars"> = {}) {
  const deliveries = fakeQueue<DeliveryMessage>();
  const drains = fakeQueue<DrainMessage>();
  const upkeep = fakeQueue<UpkeepQueueMessage>();
  const gateCalls: GateCall[] = [];
  let random = 0.5;
  let answer: Answer = (_, real) => real();

  const world = virtualWorld({
    ...options,
    isolates: { count: 1 },
    latency: { d1: CALL_MS, gate: CALL_MS, queue: CALL_MS },
    travel: { twice: 0, late: 0 },
    consumers: { deliveries: 0, drains: 0 },
    cron: false,
    wrap: (services) => ({
      ...services,
      random: () => random,
      deliveries: deliveries.queue,
      drains: drains.queue,
      upkeep: upkeep.queue,
      gates: watched(services.gates),
    }),
  });

  function watched(gates: Services["gates"]): Services["gates"] {
    const names = new Map<DurableObjectId, string>();
    const idFromName = (name: string) => {
      const id = gates.idFromName(name);
      names.set(id, name);
      return id;
    };
    const get = (id: DurableObjectId) => {
      const stub = gates.get(id) as unknown as Record<string, (...given: unknown[]) => Promise<unknown>>;
      return new Proxy(stub, {
        get:
          (_, method: string) =>
          (...given: unknown[]) => {
            const called = { method, destination: names.get(id) ?? "", given, at: world.now() };
            gateCalls.push(called);
            return answer(called, async () => stub[method]?.(...given));
          },
      });
    };
    return { idFromName, get } as unknown as Services["gates"];
  }

  /** Runs a handler to its end; its background work continues while time passes. Rejects when the handler throws. */
  async function handled<T>(
    name: string,
    handler: (services: Services) => Promise<T>,
    { instead }: Handled = {},
  ) {
    let result: PromiseSettledResult<T> | undefined;
    void world.invoke(name, async (services) => {
      [result] = await Promise.allSettled([handler({ ...services, ...instead?.(services) })]);
    });
    await world.engine.run(() => result !== undefined, world.now() + MOST_MS);
    if (!result) throw new Error(`${name} does not come to an end`);
    if (result.status === "rejected") throw result.reason;
    return result.value;
  }

  async function consumed(
    queue: string,
    handler: (services: Services, batch: MessageBatch) => Promise<void>,
    bodies: readonly unknown[],
    how: Handled,
  ): Promise<MessageResult[]> {
    const { batch, results } = batchOf(queue, bodies, how.attempts);
    await handled(queue, (services) => handler(services, batch), how);
    return results;
  }

  /** Posts `count` events in one request, and returns their messages. */
  async function post(count = 1, posted?: Posted): Promise<DeliveryMessage[]> {
    let ended = false;
    void world.post(count, posted).then(() => {
      ended = true;
    });
    await world.engine.run(() => ended, world.now() + MOST_MS);
    return deliveries.taken().map(({ body }) => body);
  }

  return {
    ...world,
    post,
    handled,
    consume: (bodies: readonly unknown[], how: Handled = {}) =>
      consumed("breakwater-deliveries", consumeDeliveries, bodies, how),
    bury: (bodies: readonly unknown[], how: Handled = {}) =>
      consumed("breakwater-dead", consumeDeadLetters, bodies, { attempts: 100, ...how }),
    drain: (body: unknown, how: Handled = {}) => consumed("breakwater-drains", consumeDrains, [body], how),
    /** Consumes drains as one batch. */
    drainTogether: (bodies: readonly unknown[], how: Handled = {}) =>
      consumed("breakwater-drains", consumeDrains, bodies, how),
    /** Returns what the handlers have sent since the last call. */
    sent: deliveries.taken,
    sentDrains: drains.taken,
    sentUpkeep: upkeep.taken,
    gateCalls,
    /** The arguments of each call to this method of gates; of one destination, or of all. */
    asked: (method: string, destination?: string) =>
      gateCalls
        .filter((call) => call.method === method && (destination ?? call.destination) === call.destination)
        .map(({ given }) => given[0] as Record<string, unknown>),
    /** Sets how gates answer from now on. */
    answering: (next: Answer) => {
      answer = next;
    },
    /** Sets what `random` returns from now on, in [0, 1). */
    chance: (value: number) => {
      random = value;
    },
  };
}
