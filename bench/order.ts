/**
 * `npm run bench:order`: the cost of ordering, in virtual time, 50 ms from D1, gates, queues and the receiver.
 * Production code runs over a simulated platform (bench/storm/breakwater/), so every figure is the same on any machine.
 *
 * One destination with 20 connections gets events without ordering keys, and with one, ten and a thousand keys: all at
 * once, for the throughput, and ten a second, for the time from accept to arrival.
 */
import { accept } from "../test/support/accept.ts";
import { TENANT, virtualWorld } from "../test/support/virtual-world.ts";
import { fixed, table } from "./markdown.ts";

const HOP_MS = 50;
const AT_ONCE = 600;
const BATCH = 100;
const STEADY = 200;
const STEADY_EVERY_MS = 100;
const PATIENCE_MS = 10 * 60_000;

type Kind = Readonly<{ name: string; keys: number | undefined }>;

const kinds: readonly Kind[] = [
  { name: "without order", keys: undefined },
  { name: "a thousand keys", keys: 1_000 },
  { name: "ten keys", keys: 10 },
  { name: "one key", keys: 1 },
];

function newWorld({ keys }: Kind) {
  const world = virtualWorld({
    latency: { d1: HOP_MS, gate: HOP_MS, queue: HOP_MS },
    travel: { twice: 0, late: 0 },
    isolates: { count: 1 },
    cron: false,
  });
  const ordering = keys === undefined ? null : "key";
  const destination = world.destination({ ordering, maxConcurrency: 20 });
  world.script(destination, { status: 204, afterMs: HOP_MS });
  let posted = 0;
  const post = (count: number) => {
    const events = Array.from({ length: count }, () => {
      const options = keys === undefined ? undefined : { orderingKey: `key ${posted % keys}` };
      posted += 1;
      return { tenant: TENANT, type: "order.paid", data: posted, ...(options && { options }) };
    });
    return world.invoke("post", (services) => accept(services, events));
  };
  const arrivals = () => world.requestsTo(destination).filter(({ status }) => status === 204);
  return { world, post, arrivals };
}

/** Deliveries a second, from the first arrival to the last. */
async function throughputOf(kind: Kind): Promise<number> {
  const { world, post, arrivals } = newWorld(kind);
  for (let posted = 0; posted < AT_ONCE; posted += BATCH) void post(BATCH);
  if (!(await world.runUntil(() => arrivals().length === AT_ONCE, PATIENCE_MS)))
    throw new Error(`${arrivals().length} of ${AT_ONCE} have arrived ${kind.name}`);
  const times = arrivals().map(({ at }) => at);
  return (1_000 * (AT_ONCE - 1)) / (Math.max(...times) - Math.min(...times));
}

/** The median time from the 202 to the request, in ms, of single events posted ten times a second. */
async function p50Of(kind: Kind): Promise<number> {
  const { world, post, arrivals } = newWorld(kind);
  const acceptedAt: number[] = [];
  for (let n = 0; n < STEADY; n++)
    world.after(n * STEADY_EVERY_MS, () => void post(1).then(() => acceptedAt.push(world.now())));
  if (!(await world.runUntil(() => arrivals().length === STEADY, PATIENCE_MS)))
    throw new Error(`${arrivals().length} of ${STEADY} have arrived ${kind.name}`);
  const numberOf = (body: string) => Number((JSON.parse(body) as { data: number }).data);
  const waits = arrivals().map(({ at, body }) => at - (acceptedAt[numberOf(body) - 1] ?? 0));
  return waits.toSorted((a, b) => a - b)[Math.floor(waits.length / 2)] ?? 0;
}

const rows: string[][] = [];
let without = 0;
for (const kind of kinds) {
  const throughput = await throughputOf(kind);
  without ||= throughput;
  rows.push([kind.name, fixed(throughput), fixed(throughput / without, 2), fixed(await p50Of(kind))]);
}
console.log(table(["", "deliveries a second", "ratio to no order", "p50 from accept to arrival, ms"], rows));
