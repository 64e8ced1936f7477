/**
 * The sweep, every minute: whatever waits is rung for, what falls due is sent for, and whatever was lost on the way
 * is made to wait.
 *
 * It repairs with the mechanism that is there anyway: a lost delivery becomes a waiting one, and the drain
 * brings it through the gate like any other, so that a mass recovery cannot become a storm. Everything it
 * does is safe to repeat: the row is written before the watermark moves past it.
 *
 * It consists of parts, and one that fails keeps none of the others. Each has so many queries of an invocation; what
 * is left then is gone on with by pages over the queue, one after the other, each an invocation of its own. A lease
 * lets one sweep at a time be at work, and ends by itself with a sweep that dies. The heartbeat says when that part
 * last got on that has been without progress for longest.
 */

import type { SweepPart } from "../db/schema.ts";
import { countQueries } from "../db/shards.ts";
import { beginSweep, beginSweepPage, type SweepLease, type SweepParts, saveSweep } from "../db/sweep.ts";
import { faultOf } from "../log.ts";
import type { UpkeepMessage } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import { enqueueScheduled, recoverLost, recoverRetries } from "./lost.ts";
import type { PartResult, PartTurn } from "./sweep-part.ts";
import { expireOverdue, wakeNamed, wakeWaiting } from "./waiting.ts";

type Part = Readonly<{
  /** After so many queries of a step it goes no further: a handful more, for the work begun. */
  queries: number;
  run: (services: Services, turn: PartTurn) => Promise<PartResult>;
}>;

/** In their order: what waits is rung for before anything is repaired. */
const PARTS: Readonly<Record<string, Part>> = {
  waiting: { queries: 20, run: wakeWaiting },
  scheduled: { queries: 50, run: enqueueScheduled },
  lost: { queries: 70, run: recoverLost },
  overdue: { queries: 30, run: recoverRetries },
  expired: { queries: 40, run: expireOverdue },
};

/** A step begins nothing more after this. */
const STEP_MS = 15_000;
/** No page is sent for after this: the next tick is to find the lease free. */
const PAGES_MS = 35_000;
const PAGES = 20;
/** Longer than a step and the message to the next, shorter than to the next tick. */
const LEASE_MS = 50_000;
/** A queue that is behind is not believed for longer than this: its oldest message may be a delayed retry. */
const SLOW_MS = 15 * 60_000;

/** The tick's part of a sweep. Throws what the first part threw that failed, once all have ended. */
export async function sweep(services: Services): Promise<void> {
  const now = services.now();
  const held = { lease: crypto.randomUUID(), page: 0 };
  const known = await beginSweep(services.db, held.lease, now + LEASE_MS, now);
  if (known === undefined) return services.log({ what: "sweep_at_work" });
  const { failures } = await step(services, held, known, Object.keys(PARTS), now + PAGES_MS);
  if (failures.length > 0) throw failures[0];
}

type SweepMessage = Extract<UpkeepMessage, { sweep: string }>;

/** Goes on with what the steps before have left. A page that has been begun before, or is of another sweep, is none. */
export async function sweepPage(
  services: Services,
  { sweep: lease, page, until }: SweepMessage,
): Promise<void> {
  const held = { lease, page };
  const known = await beginSweepPage(services.db, held, services.now() + LEASE_MS);
  if (known === undefined) return;
  const left = Object.keys(PARTS).filter((name) => known[name]?.behind);
  await step(services, held, known, left, until);
}

type Stepped = Readonly<{ failures: readonly unknown[] }>;

