/**
 * Breakwater itself as a sender: the production consumer, drain, sweep and gate over the production
 * statements. Only the platform beneath them is simulated: queues, D1, Durable Objects, fetch.
 */

import type { DatabaseSync } from "node:sqlite";
import { accept } from "../../../src/ingest/accept.ts";
import { postedEvent } from "../../../src/ingest/bundle.ts";
import { sweep } from "../../../src/jobs/sweep.ts";
import type { LogLine } from "../../../src/log.ts";
import type { SimulatedSender } from "../../../src/simulator/sender.ts";
import type { ContenderContext } from "../sender.ts";
import { type DestinationSettings, insertDestination } from "./destinations.ts";
import { answersOver } from "./fetch.ts";
import { type PlatformOptions, virtualPlatform } from "./platform.ts";

const FAULTS = /_(failed|lost|unreachable|unreadable|unavailable|corrupt)$/;

const SWEEP_EVERY_MS = 60_000;

type SenderOptions = Pick<PlatformOptions, "latency" | "travel"> &
  Readonly<{
    /** The settings of one receiver's destination, in addition to the common ones. */
    settingsOf?: (receiver: number) => DestinationSettings;
    /** Fills further tables. */
    prepare?: (db: DatabaseSync) => void;
  }>;

/** @param options latencies and travel times that differ from the usual ones, and further settings */
export function breakwater(
  context: ContenderContext,
  { settingsOf = () => ({}), prepare = () => {}, ...world }: SenderOptions = {},
): SimulatedSender {
  const { engine, attempt, ledger, receivers, settings, isBatched } = context;
  const { db, invoke } = virtualPlatform(engine, {
    ...world,
    fetch: answersOver(engine, attempt, settings.timeoutMs ?? 15_000),
    log: refuseFaults,
  });
  for (let i = 0; i < receivers; i++) insertDestination(db, i, { ...settings, ...settingsOf(i) });
  prepare(db);

  /** Deliveries by the ids of their events. */
  const deliveries = new Map<number, number>();

  async function sweepEveryMinute(): Promise<void> {
    await invoke("sweep", sweep.run);
    for (const event of deadAmong(db)) {
      const delivery = deliveries.get(event);
      if (delivery !== undefined) ledger.died(delivery, engine.now());
    }
    engine.after(SWEEP_EVERY_MS, sweepEveryMinute);
  }
  engine.after(SWEEP_EVERY_MS, sweepEveryMinute);

  /** Deliveries that are posted at this moment and not yet sent, by receiver. */
  const together = new Map<number, number[]>();

  function post(delivery: number, receiver: number): void {
    if (isBatched) join(delivery, receiver);
    else send([delivery], receiver);
  }

  function join(delivery: number, receiver: number): void {
    const batch = together.get(receiver);
    if (batch) batch.push(delivery);
    else {
      const first = [delivery];
      together.set(receiver, first);
      engine.after(1, () => {
        together.delete(receiver);
        send(first, receiver);
      });
    }
  }

  function send(posted: readonly number[], receiver: number): void {
    const tenant = `t${receiver}`;
    const events = posted.map((data) => postedEvent({ tenant, type: "storm", data }));
    void invoke("post", async (services) => {
      const accepted = await accept(services, events);
      if (accepted.kind !== "accepted") return;
      for (const [i, { id }] of accepted.events.entries()) deliveries.set(id, posted[i] ?? Number.NaN);
    });
  }
  return { post };
}

/** Throws at any fault in the log: the simulated platform has none, so it is a fault of the simulation. */
function refuseFaults(line: LogLine): void {
  if (FAULTS.test(line.what)) throw new Error(`The simulation is broken: ${JSON.stringify(line)}`);
}

function deadAmong(db: { prepare: (sql: string) => { all: () => unknown[] } }): number[] {
  const rows = db.prepare("SELECT event_id AS event FROM deliveries WHERE state = 'dead'").all();
  return rows.map((row) => (row as { event: number }).event);
}
