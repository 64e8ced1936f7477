/**
 * `npm run bench:isolation`: does one destination that never answers delay a hundred that do?
 *
 * One stack, one run, phases in turn: the hundred alone, the hundred with the one that hangs in the same
 * batches, and so on. The figure is the ratio of the healthy ones' time from accept to arrival, at the
 * median and at the 99th percentile. It runs on the local simulator, which has one consumer at a time where
 * production has up to 250: whatever makes a batch last longer shows here at its worst.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type ApiClient, apiClient } from "../../src/local/api-client.ts";
import { type Receiver, startReceiver } from "../../src/local/receiver.ts";
import { killStack } from "../../src/local/stack.ts";
import { prepareThrowaway, THROWAWAY_KEY } from "../../src/local/throwaway.ts";

const HEALTHY = 100;
const ROUNDS = Number(process.argv[2] ?? 4);
const PHASE_MS = 20_000;
const LATEST_MS = 30_000;
const TICK_MS = 250;
const PER_TICK = 25;
const NEVER_MS = 60_000;

type Phase = "alone" | "with one that hangs";

const delays: Record<Phase, number[]> = { alone: [], "with one that hangs": [] };

async function main(): Promise<void> {
  const place = await prepareThrowaway();
  const stack = await place.start();
  const receiver = await startReceiver(({ path }) => ({
    status: 200,
    ...(path === "/hangs" && { afterMs: NEVER_MS }),
  }));
  try {
    const api = apiClient(stack.url, THROWAWAY_KEY);
    const hanging = await createDestinations(api, receiver.url);
    await phase(api, receiver, "alone", false);
    for (let round = 1; round <= ROUNDS; round++) {
      await api.post(`/v1/destinations/${hanging}/pause`, {});
      await phase(api, receiver, "alone");
      await api.post(`/v1/destinations/${hanging}/resume`, {});
      await phase(api, receiver, "with one that hangs");
      console.log(`round ${round} of ${ROUNDS}`);
    }
    print();
  } finally {
    receiver.close();
    await killStack(stack);
    place.discard();
  }
}

/** Returns the id of the one that hangs. */
async function createDestinations(api: ApiClient, url: string): Promise<string> {
  const create = (path: string, type: string) =>
    api.post<{ id: string }>("/v1/destinations", { url: `${url}${path}`, event_types: [type] });
  for (let i = 0; i < HEALTHY; i++) await create(`/h${i}`, `healthy.${i}`);
  const { id } = await create("/hangs", "hangs");
  return id;
}

/** Posts at a steady rate and collects the delays. The first phase of a run only warms up. */
async function phase(api: ApiClient, { hits }: Receiver, name: Phase, counts = true): Promise<void> {
  const from = hits.length;
  const endsAt = Date.now() + PHASE_MS;
  let next = 0;
  let posted = 0;
  while (Date.now() < endsAt) {
    const events = Array.from({ length: PER_TICK }, () => eventFor(`healthy.${next++ % HEALTHY}`));
    if (name !== "alone") events.push(eventFor("hangs"));
    await api.post("/v1/events/batch", { events });
    posted += PER_TICK;
    await sleep(TICK_MS);
  }
  const arrivals = () => hits.slice(from).filter(({ path }) => path !== "/hangs");
  const deadline = Date.now() + LATEST_MS;
  while (arrivals().length < posted && Date.now() < deadline) await sleep(TICK_MS);
  const arrived = arrivals();
  if (arrived.length !== posted)
    throw new Error(`${posted} posted and ${arrived.length} arrived in phase ${name}`);
  if (counts) delays[name].push(...arrived.map(({ at, body }) => at - JSON.parse(body).data.at));
}

function eventFor(type: string) {
  return { type, data: { at: Date.now() } };
}

function print(): void {
  console.log(
    `\naccept to arrival, ${HEALTHY} healthy destinations, ${delays.alone.length} events a side, ms`,
  );
  for (const name of ["alone", "with one that hangs"] as const) {
    console.log(`${name.padEnd(20)} p50 ${at(name, 0.5)}  p99 ${at(name, 0.99)}  max ${at(name, 1)}`);
  }
  const ratio = (quantile: number) =>
    (at("with one that hangs", quantile) / at("alone", quantile)).toFixed(3);
  console.log(`${"ratio".padEnd(20)} p50 ${ratio(0.5)}  p99 ${ratio(0.99)}`);
}

function at(name: Phase, quantile: number): number {
  const sorted = delays[name].toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * quantile))] ?? 0;
}

await main();
process.exit(0);
