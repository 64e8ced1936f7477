/**
 * The consumer of the platform's dead-letter queue: messages that have failed a hundred times. Whatever made them
 * fail, a message of several deliveries does not tell which of them it was: those that were never attempted wait, and
 * are drained in ever smaller portions, and each of the others gets a message for itself. A delivery that was alone in
 * its message ends as dead, with the reason `poison`, where a person can see it and send it again.
 */
import { ringGate } from "../gate/gate-client.ts";
import type { Services } from "../services.ts";
import { loadWork, type Work } from "../store/work.ts";
import { carrierFinder, carriersOf, dispose, distinct, openOf, sendAlone } from "./carry.ts";
import { overRow, waitingRow } from "./outcome-rows.ts";
import { report } from "./report.ts";
import { tellDead } from "./tell-dead.ts";

export async function bury(services: Services, batch: MessageBatch): Promise<void> {
  const carriers = carriersOf(services, batch);
  const parts = carriers.flatMap((carrier) => carrier.parts);
  const { works } = await loadWork(services, parts, { isDue: () => false });
  const carrierOf = carrierFinder(carriers, services.now());
  const byCarrier = Map.groupBy(distinct(works, carriers), carrierOf);
  const alone: Work[] = [];
  const among: Work[] = [];
  for (const [carrier, own] of byCarrier) {
    // A retry that has got a message of its own is left to that.
    if (!carrier) continue;
    const isAlone = carrier.isWhole && own.length === 1;
    (isAlone ? alone : among).push(...own.filter(isQueued));
  }
  const now = services.now();
  const dead = alone.map((work) => ({ work, row: overRow(work, "dead", "poison", now) }));
  const untried = among.filter(({ row }) => row === undefined);
  const refusal = { reason: "recovered", until: now } as const;
  const waiting = untried.map((work) => ({ work, row: waitingRow(work, refusal) }));
  await report(services, [...dead, ...waiting]);
  tellDead(services, dead);
  for (const { destination } of new Map(untried.map((work) => [work.destination.id, work])).values())
    services.background(ringGate(services, destination.id));
  const tried = among.filter(({ row }) => row !== undefined);
  await sendAlone(services, openOf(tried.map((work) => ({ work, againAt: work.row?.nextAttemptAt ?? now }))));
  for (const carrier of carriers) await dispose(services, carrier);
}

/** What has ended is over, and what waits is the drain's. */
function isQueued({ row }: Work): boolean {
  return row === undefined || row.state === "retrying";
}
