/** Generates the load: posts events as fast as possible, singly or in batches, over a number of connections. */
import autocannon from "autocannon";
import { type PostedEvent, type PostRequest, type Running, typeOf } from "./contender.ts";

export type Shape = Readonly<{
  name: string;
  events: number;
  perPost: number;
  connections: number;
  /** The data of an event; by default a kilobyte of padding. */
  data?: (number: number) => unknown;
}>;

export type Posts = Readonly<{
  /** From request to answer, ms, for each post. */
  latencies: readonly number[];
  /** When each event's post was answered, in ms of `performance.now()`, by the event's number. */
  acceptedAt: ReadonlyMap<number, number>;
}>;

/** Makes about a kilobyte an event, a common size of webhooks. */
const PADDING = "x".repeat(900);

export async function post(to: Running, shape: Shape, endpoints: number): Promise<Posts> {
  const latencies: number[] = [];
  const acceptedAt = new Map<number, number>();
  const requestOf = to.request ?? ourRequest;
  let next = 0;
  const result = await autocannon({
    url: to.url,
    connections: shape.connections,
    amount: shape.events / shape.perPost,
    timeout: 60,
    requests: [
      {
        method: "POST",
        headers: { ...to.headers, "content-type": "application/json" },
        setupRequest: (request, context: Partial<Sent>) => {
          const first = next;
          next += shape.perPost;
          Object.assign(context, { first, at: performance.now() });
          const { path, body } = requestOf(eventsOf(first, shape, endpoints));
          return { ...request, path, body: JSON.stringify(body) };
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

export function padded(number: number): unknown {
  return { number, padding: PADDING };
}

export function ourRequest(events: readonly PostedEvent[]): PostRequest {
  const [only] = events;
  return events.length === 1
    ? { path: "/v1/events", body: only }
    : { path: "/v1/events/batch", body: { events } };
}

function eventsOf(first: number, { perPost, data = padded }: Shape, endpoints: number): PostedEvent[] {
  return Array.from({ length: perPost }, (_, i) => ({
    type: typeOf((first + i) % endpoints),
    data: data(first + i),
  }));
}