/** Has the parts of that name do as much as they may; then lets the sweep go, or sends for its next page. */
async function step(
  services: Services,
  held: SweepLease,
  known: SweepParts,
  names: readonly string[],
  until: number,
): Promise<Stepped> {
  const startedAt = services.now();
  const { queries, ...databases } = countQueries(services);
  const counted = { ...services, ...databases };
  const hasTime = () => services.now() - startedAt < STEP_MS;
  const horizon = await horizonOf(services, startedAt);
  const woken = new Set<string>();
  const failures: unknown[] = [];
  const left: string[] = [];
  let counts: Record<string, number> = {};
  let parts = withAll(known, startedAt);

  const save = (leasedUntil: number) =>
    saveSweep(services.db, held, { parts, heartbeatAt: heartbeatOf(parts), leasedUntil });

  for (const [name, part] of Object.entries(PARTS)) {
    const before = parts[name];
    if (!before || !names.includes(name)) continue;
    const from = queries();
    const mayGoOn = () => queries() - from < part.queries && hasTime();
    const turn = { now: startedAt, horizon, page: held.page, cursor: before.cursor, mayGoOn, hasTime };
    const { failure, ...result } = await attempted(counted, part, turn);
    const { cursor, more } = result;
    const failed = { ...before, cursor, behind: more, failures: before.failures + 1 };
    const gotOn = { at: startedAt, cursor, behind: more, failures: 0 };
    parts = { ...parts, [name]: failure === undefined ? gotOn : failed };
    counts = { ...counts, ...result.counts };
    for (const id of result.woken ?? []) woken.add(id);
    if (failure !== undefined) {
      failures.push(failure);
      const error = faultOf(failure);
      services.log({ what: "sweep_part_failed", part: name, failures: failed.failures, error });
    }
    if (!more) continue;
    left.push(name);
    // At once: should this invocation end here, the next sweep is to go on elsewhere.
    await save(startedAt + LEASE_MS);
  }
  await wakeNamed(counted, [...woken], hasTime);
  const goesOn = left.length > 0 && held.page < PAGES && services.now() < until;
  const isOurs = await save(goesOn ? services.now() + LEASE_MS : 0);
  if (goesOn && isOurs && !(await isSentFor(services, { ...held, page: held.page + 1 }, until)))
    await save(0);
  services.log({
    what: "sweep",
    ...(held.page > 0 && { page: held.page }),
    ...counts,
    ...(left.length > 0 && { left: left.join(" ") }),
    queries: queries(),
    took_ms: services.now() - startedAt,
  });
  return { failures };
}

async function attempted(services: Services, { run }: Part, turn: PartTurn): Promise<PartResult> {
  try {
    return await run(services, turn);
  } catch (failure) {
    return { counts: {}, cursor: turn.cursor, more: false, failure };
  }
}

/** The parts of this version, each of which has until its first success the time of its first try. */
function withAll(known: SweepParts, now: number): SweepParts {
  const fresh: SweepPart = { at: now, behind: false, failures: 0, cursor: [] };
  return Object.fromEntries(Object.keys(PARTS).map((name) => [name, known[name] ?? fresh]));
}

function heartbeatOf(parts: SweepParts): number {
  return Math.min(...Object.values(parts).map(({ at }) => at));
}

/** Whether the next page is on its way. It goes on where this one ended: nothing is lost with it but time. */
async function isSentFor(
  { drains, log }: Services,
  { lease, page }: SweepLease,
  until: number,
): Promise<boolean> {
  try {
    await drains.send({ sweep: lease, page, until });
    return true;
  } catch (error) {
    log({ what: "sweep_page_not_sent", error: faultOf(error) });
    return false;
  }
}

/**
 * Whatever was due before this and has no outcome counts as lost. Slow is not lost: what was accepted after
 * the oldest message in the queue may still be in it.
 */
async function horizonOf({ config, deliveries, log }: Services, now: number): Promise<number> {
  const overdue = now - config.graceMs;
  try {
    const { oldestMessageTimestamp: oldest } = await deliveries.metrics();
    return oldest ? Math.max(Math.min(overdue, oldest.getTime()), overdue - SLOW_MS) : overdue;
  } catch (error) {
    log({ what: "queue_metrics_unavailable", error: faultOf(error) });
    return overdue;
  }
}
