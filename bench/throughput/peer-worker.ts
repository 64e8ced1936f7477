/** The peers' worker: signs, sends and logs, with a limit on concurrent requests to each endpoint. */
import { createHmac } from "node:crypto";
import { PER_ENDPOINT, SECRET, typeOf } from "./contender.ts";
import { type Job, jobsOf } from "./peer-jobs.ts";
import type { PeerArgs } from "./peers.ts";
import { givenArgs } from "./processes.ts";

const args = givenArgs<PeerArgs>();
const endpoints = new Map(args[3].map((url, i) => [typeOf(i), { url, take: semaphore(PER_ENDPOINT) }]));
const key = Buffer.from(SECRET.slice("whsec_".length), "base64");
const TIMEOUT_MS = 15_000;

const jobs = await jobsOf(args);
await jobs.work(deliver);
process.send?.("ready");
process.once("SIGTERM", () => process.exit(0));

async function deliver(job: Job): Promise<void> {
  const endpoint = endpoints.get(job.type);
  if (!endpoint) throw new Error(`No endpoint takes ${job.type}`);
  const release = await endpoint.take();
  try {
    const at = Date.now();
    const status = await attempt(endpoint.url, job, at);
    await job.record({ at, status, latencyMs: Date.now() - at });
    if (status >= 300) throw new Error(`answered ${status}`);
  } finally {
    release();
  }
}

async function attempt(url: string, { id, body }: Job, at: number): Promise<number> {
  const seconds = Math.floor(at / 1000);
  const signature = createHmac("sha256", key).update(`${id}.${seconds}.${body}`).digest("base64");
  const response = await fetch(url, {
    method: "POST",
    redirect: "manual",
    signal: AbortSignal.timeout(TIMEOUT_MS),
    body,
    headers: {
      "content-type": "application/json",
      "webhook-id": id,
      "webhook-timestamp": `${seconds}`,
      "webhook-signature": `v1,${signature}`,
    },
  });
  await response.arrayBuffer();
  return response.status;
}

function semaphore(places: number): () => Promise<() => void> {
  let free = places;
  const waiting: (() => void)[] = [];
  const release = () => {
    const next = waiting.shift();
    if (next) next();
    else free += 1;
  };
  return async () => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    return release;
  };
}
