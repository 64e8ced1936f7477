/** The load: so many events, posted one by one or in batches over so many connections, as fast as it goes. */
import autocannon from "autocannon";
import { type Running, typeOf } from "./contender.ts";

export type Shape = Readonly<{
  name: string;
  events: number;
  perPost: number;
  connections: number;
  /** The data of an event; a kilobyte that says nothing unless given. */
  data?: (number: number) => unknown;
}>;

export type Posts = Readonly<{
  /** From request to answer, ms, for each post. */
  latencies: readonly number[];
  /** When the answer to an event's post came, in ms of `performance.now()`, by its number. */
  acceptedAt: ReadonlyMap<number, number>;
}>;

/** About a kilobyte an event, as webhooks commonly have. */
const PADDING = "x".repeat(900);

export async function post(to: Running, shape: Shape, endpoints: number): Promise<Posts> {
  const latencies: number[] = [];
  const acceptedAt = new Map<number, number>();
  let next = 0;
  const result = await autocannon({
    url: to.url,
    connections: shape.connections,
    amount: shape.events / shape.perPost,
    timeout: 60,
    requests: [
      {
        method: "POST",
        path: shape.perPost === 1 ? "/v1/events" : "/v1/events/batch",
        headers: { ...to.headers, "content-type": "application/json" },
        setupRequest: (request, context: Partial<Sent>) => {
          const first = next;
          next += shape.perPost;
          Object.assign(context, { first, at: performance.now() });
          return { ...request, body: bodyOf(first, shape, endpoints) };
        },
        onResponse: (status, body, context) => {
          const { first, at } = context as Sent;
          const now = performance.now();
          if (status !== 202) throw new Error(`A post was answered ${status}: ${body.slice(0, 200)}`);
          latencies.push(now - at);
          for (let i = first; i < first + shape.perPost; i++) acceptedAt.set(i, now);
        },
      },
    ],
  });
  if (result.errors > 0) throw new Error(`${result.errors} posts failed`);
  return { latencies, acceptedAt };
}

type Sent = { first: number; at: number };

function padded(number: number): unknown {
  return { number, padding: PADDING };
}

function bodyOf(first: number, { perPost, data = padded }: Shape, endpoints: number): string {
  const events = Array.from({ length: perPost }, (_, i) => ({
    type: typeOf((first + i) % endpoints),
    data: data(first + i),
  }));
  return JSON.stringify(perPost === 1 ? events[0] : { events });
}
