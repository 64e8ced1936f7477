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
import type { Work } from "../store/work.ts";
import { logCounts, logLease } from "./attempt-log.ts";
import { sendAgain } from "./carry.ts";
import { type GroupRun, settleGroup } from "./group.ts";
import { type Heard, heed } from "./heed.ts";
import type { Recorder } from "./report.ts";
import type { LeaseRun } from "./run-lease.ts";
import { tellDead } from "./tell-dead.ts";
import { attemptVerdicts, runVerdicts, type Verdict } from "./verdicts.ts";

export type Worked = Readonly<{
  /** For every delivery that was to be told of, but for the failures'. All of it is in D1. */
  verdicts: readonly Verdict[];
  /** Whether some attempts are still running. */
  late: boolean;
  failures: readonly Failure[];
}>;

/** What could not be recorded: of a group, whose lease is not settled either, or of what was decided without an attempt. */
export type Failure = Readonly<{ groupRun?: GroupRun; error: unknown }>;

export type Orders = Readonly<{
  /** What was decided without an attempt, to be recorded with the first group that ends. */
  also: readonly Verdict[];
  /** The mark of the message that has brought it, and brings its retry; without, retries get messages of their own. */
  ownerOf?: (work: Work) => string | undefined;
  /** Asked when a group is recorded: whether the drain will ask again at once, if anything has come of this. */
  continues: () => boolean;
}>;

/** A group under a lease. The others have nothing to record, and nothing to settle. */
type Leased = GroupRun & Readonly<{ run: LeaseRun }>;

type Batch = Orders &
  Readonly<{
    services: Services;
    recorder: Recorder;
    /** What has not ended yet: groups, and what was decided without an attempt. */
    atWork: Set<unknown>;
    settling: Settling;
  }>;

/** What gates say to groups that settle at the same time is heeded at once, in one round trip. */
type Settling = Readonly<{ groups: Set<GroupRun>; heard: Heard[]; gone: StatusChange[] }>;

export async function attemptGroups(
  services: Services,
  recorder: Recorder,
  runs: readonly GroupRun[],
  orders: Orders,
): Promise<Worked> {
  const { also } = orders;
  const leased = runs.filter((groupRun): groupRun is Leased => groupRun.run !== undefined);
  const atWork = new Set<unknown>(also.length > 0 ? [...leased, also] : leased);
  const settling = { groups: new Set<GroupRun>(), heard: [], gone: [] };
  const batch = { ...orders, services, recorder, atWork, settling };
  const ended = await Promise.all([
    endDecided(batch, leased).catch((error: unknown) => failed({ error })),
    ...leased.map((groupRun) =>
      endGroup(batch, groupRun).catch((error: unknown) => failed({ groupRun, error })),
    ),
  ]);
  return {
    verdicts: ended.flatMap(({ verdicts }) => verdicts),
    late: ended.some(({ late }) => late),
    failures: ended.flatMap(({ failures }) => failures),
  };
}

function failed(failure: Failure): Worked {
  return { verdicts: [], late: false, failures: [failure] };
}

/** Records what was decided without an attempt, when the first group ends, or at once where there is none. */
async function endDecided(
  { services, recorder, atWork, also }: Batch,
  leased: readonly Leased[],
): Promise<Worked> {
  if (also.length === 0) return { verdicts: [], late: false, failures: [] };
  if (leased.length > 0) await Promise.race(leased.map(({ run }) => run.enough)).catch(() => {});
  atWork.delete(also);
  await recorder.report(also, atWork.size > 0);
  tellDead(services, also);
  return { verdicts: also, late: false, failures: [] };
}

/** Awaits the group's end, records and settles it. */
async function endGroup(batch: Batch, groupRun: Leased): Promise<Worked> {
  const { services, recorder, atWork, also, ownerOf = () => leaseOf(groupRun), continues } = batch;
  const { run } = groupRun;
  try {
    await run.enough;
  } finally {
    atWork.delete(groupRun);
  }
  logLease(services, groupRun);
  const late = run.running.size > 0;
  const told = run.done.length;
  const verdicts = runVerdicts(services, groupRun, ownerOf);
  const gone = await recorder.report(verdicts, atWork.size > 0);
  if (late) {
    heedTogether(batch, [], gone);
    services.background(finishLate(batch, groupRun, told));
  } else {
    await settle(batch, groupRun, gone, hasCome([...also, ...verdicts]) && continues());
  }
  return { verdicts, late, failures: [] };
}

/** Whether any delivery has been attempted, or has ended without: otherwise another lease would come to nothing too. */
export function hasCome(verdicts: readonly Verdict[]): boolean {
  return verdicts.some(({ row }) => row !== undefined && row.state !== "waiting");
}

/** @param gone pauses that have just been made */
async function settle(
  batch: Batch,
  groupRun: Leased,
  gone: readonly StatusChange[],
  continues: boolean,
): Promise<void> {
  const { groups } = batch.settling;
  groups.add(groupRun);
  const heard = await settleGroup(batch.services, groupRun, continues).finally(() => groups.delete(groupRun));
  heedTogether(batch, heard ? [heard] : [], gone);
}

/** Leaves it to the last of those that are settling. */
function heedTogether(
  { services, settling }: Batch,
  heard: readonly Heard[],
  gone: readonly StatusChange[],
): void {
  settling.heard.push(...heard);
  settling.gone.push(...gone);
  const isSomething = settling.heard.length + settling.gone.length > 0;
  if (settling.groups.size > 0 || !isSomething) return;
  services.background(heed(services, settling.heard.splice(0), settling.gone.splice(0)));
}

/** What comes of a lease without a message, or behind it, is told from everything else by the lease. */
function leaseOf({ answer }: GroupRun): string | undefined {
  return answer?.grant?.id;
}

/**
 * Answers that come after the messages are gone: their retries need messages of their own.
 * @param told so many attempts had ended before
 */
async function finishLate(batch: Batch, groupRun: Leased, told: number): Promise<void> {
  const { services, recorder } = batch;
  const { run } = groupRun;
  try {
    await run.finished;
    const verdicts = attemptVerdicts(services, run.done.slice(told), () => leaseOf(groupRun));
    logCounts(services);
    await settle(batch, groupRun, await recorder.report(verdicts), false);
    await sendAgain(services, verdicts);
  } catch (error) {
    // The deliveries are recorded as on their way: the sweep takes them up again.
    services.log({ what: "late_outcomes_lost", error: faultOf(error) });
  }
}
