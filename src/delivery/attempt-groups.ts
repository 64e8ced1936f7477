/**
 * Groups at work: run, record, settle, each as it ends.
 *
 * Record before settle, so that capacity is given back only for what is known. No group waits for another one's
 * receiver: it is on record, and its capacity is free again, while a neighbour is still awaited; a kill repeats
 * what was in flight and not the whole batch.
 *
 * A group whose receiver does not answer is recorded as it stands: what was not started waits, what is still
 * running is on its way with a time at which the sweep would take it up again. Its end is awaited in the
 * background, and settled there.
 */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { StatusChange } from "../store/status-changes.ts";
import type { LoadedDelivery } from "../store/work.ts";
import { logCounts, logLease } from "./attempt-log.ts";
import { sendAgain } from "./carry.ts";
import { type BatchRun, settleBatch } from "./group.ts";
import { type DestinationResult, applySettleResults } from "./heed.ts";
import type { Recorder } from "./report.ts";
import type { LeaseRun } from "./run-lease.ts";
import { publishDead } from "./tell-dead.ts";
import { attemptDispositions, runDispositions, type Disposition } from "./verdicts.ts";

export type Dispatched = Readonly<{
  /** For every delivery that was to be told of, but for the failures'. All of it is in D1. */
  dispositions: readonly Disposition[];
  /** Whether some attempts are still running. */
  late: boolean;
  failures: readonly Failure[];
}>;

/** What could not be recorded: of a group, whose lease is not settled either, or of what was decided without an attempt. */
export type Failure = Readonly<{ batchRun?: BatchRun; error: unknown }>;

export type DispatchOptions = Readonly<{
  /** What was decided without an attempt, to be recorded with the first group that ends. */
  also: readonly Disposition[];
  /** The mark of the message that has brought it, and brings its retry; without, retries get messages of their own. */
  ownerOf?: (work: LoadedDelivery) => string | undefined;
  /** Asked when a group is recorded: whether the drain will ask again at once, if anything has come of this. */
  continues: () => boolean;
}>;

/** A group under a lease. The others have nothing to record, and nothing to settle. */
type Leased = BatchRun & Readonly<{ run: LeaseRun }>;

type Batch = DispatchOptions &
  Readonly<{
    services: Services;
    recorder: Recorder;
    /** What has not ended yet: groups, and what was decided without an attempt. */
    atWork: Set<unknown>;
    settling: Settling;
  }>;

/** What gates say to groups that settle at the same time is heeded at once, in one round trip. */
type Settling = Readonly<{ groups: Set<BatchRun>; heard: DestinationResult[]; gone: StatusChange[] }>;

export async function dispatch(
  services: Services,
  recorder: Recorder,
  runs: readonly BatchRun[],
  orders: DispatchOptions,
): Promise<Dispatched> {
  const { also } = orders;
  const leased = runs.filter((batchRun): batchRun is Leased => batchRun.run !== undefined);
  const atWork = new Set<unknown>(also.length > 0 ? [...leased, also] : leased);
  const settling = { groups: new Set<BatchRun>(), heard: [], gone: [] };
  const batch = { ...orders, services, recorder, atWork, settling };
  const ended = await Promise.all([
    endDecided(batch, leased).catch((error: unknown) => failed({ error })),
    ...leased.map((batchRun) =>
      endGroup(batch, batchRun).catch((error: unknown) => failed({ batchRun, error })),
    ),
  ]);
  return {
    dispositions: ended.flatMap(({ dispositions }) => dispositions),
    late: ended.some(({ late }) => late),
    failures: ended.flatMap(({ failures }) => failures),
  };
}

function failed(failure: Failure): Dispatched {
  return { dispositions: [], late: false, failures: [failure] };
}

/** Records what was decided without an attempt, when the first group ends, or at once where there is none. */
async function endDecided(
  { services, recorder, atWork, also }: Batch,
  leased: readonly Leased[],
): Promise<Dispatched> {
  if (also.length === 0) return { dispositions: [], late: false, failures: [] };
  if (leased.length > 0) await Promise.race(leased.map(({ run }) => run.enough)).catch(() => {});
  atWork.delete(also);
  await recorder.report(also, atWork.size > 0);
  publishDead(services, also);
  return { dispositions: also, late: false, failures: [] };
}

/** Awaits the group's end, records and settles it. */
async function endGroup(batch: Batch, batchRun: Leased): Promise<Dispatched> {
  const { services, recorder, atWork, also, ownerOf = () => leaseOf(batchRun), continues } = batch;
  const { run } = batchRun;
  try {
    await run.enough;
  } finally {
    atWork.delete(batchRun);
  }
  logLease(services, batchRun);
  const late = run.running.size > 0;
  const told = run.done.length;
  const dispositions = runDispositions(services, batchRun, ownerOf);
  const gone = await recorder.report(dispositions, atWork.size > 0);
  if (late) {
    heedTogether(batch, [], gone);
    services.background(finishLate(batch, batchRun, told));
  } else {
    await settle(batch, batchRun, gone, hasProgress([...also, ...dispositions]) && continues());
  }
  return { dispositions, late, failures: [] };
}

/** Whether any delivery has been attempted, or has ended without: otherwise another lease would come to nothing too. */
export function hasProgress(dispositions: readonly Disposition[]): boolean {
  return dispositions.some(({ row }) => row !== undefined && row.state !== "waiting");
}

/** @param gone pauses that have just been made */
async function settle(
  batch: Batch,
  batchRun: Leased,
  gone: readonly StatusChange[],
  continues: boolean,
): Promise<void> {
  const { groups } = batch.settling;
  groups.add(batchRun);
  const heard = await settleBatch(batch.services, batchRun, continues).finally(() => groups.delete(batchRun));
  heedTogether(batch, heard ? [heard] : [], gone);
}

/** Leaves it to the last of those that are settling. */
function heedTogether(
  { services, settling }: Batch,
  heard: readonly DestinationResult[],
  gone: readonly StatusChange[],
): void {
  settling.heard.push(...heard);
  settling.gone.push(...gone);
  const isSomething = settling.heard.length + settling.gone.length > 0;
  if (settling.groups.size > 0 || !isSomething) return;
  services.background(applySettleResults(services, settling.heard.splice(0), settling.gone.splice(0)));
}

/** What comes of a lease without a message, or behind it, is told from everything else by the lease. */
function leaseOf({ answer }: BatchRun): string | undefined {
  return answer?.grant?.id;
}

/**
 * Answers that come after the messages are gone: their retries need messages of their own.
 * @param told so many attempts had ended before
 */
async function finishLate(batch: Batch, batchRun: Leased, told: number): Promise<void> {
  const { services, recorder } = batch;
  const { run } = batchRun;
  try {
    await run.finished;
    const dispositions = attemptDispositions(services, run.done.slice(told), () => leaseOf(batchRun));
    logCounts(services);
    await settle(batch, batchRun, await recorder.report(dispositions), false);
    await sendAgain(services, dispositions);
  } catch (error) {
    // The deliveries are recorded as on their way: the sweep takes them up again.
    services.log({ what: "late_outcomes_lost", error: faultOf(error) });
  }
}
