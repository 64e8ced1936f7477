/**
 * A Cloudflare Queue in virtual time: batches that are limited in size and in waiting time, several consumers,
 * acknowledgements that take effect when the invocation ends, and dead letters. Messages come out of order and, if
 * wanted, late or twice.
 */
import type { Engine } from "../engine.ts";

export type QueueShape = Readonly<{
  name: string;
  batch: number;
  batchTimeoutMs: number;
  /** Concurrent invocations. The platform scales by itself, up to 250; here all are ready from the start. */
  consumers: number;
  maxRetries: number;
  /** The delay of a retry for which the consumer has named no other. */
  retryDelayS: number;
}>;

/** How messages travel. */
export type Travel = Readonly<{
  /** From sending to being ready, without a delay: a random time between the two. */
  hopMs: readonly [least: number, most: number];
  /** Shares of the messages, 0 to 1. */
  twice: number;
  late: number;
  /** How late a late message or a second copy is at most. */
  lateMs: number;
}>;

/** How an invocation ended. After a crash, none of its acknowledgements and retries count. */
export type Ending = "done" | "threw" | "crashed";

type Held<Body> = { readonly id: string; readonly body: Body; readonly attempts: number; readyAt: number };
type Delay = Readonly<{ delaySeconds?: number }>;
type Fate = "left" | "acked" | Readonly<{ retry: Delay }>;

export type VirtualQueue<Body> = Readonly<{
  /** The queue as production code sees it, with each call made by `call`. */
  bindingFor: (call: <T>(method: string, work: () => T) => Promise<T>) => Queue<Body>;
  /** The number of messages that can be consumed; delayed ones are not among them. */
  ready: () => number;
}>;

type Parts<Body> = Readonly<{
  engine: Engine;
  shape: QueueShape;
  travel: Travel;
  handle: (batch: MessageBatch<Body>) => Promise<Ending>;
  /** Receives messages that have used up their retries. */
  dead?: (body: Body) => void;
}>;

export function virtualQueue<Body>({ engine, shape, travel, handle, dead }: Parts<Body>): VirtualQueue<Body> {
  let ready: Held<Body>[] = [];
  let running = 0;
  let checksAt = Number.POSITIVE_INFINITY;
  let ids = 0;

  const isSo = (share: number) => share > 0 && engine.random() < share;
  const upTo = (ms: number) => engine.random() * ms;

  function send(body: Body, delay: Delay = {}): void {
    ids += 1;
    const id = `${shape.name}-${ids}`;
    travelTo(id, body, 1, delay);
    if (isSo(travel.twice)) engine.after(upTo(travel.lateMs), () => travelTo(id, body, 1, delay));
  }

  function travelTo(id: string, body: Body, attempts: number, { delaySeconds = 0 }: Delay): void {
    const [least, most] = travel.hopMs;
    const late = isSo(travel.late) ? upTo(travel.lateMs) : 0;
    engine.after(least + upTo(most - least) + late + delaySeconds * 1000, () => {
      ready.push({ id, body, attempts, readyAt: engine.now() });
      pump();
    });
  }

  function pump(): void {
    while (running < shape.consumers && ready.length > 0) {
      const fullAt = (ready[0]?.readyAt ?? 0) + shape.batchTimeoutMs;
      if (ready.length < shape.batch && fullAt > engine.now()) {
        checkAgain(fullAt);
        return;
      }
      const batch = ready.slice(0, shape.batch);
      ready = ready.slice(shape.batch);
      void invoke(batch);
    }
  }

  function checkAgain(at: number): void {
    if (checksAt <= at && checksAt > engine.now()) return;
    checksAt = at;
    engine.at(at, pump);
  }

  async function invoke(held: readonly Held<Body>[]): Promise<void> {
    running += 1;
    const results: Fate[] = held.map(() => "left");
    const messages = held.map((one, i) => messageOf(one, i, results));
    const ending = await handle(batchOf(shape.name, messages, results));
    running -= 1;
    for (const [i, one] of held.entries()) bringAgain(one, fateAfter(ending, results[i] ?? "left"));
    pump();
  }

  function bringAgain({ id, body, attempts }: Held<Body>, fate: Fate): void {
    if (typeof fate === "string") return;
    if (attempts <= shape.maxRetries)
      travelTo(id, body, attempts + 1, { delaySeconds: shape.retryDelayS, ...fate.retry });
    else dead?.(body);
  }

  function bindingFor(call: <T>(method: string, work: () => T) => Promise<T>): Queue<Body> {
    const queue = {
      send: (body: Body, delay?: Delay) => {
        const sent = structuredClone(body);
        return call("send", () => send(sent, delay));
      },
      sendBatch: (messages: Iterable<{ body: Body } & Delay>) => {
        const sent = structuredClone([...messages]);
        return call("sendBatch", () => {
          for (const message of sent) send(message.body, message);
        });
      },
      metrics: () =>
        call("metrics", () => ({
          backlogCount: ready.length,
          backlogBytes: 0,
          ...(ready[0] && { oldestMessageTimestamp: new Date(ready[0].readyAt) }),
        })),
    };
    return queue as unknown as Queue<Body>;
  }

  return { bindingFor, ready: () => ready.length };
}

/** A message that the handler has not mentioned is acknowledged when the handler returns, and retried when it throws. */
function fateAfter(ending: Ending, fate: Fate): Fate {
  if (ending === "crashed") return { retry: {} };
  return ending === "threw" && fate === "left" ? { retry: {} } : fate;
}

function batchOf<Body>(queue: string, messages: readonly unknown[], results: Fate[]): MessageBatch<Body> {
  const all = (fate: Fate) => {
    for (const [i, before] of results.entries()) if (before === "left") results[i] = fate;
  };
  const batch = {
    queue,
    messages,
    ackAll: () => all("acked"),
    retryAll: (delay: Delay = {}) => all({ retry: delay }),
  };
  return batch as unknown as MessageBatch<Body>;
}

/** The handler's first call for a message counts. */
function messageOf<Body>({ id, body, attempts, readyAt }: Held<Body>, i: number, results: Fate[]) {
  const say = (fate: Fate) => {
    if (results[i] === "left") results[i] = fate;
  };
  return {
    id,
    body,
    attempts,
    timestamp: new Date(readyAt),
    ack: () => say("acked"),
    retry: (delay: Delay = {}) => say({ retry: delay }),
  };
}
