/**
 * Breakwater itself as a sender: the production consumer, drain and sweep over the production statements
 * and gate decisions. Only the platform beneath them is simulated: queues, D1, Durable Objects, fetch.
 */

import { consume } from "../../../../src/delivery/consume.ts";
import { answerBells } from "../../../../src/delivery/drain.ts";
import { accept } from "../../../../src/delivery/ingest.ts";
import type { DeliveryMessage, DrainMessage } from "../../../../src/delivery/message.ts";
import { sweep } from "../../../../src/delivery/sweep.ts";
import type { Sender } from "../../../../src/lab/sender.ts";
import type { LogLine } from "../../../../src/log.ts";
import type { Vault } from "../../../../src/secrets/vault.ts";
import type { Services } from "../../../../src/services.ts";
import type { SenderScene } from "../sender.ts";
import { memoryD1 } from "./d1.ts";
import { insertDestination } from "./destinations.ts";
import { answersOver } from "./fetch.ts";
import { virtualGates } from "./gates.ts";
import { platformQueue } from "./queue.ts";

const FAULTS = /_(failed|lost|unreachable|unreadable|unavailable|corrupt)$/;

/** What the platform costs in time, and how wide it is. */
const platform = {
  d1Ms: 10,
  rpcMs: 6,
  deliveries: { batch: 100, batchTimeoutMs: 1_000, consumers: 20, hopMs: 100 },
  drains: { batch: 1, batchTimeoutMs: 0, consumers: 100, hopMs: 100 },
  sweepEveryMs: 60_000,
};

const NO_KEY = { id: "none", bytes: new Uint8Array() };

/** WebCrypto works in real time: here a signature is a word, and ready at once. */
const openVault: Vault = {
  seal: async (_, secret) => secret,
  unseal: async (_, sealed) => sealed,
  open: async () => ({ sign: async () => "v1,simulated" }),
  isCurrent: () => true,
};

export function breakwater(scene: SenderScene): Sender {
  const { engine, attempt, ledger, receivers, settings } = scene;
  const db = memoryD1(engine, platform.d1Ms);
  for (let i = 0; i < receivers; i++) insertDestination(db.direct, i, settings);

  const deliveries = platformQueue<DeliveryMessage>(engine, platform.deliveries, (batch) =>
    consume(services, batch),
  );
  const drains = platformQueue<DrainMessage>(engine, platform.drains, (batch) =>
    answerBells(services, batch),
  );
  const gates = virtualGates(engine, platform.rpcMs, async (destination, count, abreast) => {
    const message = { body: { destination, drains: abreast } };
    await drains.sendBatch(Array.from({ length: count }, () => message));
  });
  const services: Services = {
    config: {
      adminKey: "",
      masterKeys: [NO_KEY],
      graceMs: 300_000,
      retentionMs: Number.POSITIVE_INFINITY,
      allowPrivateDestinations: true,
    },
    vault: openVault,
    db: db.binding,
    deliveries,
    drains,
    gates: gates.binding,
    fetch: answersOver(engine, attempt, settings.timeoutMs ?? 15_000),
    now: engine.now,
    random: engine.random,
    sleep: engine.sleep,
    log: refuseFaults,
    background: (work) => void work,
  };

  async function sweepEveryMinute(): Promise<void> {
    await engine.sleep(0);
    await sweep(services);
    for (const delivery of deadAmong(db.direct)) ledger.died(delivery, engine.now());
    engine.after(platform.sweepEveryMs, sweepEveryMinute);
  }
  engine.after(platform.sweepEveryMs, sweepEveryMinute);

  function post(delivery: number, receiver: number): void {
    // Through the engine, which waits for what its own promises set off, and for nothing else.
    void engine
      .sleep(0)
      .then(() => accept(services, [{ tenant: `t${receiver}`, type: "storm", data: delivery }]));
  }
  return { post };
}

/** The simulated platform has no faults: whatever production code complains of is a fault of the simulation. */
function refuseFaults(line: LogLine): void {
  if (FAULTS.test(line.what)) throw new Error(`The simulation is broken: ${JSON.stringify(line)}`);
}

/** The n-th event carries n as its data. */
function deadAmong(db: { prepare: (sql: string) => { all: () => unknown[] } }): number[] {
  const rows = db
    .prepare(
      "SELECT e.body ->> 'data' AS delivery FROM deliveries d JOIN events e ON e.id = d.event_id WHERE d.state = 'dead'",
    )
    .all();
  return rows.map((row) => (row as { delivery: number }).delivery);
}
