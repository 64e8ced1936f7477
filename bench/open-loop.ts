/** Posts at a steady rate, whether or not earlier posts have been answered: an open loop, like real traffic. */
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { corpusEvent } from "./corpus.ts";
import { type Running, typeOf } from "./throughput/contender.ts";
import type { Endpoints } from "./throughput/endpoints.ts";
import type { Posts } from "./throughput/load.ts";
import { delaysOf, quantile } from "./throughput/round.ts";

export type Steady = Readonly<{
  perSecond: number;
  events: number;
  /** The nth event, counted from 0. All are made before the first post. */
  event: (number: number) => object;
}>;

/** Latencies count from the moment when a post was due, not from when it could be sent. */
export async function postSteadily(to: Running, { perSecond, events, event }: Steady): Promise<Posts> {
  const agent = new Agent({ keepAlive: true });
  const bodies = Array.from({ length: events }, (_, n) => JSON.stringify(event(n)));
  const latencies: number[] = [];
  const acceptedAt = new Map<number, number>();
  const posts: Promise<void>[] = [];
  const startedAt = performance.now();
  const dueAt = (n: number) => startedAt + (n * 1000) / perSecond;
  while (posts.length < events) {
    for (; posts.length < events && dueAt(posts.length) <= performance.now(); ) {
      const n = posts.length;
      posts.push(
        postWithRetries(to, agent, bodies[n] ?? "").then(() => {
          const now = performance.now();
          latencies.push(now - dueAt(n));
          acceptedAt.set(n, now);
        }),
      );
    }
    await sleep(Math.max(0, dueAt(posts.length) - performance.now()));
  }
  await Promise.all(posts).finally(() => agent.destroy());
  return { latencies, acceptedAt };
}

/** Waiting times of events in ms: from post to answer, and from answer to arrival. */
export type Delays = Readonly<{ accept: readonly number[]; arrival: readonly number[] }>;

const PATIENCE_MS = 120_000;

/** Posts events of the corpus to all endpoints in turn. `behindMs` is the time from the last post to the last arrival. */
export async function delaysAt(
  running: Running,
  endpoints: Endpoints,
  perSecond: number,
  events: number,
): Promise<Delays & Readonly<{ behindMs: number }>> {
  endpoints.forget();
  const event = (n: number) => ({ type: typeOf(n % endpoints.urls.length), data: corpusEvent(n).data });
  const { latencies, acceptedAt } = await postSteadily(running, { perSecond, events, event });
  const postedAt = performance.now();
  await endpoints.arrived(events, PATIENCE_MS);
  const behindMs = Math.max(0, Math.max(...endpoints.arrivals.values()) - postedAt);
  return { accept: latencies, arrival: delaysOf(endpoints.arrivals, acceptedAt), behindMs };
}

/** The median over the rounds of each round's quantiles: one stall of the machine spoils only one round. */
export function medianQuantiles(rounds: readonly Delays[]) {
  const middle = (what: keyof Delays, q: number) =>
    quantile(
      rounds.map((delays) => quantile(delays[what], q)),
      0.5,
    );
  return {
    acceptP50Ms: middle("accept", 0.5),
    acceptP99Ms: middle("accept", 0.99),
    arrivalP50Ms: middle("arrival", 0.5),
    arrivalP99Ms: middle("arrival", 0.99),
  };
}

const TRIES = 4;
const PAUSE_MS = 1_000;

/** Posts again after a second if the answer is 503 or missing, as a customer would. */
async function postWithRetries(to: Running, agent: Agent, body: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    const fault = await postOnce(to, agent, body);
    if (fault === undefined) return;
    if (!fault.isTransient || tries === TRIES) throw new Error(fault.text);
    console.log(`Posted again: ${fault.text}`);
    await sleep(PAUSE_MS);
  }
}

type Fault = Readonly<{ isTransient: boolean; text: string }>;

function postOnce({ url, headers }: Running, agent: Agent, body: string): Promise<Fault | undefined> {
  const options = { method: "POST", agent, headers: { ...headers, "content-type": "application/json" } };
  return new Promise((resolve) => {
    const broken = (error: Error) => resolve({ isTransient: true, text: error.message });
    const sent = request(`${url}/v1/events`, options, async (response) => {
      let answer = "";
      response.once("error", broken);
      try {
        for await (const chunk of response) answer += chunk;
      } catch (error) {
        return broken(error as Error);
      }
      const { statusCode: status } = response;
      const text = `a post was answered ${status}: ${answer.slice(0, 200)}`;
      resolve(status === 202 ? undefined : { isTransient: status === 503, text });
    });
    sent.once("error", broken).end(body);
  });
}
