/** The runs whose cost is counted. They post events of the corpus. */
import { LEDGER } from "../../tools/verify/judge.ts";
import { corpusEvent } from "../corpus.ts";
import { postSteadily } from "../open-loop.ts";
import { typeOf } from "../throughput/contender.ts";
import { post as postAtOnce, type Shape } from "../throughput/load.ts";
import type { Budget, Goal } from "./budget.ts";
import { type MeteredStack, tenantOf } from "./metered-stack.ts";

export type Run = Readonly<{
  /** The name by which pages refer to its figures. */
  id: string;
  name: string;
  budget?: Budget;
  goal?: Goal;
  /** Whether calls take as long as in production: for runs in which that decides how many events share a commit. */
  latency?: boolean;
  /** Prepares the stack; not counted. */
  prepare: (stack: MeteredStack) => Promise<unknown>;
  /** Plays the traffic; resolves with the number of deliveries. */
  play: (stack: MeteredStack) => Promise<number>;
}>;

/** `short` counts the same on less traffic. */
export type Size = "full" | "short";

const MINUTE_MS = 60_000;
const WAVE = 5_000;

export function runsOf(size: Size): readonly Run[] {
  const times = (full: number, short: number) => (size === "full" ? full : short);
  const tenants = times(1_000, 100);
  return [
    {
      id: "batches",
      name: "in batches of 100, to one destination",
      goal: { dollars: 0.15, storage: 0.25 },
      budget: {
        dollarsPerMillion: 0.15,
        storagePerMillion: 0.25,
        // `npm run verify` compares a deployment's bill with the same figures.
        d1RowsRead: LEDGER.rowsRead,
        d1RowsWritten: LEDGER.rowsWritten,
        queueOperations: LEDGER.queueOperations,
        logLines: 0.02,
      },
      prepare: (stack) => stack.destinations(1),
      play: (stack) => deliver(stack, { events: times(20_000, 3_000), perPost: 100 }),
    },
    {
      id: "ten",
      name: "in batches of 100, to ten destinations in turn",
      goal: { dollars: 0.4 },
      budget: {
        dollarsPerMillion: 0.4,
        storagePerMillion: 0.25,
        d1RowsRead: 6,
        d1RowsWritten: 0.24,
        queueOperations: 0.035,
        logLines: 0.02,
      },
      prepare: (stack) => stack.destinations(10),
      play: (stack) => deliver(stack, { events: times(20_000, 3_000), perPost: 100 }, { types: 10 }),
    },
    {
      id: "single",
      name: "one by one, 250 a second, to one destination",
      goal: { dollars: 1.2 },
      budget: {
        dollarsPerMillion: 1.2,
        storagePerMillion: 0.35,
        d1RowsRead: 12,
        d1RowsWritten: 0.6,
        queueOperations: 0.6,
        logLines: 0.3,
      },
      latency: true,
      prepare: (stack) => stack.destinations(1),
      play: (stack) => deliverSteadily(stack, { events: times(15_000, 1_000) }),
    },
    {
      id: "tenants",
      name: `one by one, 250 a second, ${tenants.toLocaleString("en")} tenants with a destination each`,
      budget: {
        dollarsPerMillion: 4.5,
        storagePerMillion: 0.42,
        d1RowsRead: 36,
        d1RowsWritten: 2.4,
        queueOperations: 0.6,
        logLines: 0.3,
      },
      latency: true,
      prepare: (stack) => stack.destinations(tenants, "tenants"),
      play: (stack) => deliverSteadily(stack, { events: times(15_000, 1_000), tenants }),
    },
    {
      id: "alone",
      name: "one by one, each alone, the gate warm",
      budget: {
        dollarsPerMillion: 9,
        storagePerMillion: 0.8,
        d1RowsRead: 60,
        d1RowsWritten: 4.6,
        queueOperations: 3,
        logLines: 1.2,
      },
      latency: true,
      prepare: (stack) => stack.destinations(1),
      play: (stack) => oneAfterTheOther(stack, times(100, 10)),
    },
    {
      id: "outage",
      name: `an outage while ${times(50_000, 1_000).toLocaleString("en")} are posted in batches`,
      // The short run has no budget: few deliveries share the sweeps and the probes of the outage.
      ...(size === "full" && {
        goal: { dollars: 0.4 },
        budget: {
          dollarsPerMillion: 0.4,
          storagePerMillion: 0.25,
          d1RowsRead: 3,
          d1RowsWritten: 0.2,
          queueOperations: 0.12,
          logLines: 0.05,
        },
      }),
      prepare: (stack) => stack.destinations(1),
      play: (stack) => outage(stack, times(50_000, 1_000)),
    },
    {
      id: "five",
      name: "in batches of 100, each event to five destinations",
      prepare: (stack) => stack.destinations(5, "same type"),
      play: (stack) => deliver(stack, { events: times(4_000, 400), perPost: 100 }, { each: 5 }),
    },
    {
      id: "failing",
      name: "in batches of 100, 5 % fail at the first attempt",
      prepare: async (stack) => {
        await stack.destinations(1);
        stack.answering((event, again) => ({ status: event % 20 === 0 && !again ? 500 : 204 }));
      },
      play: (stack) => deliver(stack, { events: times(20_000, 1_000), perPost: 100 }),
    },
  ];
}

type Load = Readonly<{ events: number; perPost: number }>;

/** Posts and waits until all have arrived; resolves with the number of deliveries. */
export async function deliver(
  stack: MeteredStack,
  load: Load,
  { types = 1, each = 1 } = {},
): Promise<number> {
  for (const events of wavesOf(load.events, each)) {
    const connections = load.perPost === 1 ? 20 : 4;
    await post(stack, { ...load, events, connections }, types);
    await stack.delivered(events * each);
  }
  return load.events * each;
}

const PER_SECOND = 250;

/** Posts single events at a steady rate, to the tenants in turn. */
async function deliverSteadily(
  stack: MeteredStack,
  { events, tenants }: { events: number; tenants?: number },
) {
  const event = (n: number) => ({
    type: typeOf(0),
    data: corpusEvent(n).data,
    ...(tenants !== undefined && { tenant: tenantOf(n % tenants) }),
  });
  await postSteadily(stack.running, { perSecond: PER_SECOND, events, event });
  await stack.delivered(events);
  return events;
}

function post(stack: MeteredStack, shape: Omit<Shape, "name" | "data">, types: number) {
  const data = (number: number) => corpusEvent(number).data;
  return postAtOnce(stack.running, { name: "", ...shape, data }, types);
}

/** The receiver fails until everything has been posted. */
async function outage(stack: MeteredStack, total: number): Promise<number> {
  const clock = setInterval(stack.tick, MINUTE_MS);
  try {
    stack.answering(() => ({ status: 500 }));
    for (const events of wavesOf(total)) {
      await post(stack, { events, perPost: 100, connections: 4 }, 1);
      await stack.delivered(0);
    }
    stack.answering(() => ({ status: 204 }));
    await stack.delivered(total);
  } finally {
    clearInterval(clock);
  }
  return total;
}

/** Splits a load, because the simulated queue fails when more than 10,000 messages are in flight. */
function wavesOf(events: number, each = 1): number[] {
  const most = WAVE / each;
  return Array.from({ length: Math.ceil(events / most) }, (_, i) => Math.min(most, events - i * most));
}

async function oneAfterTheOther(stack: MeteredStack, events: number): Promise<number> {
  for (let sent = 0; sent < events; sent++) {
    await post(stack, { events: 1, perPost: 1, connections: 1 }, 1);
    await stack.delivered(1);
  }
  return events;
}
