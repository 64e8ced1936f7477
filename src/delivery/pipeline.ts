/**
 * The end of a batch: attempt, record, settle, each destination as it ends.
 *
 * Record before settle, so that capacity is given back only for what is on record. No destination waits for another
 * one's receiver: it is recorded, and its capacity is free again, while a neighbour is still awaited; a kill repeats
 * what was in flight and not the whole batch.
 *
 * A destination whose receiver does not answer is recorded as it is: what was not started waits, and what is still
 * running is in flight, with a time at which the sweep would recover it. Its end is awaited in the background, and
 * settled there.
 */
import type { LoadedDelivery } from "../db/deliveries.ts";
import { gateSettingsOf } from "../db/destinations.ts";
import type { StatusChange } from "../db/notifications.ts";
import { settleAtGate } from "../gate/client.ts";
import { faultOf } from "../log.ts";
import { publishDead } from "../notifications/publish.ts";
import type { Services } from "../services.ts";
import type { BatchRun } from "./admission.ts";
import { logAttempt, logCounts, logLease } from "./attempt-log.ts";
import type { LeaseRun } from "./lease-runner.ts";
import { sendRetries } from "./message-group.ts";
import {
  attemptDisposition,
  type Disposition,
  deadAmong,
  type Finished,
  inFlightRow,
  waitingDisposition,
} from "./outcome.ts";
import type { Recorder } from "./recorder.ts";
import { applySettleResults, type DestinationResult } from "./settle-results.ts";

type RecordOptions = Readonly<{
  /** What was decided without an attempt, to be recorded with the first destination that ends. */
  decided: readonly Disposition[];
  /** The message that delivers a delivery's retry; without, retries get messages of their own. */
  ownerOf?: (delivery: LoadedDelivery) => string | undefined;
  /** Asked when a batch is recorded: whether the drain will ask for more at once, if anything has come of this. */
  continues: () => boolean;
}>;

export type Recorded = Readonly<{
  /** For every delivery that was decided or admitted, but for the failures'. All of it is in D1. */
  dispositions: readonly Disposition[];
  /** Whether some attempts are still running. */
  late: boolean;
  failures: readonly Failure[];
}>;

/** What could not be recorded: a destination's run, whose lease is not settled either, or what was decided without an attempt. */
export type Failure = Readonly<{ batchRun?: BatchRun; error: unknown }>;

/** A batch under a lease. The others have nothing to record, and nothing to settle. */
type LeasedRun = BatchRun & Readonly<{ run: LeaseRun }>;

/** Of batches that are being ended together. */
type Ending = RecordOptions &
  Readonly<{
    services: Services;
    recorder: Recorder;
    /** What has not ended yet: runs, and what was decided without an attempt. */
    pending: Set<unknown>;
    settling: Settling;
  }>;

/** Settle results that arrive at the same time are applied together, in one round trip. */
type Settling = Readonly<{ runs: Set<BatchRun>; results: DestinationResult[]; gone: StatusChange[] }>;

/** Awaits the attempts of each run, records their outcomes, and settles its lease. */
export async function recordAndSettle(
  services: Services,
  recorder: Recorder,
  runs: readonly BatchRun[],
  options: RecordOptions,
): Promise<Recorded> {
  const { decided } = options;
  const leased = runs.filter((batchRun): batchRun is LeasedRun => batchRun.run !== undefined);
  const pending = new Set<unknown>(decided.length > 0 ? [...leased, decided] : leased);
  const settling = { runs: new Set<BatchRun>(), results: [], gone: [] };
  const ending = { ...options, services, recorder, pending, settling };
  const ended = await Promise.all([
    recordDecided(ending, leased).catch((error: unknown) => failed({ error })),
    ...leased.map((batchRun) =>
      endRun(ending, batchRun).catch((error: unknown) => failed({ batchRun, error })),
    ),
  ]);
  return {
    dispositions: ended.flatMap(({ dispositions }) => dispositions),
    late: ended.some(({ late }) => late),
    failures: ended.flatMap(({ failures }) => failures),
  };
}

const nothing: Recorded = { dispositions: [], late: false, failures: [] };

function failed(failure: Failure): Recorded {
  return { ...nothing, failures: [failure] };
}

/** Records what was decided without an attempt, when the first run ends, or at once where there is none. */
async function recordDecided(
  { services, recorder, pending, decided }: Ending,
  leased: readonly LeasedRun[],
): Promise<Recorded> {
  if (decided.length === 0) return nothing;
  if (leased.length > 0) await Promise.race(leased.map(({ run }) => run.enough)).catch(() => {});
  pending.delete(decided);
  await recorder.report(decided, pending.size > 0);
  publishDead(services, deadAmong(decided));
  return { ...nothing, dispositions: decided };
}

