/**
 * The end of a dispatch: attempt, record, settle, each destination as it ends.
 *
 * Record before settle, so that capacity is given back only for what is on record. No destination waits for another
 * one: not for its gate, its access token, the look-up of its name or its receiver. It is recorded, and its capacity is
 * free again, while a neighbour is still awaited; a kill repeats what was in flight and not the whole batch. They share
 * writes all the same, where they end at about the same time.
 *
 * A destination whose receiver does not answer is recorded as it is: what was not started waits, and what is still
 * running is in flight, with a time at which the sweep would recover it. Its end is awaited in the background, and
 * settled there.
 */

import { endedBeforeLast, standsBehind } from "../core/order.ts";
import { faultOf } from "../log.ts";
import type { DestinationResult, Services } from "../services.ts";
import type { LoadedDelivery } from "../store/deliveries.ts";
import type { StatusChange } from "../store/status-changes.ts";
import { within } from "../time.ts";
import type { Dispatch, Due, Leased, Recorded } from "./admission.ts";
import { logAttempt, logCounts, logLease } from "./attempt-log.ts";
import { settleDestination } from "./group.ts";
import { sendRetries } from "./message-group.ts";
import { applySettleResults, reportDead } from "./news.ts";
import {
  attemptDisposition,
  type Disposition,
  deadAmong,
  type Finished,
  inFlightRow,
  waitingDisposition,
} from "./outcome.ts";
import { LINGER_MS, type Recorder, RIDE_MS } from "./recorder.ts";

/** How long a settle result waits for others of the batch, to be applied together. */
const APPLY_MS = 250;
/**
 * How often a run of a key is recorded. If a run is cut off, at most this much of it is repeated; each record costs a
 * write.
 */
const RECORD_EVERY_MS = 1_000;

type OwnerOf = (delivery: LoadedDelivery) => string | undefined;

type EndOptions = Readonly<{
  /** The message that delivers a delivery's retry; without, retries get messages of their own. */
  ownerOf?: OwnerOf;
  /**
   * Called when the dispatch is recorded, with whether it led to anything: whether the drain will request another lease at
   * once.
   */
  continues?: (isUseful: boolean) => boolean;
}>;

type Ending = Exclude<Dispatch, Due | Recorded>;

/** The part of a run that is on record before its end. */
type EarlyRecord = {
  readonly finished: Set<Finished>;
  /** Lines in which more deliveries have ended since: the next one of each has got a row. */
  readonly followed: Set<string>;
  readonly dispositions: Disposition[];
  readonly gone: StatusChange[];
};

/** Ends dispatches side by side. */
export class Pipeline {
  readonly #services: Services;
  readonly #recorder: Recorder;
  /** Dispatches that have nothing to record yet. */
  #coming = 0;
  /** Settlements under way. */
  #settling = 0;
  #results: DestinationResult[] = [];
  #gone: StatusChange[] = [];

  constructor(services: Services, recorder: Recorder) {
    this.#services = services;
    this.#recorder = recorder;
  }

  /**
   * Awaits the gate's answer and the attempts, records the outcomes, and settles the lease. Rejects when they cannot be
   * recorded: then the lease is not settled either.
   */
  async end(dispatching: Ending | Promise<Ending>, options: EndOptions = {}): Promise<Recorded> {
    let dispatch: Ending;
    const early: EarlyRecord = { finished: new Set(), followed: new Set(), dispositions: [], gone: [] };
    this.#coming += 1;
    try {
      dispatch = await dispatching;
      if (dispatch.stage === "leased" && dispatch.run.queue.some(standsBehind))
        await this.#recordEarly(dispatch, early, options);
      if (dispatch.stage === "leased") await dispatch.run.enough;
    } finally {
      // In the same step as its report: when two end at once, the first still finds the second.
      this.#coming -= 1;
    }
    switch (dispatch.stage) {
      case "decided":
      case "unreachable":
      case "refused":
        return this.#endUnattempted(dispatch);
      case "leased":
        return this.#endLease(dispatch, early, options);
    }
  }

