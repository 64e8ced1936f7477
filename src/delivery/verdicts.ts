/**
 * What is to become of the deliveries of a group: what to write, and what to do next with each. Read off
 * a run at two moments: when the worker's patience ends, and when the last answer has come.
 */
import type { Refusal } from "../policy/ask.ts";
import type { Services } from "../services.ts";
import type { DeliveryRow } from "../store/schema.ts";
import type { LoadedDelivery } from "../store/work.ts";
import { logAttempt } from "./attempt-log.ts";
import { type BatchRun, leftoverReason } from "./group.ts";
import { inFlightRow, type Outcome, ownedBy, waitingRow } from "./outcome-rows.ts";
import type { Finished } from "./run-lease.ts";

export type Disposition = Readonly<{
  work: LoadedDelivery;
  /** What to write; undefined when nothing has changed. */
  row?: DeliveryRow;
  /** When to bring it again; undefined when this bringer is done with it. */
  againAt?: number;
  /** It answered 410: the destination is to be paused. */
  gone?: boolean;
}>;

type OwnerOf = (work: LoadedDelivery) => string | undefined;

/** For a gate that could not be reached: come back after this, spread over as much again. */
const UNREACHABLE_MS = 5_000;

/**
 * What a run has to say at this moment; what is running counts as on its way.
 * @param ownerOf the mark of the message that brings a retry
 */
export function runDispositions(services: Services, { run, recoverAt }: BatchRun, ownerOf: OwnerOf): Disposition[] {
  if (!run) return [];
  const leftover = leftoverReason(run, services.now());
  return [
    ...run.queue.map((work) => waitingVerdict(work, leftover)),
    ...[...run.running.keys()].map((work) => ({ work, row: inFlightRow(work, recoverAt) })),
    ...attemptDispositions(services, run.done, ownerOf),
  ];
}

/** What the gate's answer means for those of `works` that it did not let in. */
export function refusedDispositions(services: Services, { answer }: BatchRun, works: readonly LoadedDelivery[]): Disposition[] {
  if (!answer) return works.map((work) => ({ work, againAt: unreachableUntil(services) }));
  const { refused, inFlight } = answer;
  if (!refused && !inFlight) return [];
  const turned = new Set(refused?.deliveries);
  const elsewhere = new Set(inFlight?.deliveries);
  return works.flatMap((work): Disposition[] => {
    if (refused && turned.has(work.event.id)) return [waitingVerdict(work, refused)];
    return inFlight && elsewhere.has(work.event.id) ? [{ work, againAt: inFlight.until }] : [];
  });
}

/** What waits already is not written again: the reason of the moment is the gate's to tell. */
function waitingVerdict(work: LoadedDelivery, refusal: Refusal): Disposition {
  return work.row?.state === "waiting" ? { work } : { work, row: waitingRow(work, refusal) };
}

function unreachableUntil({ now, random }: Services): number {
  return now() + UNREACHABLE_MS * (1 + random());
}

/** What finished attempts say. Each is told of as it is read off. */
export function attemptDispositions(services: Services, ended: readonly Finished[], ownerOf: OwnerOf): Disposition[] {
  return ended.map((finished) => {
    logAttempt(services, finished);
    return verdictOf(finished.attempt.work, finished.outcome, ownerOf);
  });
}

function verdictOf(work: LoadedDelivery, { row, transition }: Outcome, ownerOf: OwnerOf): Disposition {
  switch (transition.kind) {
    case "delivered":
      return { work, row };
    case "dead":
      return { work, row, gone: transition.reason === "gone" };
    case "retry":
      return { work, row: ownedBy(row, ownerOf(work)), againAt: transition.at };
  }
}
