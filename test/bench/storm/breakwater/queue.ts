/**
 * A Cloudflare Queue in virtual time: batches of up to so many messages or of what has come in so long,
 * side by side up to a number of consumers, acknowledgements that take effect when the invocation ends.
 */
import type { Engine } from "../engine.ts";

export type QueueShape = Readonly<{
  batch: number;
  batchTimeoutMs: number;
  /** Invocations at once. The platform takes up to 250 and scales by itself; here all stand by. */
  consumers: number;
  /** From sending to being ready, without a delay. */
  hopMs: number;
}>;

type Held<Body> = { readonly body: Body; readonly attempts: number; readyAt: number };
type Delay = Readonly<{ delaySeconds?: number }>;
type Fate = { retry: Delay | undefined };

export function platformQueue<Body>(
  engine: Engine,
  shape: QueueShape,
  handle: (batch: MessageBatch<Body>) => Promise<void>,
): Queue<Body> {
  let ready: Held<Body>[] = [];
  let running = 0;
  let looksAt = Number.POSITIVE_INFINITY;

  function enqueue(body: Body, attempts: number, { delaySeconds = 0 }: Delay = {}): void {
    engine.after(shape.hopMs + delaySeconds * 1000, () => {
      ready.push({ body, attempts, readyAt: engine.now() });
      pump();
    });
  }

  function pump(): void {
    while (running < shape.consumers && ready.length > 0) {
      const fullAt = (ready[0]?.readyAt ?? 0) + shape.batchTimeoutMs;
      if (ready.length < shape.batch && fullAt > engine.now()) {
        lookAgain(fullAt);
        return;
      }
      const batch = ready.slice(0, shape.batch);
      ready = ready.slice(shape.batch);
      void invoke(batch);
    }
  }

  function lookAgain(at: number): void {
    if (looksAt <= at && looksAt > engine.now()) return;
    looksAt = at;
    engine.at(at, pump);
  }

  async function invoke(batch: readonly Held<Body>[]): Promise<void> {
    running += 1;
    const fates = batch.map((): Fate => ({ retry: undefined }));
    const messages = batch.map((held, i) => messageOf(held, fates[i]));
    await handle({ messages } as unknown as MessageBatch<Body>);
    running -= 1;
    for (const [i, { body, attempts }] of batch.entries()) {
      const again = fates[i]?.retry;
      if (again) enqueue(body, attempts + 1, again);
    }
    pump();
  }

  const queue = {
    send: async (body: Body, delay?: Delay) => enqueue(body, 1, delay),
    sendBatch: async (messages: readonly ({ body: Body } & Delay)[]) => {
      for (const message of messages) enqueue(message.body, 1, message);
    },
    metrics: async () => ({
      backlogCount: ready.length,
      backlogBytes: 0,
      ...(ready[0] && { oldestMessageTimestamp: new Date(ready[0].readyAt) }),
    }),
  };
  return queue as unknown as Queue<Body>;
}

/** What the handler says first about a message holds. */
function messageOf<Body>({ body, attempts }: Held<Body>, fate: Fate | undefined) {
  let said = false;
  const say = (retry: Delay | undefined) => {
    if (!said && fate) fate.retry = retry;
    said = true;
  };
  return { body, attempts, ack: () => say(undefined), retry: (delay: Delay = {}) => say(delay) };
}
