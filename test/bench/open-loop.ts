/** Posts at a steady rate, whether or not earlier posts have been answered: an open loop, like real traffic. */
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Running } from "./throughput/contender.ts";
import type { Posts } from "./throughput/load.ts";

export type Steady = Readonly<{
  perSecond: number;
  events: number;
  /** What is posted as the nth event, from 0 on; made beforehand. */
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
        posted(to, agent, bodies[n] ?? "").then(() => {
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

function posted({ url, headers }: Running, agent: Agent, body: string): Promise<void> {
  const options = { method: "POST", agent, headers: { ...headers, "content-type": "application/json" } };
  return new Promise((resolve, reject) => {
    const sent = request(new URL("/v1/events", url), options, async (response) => {
      let answer = "";
      for await (const chunk of response) answer += chunk;
      if (response.statusCode === 202) resolve();
      else reject(new Error(`A post was answered ${response.statusCode}: ${answer.slice(0, 200)}`));
    });
    sent.once("error", reject).end(body);
  });
}
