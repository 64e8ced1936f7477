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

const TRIES = 4;
const PAUSE_MS = 1_000;

/** As a customer would: what is answered 503, or not at all, is posted again after a second. */
async function posted(to: Running, agent: Agent, body: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    const fault = await faultOf(to, agent, body);
    if (fault === undefined) return;
    if (!fault.isPassing || tries === TRIES) throw new Error(fault.text);
    console.log(`Posted again: ${fault.text}`);
    await sleep(PAUSE_MS);
  }
}

type Fault = Readonly<{ isPassing: boolean; text: string }>;

function faultOf({ url, headers }: Running, agent: Agent, body: string): Promise<Fault | undefined> {
  const options = { method: "POST", agent, headers: { ...headers, "content-type": "application/json" } };
  return new Promise((resolve) => {
    const broken = (error: Error) => resolve({ isPassing: true, text: error.message });
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
      resolve(status === 202 ? undefined : { isPassing: status === 503, text });
    });
    sent.once("error", broken).end(body);
  });
}