/** Awaits the run's attempts, records and settles it. */
async function endRun(ending: Ending, batchRun: LeasedRun): Promise<Recorded> {
  const { services, recorder, pending, decided, ownerOf = () => leaseOf(batchRun), continues } = ending;
  const { run } = batchRun;
  try {
    await run.enough;
  } finally {
    pending.delete(batchRun);
  }
  const late = run.progress.running.size > 0;
  const recorded = run.progress.done.length;
  logLease(services, { ...batchRun, granted: batchRun.admitted?.grant?.deliveries.length });
  const dispositions = dispositionsOf(services, batchRun, ownerOf);
  const gone = await recorder.report(dispositions, pending.size > 0);
  if (late) {
    applyTogether(ending, [], gone);
    services.background(finishLate(ending, batchRun, recorded));
  } else {
    await settle(ending, batchRun, gone, hasProgress([...decided, ...dispositions]) && continues());
  }
  return { dispositions, late, failures: [] };
}

/** What is to be recorded of a run at this moment; attempts that are still running are in flight. */
function dispositionsOf(
  services: Services,
  { run: { progress, leftoverReason }, recoverAt }: LeasedRun,
  ownerOf: (delivery: LoadedDelivery) => string | undefined,
): Disposition[] {
  const reason = leftoverReason();
  return [
    ...progress.queue.map((delivery) => waitingDisposition(delivery, reason)),
    ...[...progress.running.keys()].map((delivery) => ({ delivery, row: inFlightRow(delivery, recoverAt) })),
    ...logAndDispose(services, progress.done, ownerOf),
  ];
}

function logAndDispose(
  services: Services,
  ended: readonly Finished[],
  ownerOf: (delivery: LoadedDelivery) => string | undefined,
): Disposition[] {
  return ended.map((finished) => {
    logAttempt(services, finished);
    return attemptDisposition(finished, ownerOf(finished.attempt.delivery));
  });
}

/** Whether any delivery has been attempted, or has ended without: otherwise another lease would come to nothing too. */
export function hasProgress(dispositions: readonly Disposition[]): boolean {
  return dispositions.some(({ row }) => row !== undefined && row.state !== "waiting");
}

/** The owner of retries that no message of a batch delivers: their lease sets them apart from all others. */
function leaseOf({ admitted }: BatchRun): string | undefined {
  return admitted?.grant?.id;
}

/** @param gone destinations that have just been paused, because they answered 410 */
async function settle(
  ending: Ending,
  batchRun: LeasedRun,
  gone: readonly StatusChange[],
  continues: boolean,
): Promise<void> {
  const { runs } = ending.settling;
  runs.add(batchRun);
  let result: DestinationResult | undefined;
  try {
    result = await settleRun(ending.services, batchRun, continues);
  } finally {
    // In the same step as what follows: of two that arrive at once the first still finds the second here.
    runs.delete(batchRun);
  }
  applyTogether(ending, result ? [result] : [], gone);
}

/**
 * Reports the run to the gate, after its outcomes are recorded.
 * @param continues a drain that will ask for more at once
 */
async function settleRun(
  services: Services,
  { destination, admitted, run: { progress }, left = 0 }: LeasedRun,
  continues: boolean,
): Promise<DestinationResult | undefined> {
  const grant = admitted?.grant;
  if (!grant) return undefined;
  const tat = progress.tat();
  const settlement = {
    lease: grant.id,
    signals: progress.signals,
    left: progress.queue.length + left,
    continues,
    ...(tat !== undefined && { tatInMs: tat - services.now() }),
  };
  const result = await settleAtGate(services, destination.id, settlement, gateSettingsOf(destination));
  return result && { destination, result };
}

/** Leaves it to the last of those that are settling. */
function applyTogether(
  { services, settling }: Ending,
  results: readonly DestinationResult[],
  gone: readonly StatusChange[],
): void {
  settling.results.push(...results);
  settling.gone.push(...gone);
  const isSomething = settling.results.length + settling.gone.length > 0;
  if (settling.runs.size > 0 || !isSomething) return;
  services.background(applySettleResults(services, settling.results.splice(0), settling.gone.splice(0)));
}

/**
 * Attempts that end after the batch's messages have been acknowledged: their retries need messages of their own.
 * @param recorded how many attempts had ended before
 */
async function finishLate(ending: Ending, batchRun: LeasedRun, recorded: number): Promise<void> {
  const { services, recorder } = ending;
  const { run } = batchRun;
  try {
    await run.finished;
    const ended = run.progress.done.slice(recorded);
    const dispositions = logAndDispose(services, ended, () => leaseOf(batchRun));
    logCounts(services);
    await settle(ending, batchRun, await recorder.report(dispositions), false);
    await sendRetries(services, dispositions);
  } catch (error) {
    // The deliveries are recorded as in flight: the sweep recovers them.
    services.log({ what: "late_outcomes_lost", error: faultOf(error) });
  }
}
