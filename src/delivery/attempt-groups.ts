/**
 * Groups at work: run, record, settle.
 *
 * Record before settle, so that capacity is given back only for what is known. A group whose receiver does
 * not answer is recorded as it stands: what was not started waits, what is still running is on its way with
 * a time at which the sweep would take it up again. Its end is awaited in the background, and settled there.
 */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { StatusChange } from "../store/status-changes.ts";
import type { Work } from "../store/work.ts";
import { logCounts, logLease } from "./attempt-log.ts";
import { sendAgain } from "./carry.ts";
import { type GroupRun, settleGroup } from "./group.ts";
import { heed } from "./heed.ts";
import { report } from "./report.ts";
import { tellDead } from "./tell-dead.ts";
import { attemptVerdicts, runVerdicts, type Verdict } from "./verdicts.ts";

export type Worked = Readonly<{
  /** For every delivery that was to be told of. All of it is in D1. */
  verdicts: readonly Verdict[];
  /** Whether some attempts are still running. */
  late: boolean;
}>;

export type Orders = Readonly<{
  /** What was decided without an attempt, to be written in the same write. */
  also: readonly Verdict[];
  /** The mark of the message that has brought it, and brings its retry; without, retries get messages of their own. */
  ownerOf?: (work: Work) => string | undefined;
  /** Asked when all is recorded: whether the drain will ask again at once, if anything has come of this. */
  continues: () => boolean;
}>;

export async function attemptGroups(
  services: Services,
  runs: readonly GroupRun[],
  { also, ownerOf, continues }: Orders,
): Promise<Worked> {
  await Promise.all(runs.map(({ run }) => run?.enough));
  const rests = runs.flatMap((groupRun) =>
    groupRun.run?.running.size ? { groupRun, told: groupRun.run.done.length } : [],
  );
  for (const groupRun of runs) logLease(services, groupRun);
  const ended = runs.filter((groupRun) => !rests.some((rest) => rest.groupRun === groupRun));
  const verdicts = [
    ...also,
    ...runs.flatMap((groupRun) => runVerdicts(services, groupRun, ownerOf ?? (() => leaseOf(groupRun)))),
  ];
  const gone = await report(services, verdicts);
  tellDead(services, also);
  await settleAll(services, ended, gone, hasCome(verdicts) && continues());
  for (const rest of rests) services.background(finishLate(services, rest));
  return { verdicts, late: rests.length > 0 };
}

/** Whether any delivery has been attempted, or has ended without: otherwise another lease would come to nothing too. */
export function hasCome(verdicts: readonly Verdict[]): boolean {
  return verdicts.some(({ row }) => row !== undefined && row.state !== "waiting");
}

/** @param gone pauses that have just been made */
async function settleAll(
  services: Services,
  ended: readonly GroupRun[],
  gone: readonly StatusChange[],
  continues: boolean,
): Promise<void> {
  const settled = await Promise.all(ended.map((groupRun) => settleGroup(services, groupRun, continues)));
  const heard = settled.filter((one) => one !== undefined);
  if (heard.length + gone.length > 0) services.background(heed(services, heard, gone));
}

/** What comes of a lease without a message, or behind it, is told from everything else by the lease. */
function leaseOf({ answer }: GroupRun): string | undefined {
  return answer?.grant?.id;
}

type Rest = Readonly<{ groupRun: GroupRun; told: number }>;

/**
 * Answers that come after the messages are gone: their retries need messages of their own. Each group by
 * itself, because what it has at the gate must not be kept until another one's receiver has timed out.
 */
async function finishLate(services: Services, { groupRun, told }: Rest): Promise<void> {
  try {
    await groupRun.run?.finished;
    const verdicts = attemptVerdicts(services, groupRun.run?.done.slice(told) ?? [], () => leaseOf(groupRun));
    logCounts(services);
    const gone = await report(services, verdicts);
    await settleAll(services, [groupRun], gone, false);
    await sendAgain(services, verdicts);
  } catch (error) {
    // The deliveries are recorded as on their way: the sweep takes them up again.
    services.log({ what: "late_outcomes_lost", error: faultOf(error) });
  }
}
