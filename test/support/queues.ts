/** Fake queues that record what was sent, and batches that record what was done with their messages. */

export type Sent<T> = Readonly<{ body: T; delaySeconds?: number }>;

export type FakeQueue<T> = Readonly<{
  queue: Queue<T>;
  /** The messages since the last call. */
  taken: () => Sent<T>[];
  /** Sets whether sending throws. */
  break: (broken: boolean) => void;
  /** Sets the timestamp of the oldest message in the queue's metrics; "unavailable" throws. */
  oldest: (at: number | undefined | "unavailable") => void;
}>;

export function fakeQueue<T>(): FakeQueue<T> {
  const sent: Sent<T>[] = [];
  let broken = false;
  let oldest: number | undefined | "unavailable";

  async function put(messages: readonly Sent<T>[]): Promise<void> {
    if (broken) throw new Error("The queue is away, as the test wants it");
    sent.push(...messages);
  }

  const queue = {
    send: (body: T, options: QueueSendOptions = {}) => put([{ body, ...options }]),
    sendBatch: (messages: Iterable<Sent<T>>) => put([...messages]),
    metrics: async () => {
      if (oldest === "unavailable") throw new Error("No metrics, as the test wants it");
      return { backlogCount: 0, backlogBytes: 0, oldestMessageTimestamp: oldest && new Date(oldest) };
    },
  };
  return {
    queue: queue as unknown as Queue<T>,
    taken: () => sent.splice(0),
    break: (is) => {
      broken = is;
    },
    oldest: (at) => {
      oldest = at;
    },
  };
}

/** The outcome of a message; one that is `left` is acknowledged when its handler returns. */
export type MessageResult = "acked" | "left" | Readonly<{ retryIn: number | undefined }>;

/** A batch as the platform makes it: the first `ack` or `retry` of a message counts. */
export function batchOf(queue: string, bodies: readonly unknown[], attempts = 1) {
  const results: MessageResult[] = bodies.map(() => "left");
  const decide = (i: number, result: MessageResult) => {
    if (results[i] === "left") results[i] = result;
  };
  const messages = bodies.map((body, i) => ({
    id: `message-${i}`,
    timestamp: new Date(),
    body,
    attempts,
    ack: () => decide(i, "acked"),
    retry: (options?: QueueRetryOptions) => decide(i, { retryIn: options?.delaySeconds }),
  }));
  return { batch: { queue, messages } as unknown as MessageBatch, results };
}
