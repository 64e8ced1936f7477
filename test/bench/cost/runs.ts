/** The traffic whose cost is counted. */
import { post } from "../throughput/load.ts";
import type { Budget } from "./budget.ts";
import type { Stage } from "./stage.ts";

export type Run = Readonly<{
  name: string;
  budget?: Budget;
  /** Sets the stage; not counted. */
  prepare: (stage: Stage) => Promise<unknown>;
  /** Plays the traffic; resolves with how many deliveries were made. */
  play: (stage: Stage) => Promise<number>;
}>;

/** `short` counts the same on less traffic: for every change. */
export type Size = "full" | "short";

const MINUTE_MS = 60_000;
const WAVE = 5_000;

export function runsOf(size: Size): readonly Run[] {
  const times = (full: number, short: number) => (size === "full" ? full : short);
  return [
    {
      name: "one by one, to one destination",
      budget: { dollarsPerMillion: 3.9, d1RowsRead: 8, d1RowsWritten: 2 },
      prepare: (stage) => stage.destinations(1),
      play: (stage) => deliver(stage, { events: times(3_000, 600), perPost: 1 }),
    },
    {
      name: "in batches of 100, to one destination",
      budget: { dollarsPerMillion: 3.3, d1RowsRead: 8, d1RowsWritten: 2 },
      prepare: (stage) => stage.destinations(1),
      play: (stage) => deliver(stage, { events: times(20_000, 3_000), perPost: 100 }),
    },
    {
      name: "in batches of 100, to ten destinations in turn",
      prepare: (stage) => stage.destinations(10),
      play: (stage) => deliver(stage, { events: times(20_000, 1_000), perPost: 100 }, { types: 10 }),
    },
    {
      name: "each event to five destinations",
      prepare: (stage) => stage.destinations(5, true),
      play: (stage) => deliver(stage, { events: times(4_000, 400), perPost: 100 }, { each: 5 }),
    },
    {
      name: "5 % fail at the first attempt",
      prepare: async (stage) => {
        await stage.destinations(1);
        stage.answering((event, again) => ({ status: event % 20 === 0 && !again ? 500 : 204 }));
      },
      play: (stage) => deliver(stage, { events: times(20_000, 1_000), perPost: 100 }),
    },
    {
      name: `an outage while ${times(50_000, 1_000).toLocaleString("en")} are posted`,
      // The sweeps and the probes of an outage weigh too much where few deliveries share them.
      ...(size === "full" && { budget: { dollarsPerMillion: 5.6, d1RowsRead: 13, d1RowsWritten: 4 } }),
      prepare: (stage) => stage.destinations(1),
      play: (stage) => outage(stage, times(50_000, 1_000)),
    },
    {
      name: "so rarely that each comes alone",
      prepare: (stage) => stage.destinations(1),
      play: (stage) => oneAfterTheOther(stage, times(20, 5)),
    },
  ];
}

type Load = Readonly<{ events: number; perPost: number }>;

/** Posts and waits until all have arrived; resolves with how many deliveries that were. */
export async function deliver(stage: Stage, load: Load, { types = 1, each = 1 } = {}): Promise<number> {
  for (const events of wavesOf(load.events, each)) {
    const connections = load.perPost === 1 ? 20 : 4;
    await post(stage.running, { name: "", ...load, events, connections }, types);
    await stage.delivered(events * each);
  }
  return load.events * each;
}

/** The receiver fails until everything has been posted. */
async function outage(stage: Stage, total: number): Promise<number> {
  const clock = setInterval(stage.tick, MINUTE_MS);
  try {
    stage.answering(() => ({ status: 500 }));
    for (const events of wavesOf(total)) {
      await post(stage.running, { name: "", events, perPost: 100, connections: 4 }, 1);
      await stage.delivered(0);
    }
    stage.answering(() => ({ status: 204 }));
    await stage.delivered(total);
  } finally {
    clearInterval(clock);
  }
  return total;
}

/** The simulated queue fails when more than 10,000 messages are on their way. */
function wavesOf(events: number, each = 1): number[] {
  const most = WAVE / each;
  return Array.from({ length: Math.ceil(events / most) }, (_, i) => Math.min(most, events - i * most));
}

async function oneAfterTheOther(stage: Stage, events: number): Promise<number> {
  for (let sent = 0; sent < events; sent++) {
    await post(stage.running, { name: "", events: 1, perPost: 1, connections: 1 }, 1);
    await stage.delivered(1);
  }
  return events;
}