  async #endUnattempted({ destination, dispositions }: Exclude<Ending, Leased>): Promise<Recorded> {
    await this.#recorder.report(dispositions, this.#coming > 0 ? RIDE_MS : 0);
    reportDead(this.#services, deadAmong(dispositions));
    return { stage: "recorded", destination, dispositions, late: false };
  }

  /**
   * Records a run of a key while it is made, so that a kill repeats little of it. A write that fails ends the run,
   * because nothing may be sent far ahead of the record.
   */
  async #recordEarly({ run, grant }: Leased, early: EarlyRecord, { ownerOf }: EndOptions): Promise<void> {
    let isOver = false;
    const over = run.enough.finally(() => {
      isOver = true;
    });
    const { now } = this.#services;
    for (let at = now(); ; ) {
      at = Math.max(at + RECORD_EVERY_MS, now());
      await within(this.#services, at - now(), over).catch(() => {});
      if (isOver) return;
      const { ended, dispositions } = earlyDispositions(run, early, ownerOf ?? (() => grant.id));
      if (ended.length === 0) continue;
      try {
        early.gone.push(...(await this.#recorder.report(dispositions)));
      } catch {
        return run.stop();
      }
      for (const finished of ended) {
        logAttempt(this.#services, finished);
        early.finished.add(finished);
      }
      early.dispositions.push(...dispositions);
      for (const { row } of dispositions)
        if (row?.isFollowed && row.place) early.followed.add(row.place.line);
    }
  }

  async #endLease(
    leased: Leased,
    early: EarlyRecord,
    { ownerOf = () => leased.grant.id, continues = () => false }: EndOptions,
  ): Promise<Recorded> {
    const { run, destination } = leased;
    const late = run.running.size > 0;
    const recorded = run.done.length;
    logLease(this.#services, leased);
    const rest = [...leased.dispositions, ...dispositionsOf(this.#services, leased, early, ownerOf)];
    const dispositions = [...early.dispositions, ...rest];
    const reported = await this.#recorder.report(rest, this.#coming > 0 ? LINGER_MS : 0);
    const gone = [...early.gone, ...reported];
    reportDead(this.#services, deadAmong(leased.dispositions));
    if (late) {
      this.#applyTogether([], gone);
      this.#services.background(this.#finishLate(leased, recorded));
    } else {
      await this.#settle(leased, gone, continues(hasProgress(dispositions)));
    }
    return { stage: "recorded", destination, dispositions, late };
  }

  /**
   * Attempts that end after the batch's messages have been acknowledged: their retries need messages of their own.
   * @param recorded how many attempts had ended before
   */
  async #finishLate(leased: Leased, recorded: number): Promise<void> {
    const { run, grant } = leased;
    try {
      await run.finished;
      const ended = run.done.slice(recorded);
      const dispositions = logAndDispose(this.#services, ended, () => grant.id);
      logCounts(this.#services);
      await this.#settle(leased, await this.#recorder.report(dispositions), false);
      await sendRetries(this.#services, dispositions);
    } catch (error) {
      // The deliveries are recorded as in flight: the sweep recovers them.
      this.#services.log({ what: "late_outcomes_lost", error: faultOf(error) });
    }
  }

  /** @param gone destinations that have just been paused, because they answered 410 */
  async #settle(leased: Leased, gone: readonly StatusChange[], continues: boolean): Promise<void> {
    this.#settling += 1;
    let result: DestinationResult | undefined;
    try {
      result = await settle(this.#services, leased, continues);
    } finally {
      // In the same step as what follows: when two arrive at once, the first still finds the second here.
      this.#settling -= 1;
    }
    this.#applyTogether(result ? [result] : [], gone);
  }

  /** The last of those that are settling does it, but no one waits for a gate that hangs. */
  #applyTogether(results: readonly DestinationResult[], gone: readonly StatusChange[]): void {
    if (results.length + gone.length > 0) {
      this.#results.push(...results);
      this.#gone.push(...gone);
      // The invocation lasts until those that are settling have ended.
      if (this.#settling > 0) void this.#services.sleep(APPLY_MS).then(() => this.#apply());
    }
    if (this.#settling === 0) this.#apply();
  }

  #apply(): void {
    const results = this.#results.splice(0);
    const gone = this.#gone.splice(0);
    if (results.length + gone.length === 0) return;
    this.#services.background(applySettleResults(this.#services, results, gone));
  }
}

/** The dispositions of a run at this moment, except those on record; attempts that are still running are in flight. */
function dispositionsOf(
  services: Services,
  { run, recoverAt }: Leased,
  early: EarlyRecord,
  ownerOf: OwnerOf,
): Disposition[] {
  const reason = run.leftoverReason();
  const ended = run.done.filter((finished) => !early.finished.has(finished));
  return [
    ...run.queue.map((delivery) => waitingDisposition(delivery, reason)),
    ...[...run.running.keys()].map((delivery) => ({ delivery, row: inFlightRow(delivery, recoverAt) })),
    ...withRows(logAndDispose(services, ended, ownerOf), early),
  ];
}

/** The attempts of an unfinished run that are to be recorded now. */
function earlyDispositions({ done, queue, running }: Leased["run"], early: EarlyRecord, ownerOf: OwnerOf) {
  const fresh = new Map(
    done.filter((one) => !early.finished.has(one)).map((one) => [one.attempt.delivery, one]),
  );
  const { ended, followed } = endedBeforeLast([...fresh.keys()], [...queue, ...running.keys()]);
  const finished = ended.flatMap((delivery) => fresh.get(delivery) ?? []);
  const dispositions = finished.map((one): Disposition => {
    const disposition = attemptDisposition(one, ownerOf(one.attempt.delivery));
    const { delivery, row } = disposition;
    return row && followed.has(delivery)
      ? { ...disposition, row: { ...row, isFollowed: true } }
      : disposition;
  });
  return { ended: finished, dispositions: withRows(dispositions, early) };
}

/** The first delivery of each line that has moved up has got a row, so a bit for it would be refused. */
function withRows(dispositions: readonly Disposition[], { followed }: EarlyRecord): Disposition[] {
  const left = new Set(followed);
  return dispositions.map((one) =>
    one.row?.place && left.delete(one.row.place.line) ? { ...one, row: { ...one.row, hasRow: true } } : one,
  );
}

function logAndDispose(services: Services, ended: readonly Finished[], ownerOf: OwnerOf): Disposition[] {
  return ended.map((finished) => {
    logAttempt(services, finished);
    return attemptDisposition(finished, ownerOf(finished.attempt.delivery));
  });
}

/**
 * Whether any delivery has been attempted, or has ended without an attempt: otherwise another lease would lead to
 * nothing too.
 */
export function hasProgress(dispositions: readonly Disposition[]): boolean {
  return dispositions.some(({ row }) => row !== undefined && row.state !== "waiting");
}

/**
 * Reports the lease to its gate, after its outcomes are recorded.
 * @param continues whether a drain will request another lease at once
 */
async function settle(
  services: Services,
  { destination, grant, run, left, result: admitted }: Leased,
  continues: boolean,
): Promise<DestinationResult | undefined> {
  const tat = run.tat();
  const settlement = {
    lease: grant.id,
    signals: run.signals,
    left: run.queue.length + left,
    continues,
    ...(tat !== undefined && { tatInMs: tat - services.now() }),
  };
  const attempts = run.done.map(({ attempt }) => attempt);
  const result = await settleDestination(services, destination, settlement, {
    attempts,
    block: admitted.block,
  });
  return result && { destination, result };
}
