/**
 * Runs a replay, step by step: a step checks the destination and makes a portion of the replay's deliveries wait;
 * missing ones are planned first. Drains do all the sending, through the gate, as with all waiting deliveries.
 *
 * A step whose message arrives twice finds the cursor moved or its time not come, and does nothing.
 */

import type { ReplayReason } from "../../core/reasons.ts";
import type { RetentionTimes } from "../../core/retention.ts";
import { ageLimitOf } from "../../core/retry/policy.ts";
import { recentAttempts } from "../../core/rollups.ts";
import { atGate } from "../../gate/client.ts";
import { endReplaysOfDeleted } from "../../jobs/deleted-destinations.ts";
import { queuedJob } from "../../jobs/runner.ts";
import type { Services } from "../../services.ts";
import { keptOfTenant } from "../../store/content-retention.ts";
import { type Destination, gateSettingsOf, retryPolicyOf } from "../../store/destination.ts";
import { criteriaOf } from "../../store/event-refusals.ts";
import { findMissing } from "../../store/missing-deliveries.ts";
import {
  advanceReplay,
  findPortion,
  isOfEnded,
  type Portion,
  type ReplayPart,
  replayPartsOf,
} from "../../store/replay-steps.ts";
import {
  changeReplay,
  findReplayJob,
  overdueReplays,
  type Replay,
  type ReplayChange,
  type ReplayJob,
  summedUp,
} from "../../store/replays.ts";
import { idRangeOf } from "../../store/time-ranges.ts";
import { countWaiting } from "../../store/waiting.ts";
import { nextPace, type PaceStep, type ReplayHealth, replayHealthOf, stepAt } from "./pace.ts";

/** Attempts this recent count towards the destination's health. */
const RECENT_MS = 3 * 60_000;
/** The most waiting deliveries that are counted. */
const COUNTED = 1_000;

/** Its row is the replay's, with the destination. */
export const replaying = queuedJob<ReplayJob & Pick<Replay, "state" | "nextStepAt">>({
  name: "replay",
  budget: { queries: Number.POSITIVE_INFINITY },
  find: async ({ db }, id) => {
    const job = await findReplayJob(db, id);
    return job && { ...job, state: job.replay.state, nextStepAt: job.replay.nextStepAt };
  },
  step: async ({ services, startedAt: now }, { replay, destination }) => {
    if (!destination || destination.deletedAt !== null) {
      await endReplaysOfDeleted(services, replay.destinationId);
      return undefined;
    }
    const kept = await keptOfTenant(services.db, replay.tenant, services.config.retentionMs);
    const parts = await replayPartsOf(services, replay, kept);
    const sum = summedUp(
      replay,
      parts.map((one) => one.replay),
    );
    const health = await observedHealth(services, sum, destination);
    const pace = nextPace(replay.pace, health, replay.ratePerMinute, now - replay.updatedAt);
    const part = parts.find((one) => one.replay.state !== "completed") ?? { db: services.db, replay };
    return makeStep(services, replay, destination, { part, pace, health, kept, ...stepAt(pace, health) });
  },
  findLate: overdueReplays,
});

async function observedHealth(
  services: Services,
  { pace, delivered, failed }: Replay,
  destination: Destination,
): Promise<ReplayHealth> {
  const [view, waiting] = await Promise.all([
    atGate(services, destination.id, "view", gateSettingsOf(destination)),
    countWaiting(services, destination.id, COUNTED),
  ]);
  const blocked = destination.status === "paused" || view?.circuit !== "closed" || view.heldUntil !== null;
  const { attempts, troubled: failures } = recentAttempts(view?.minutes ?? [], RECENT_MS, services.now());
  return replayHealthOf({ blocked, attempts, failures, waiting, delivered, failed }, Math.min(pace, COUNTED));
}

/** A step, of the part of the replay in one of the databases. */
type StepPlan = PaceStep &
  Readonly<{ part: ReplayPart; pace: number; health: ReplayHealth; kept: RetentionTimes }>;

/**
 * Makes the portion wait and schedules a drain; returns when the next step is due, or undefined when there is none. A
 * step that finds less than its portion is followed sooner, so that events which are passed over take no time.
 */
async function makeStep(
  services: Services,
  replay: Replay,
  destination: Destination,
  { part, portion, pace, waitMs, health, kept }: StepPlan,
): Promise<number | undefined> {
  const { db, now } = services;
  const startedAt = now();
  const found = await portionOf(services, part, destination, { size: portion, kept });
  const { events, isLast } = found;
  const share = portion === 0 || isLast ? 1 : events.length / portion;
  const nextStepAt = startedAt + Math.ceil(waitMs * share);
  const isEnd = isLast && part.db === db;
  const continued = { state: "running", reason: reasonOf(destination, health), endedAt: null } as const;
  const completed = { state: "completed", reason: null, endedAt: now() } as const;
  const job = { ...(isEnd ? completed : continued), pace, nextStepAt };
  const after = { ...job, ...(isLast && completed) };
  const giveUpAt = ageLimitOf(retryPolicyOf(destination), null, now());
  const next = { ...found, ordering: destination.ordering };
  const isDone =
    (await isClaimed(services, part, job)) &&
    (await advanceReplay(part.db, part.replay, next, after, giveUpAt, now()));
  if (isDone && events.length > 0) await atGate(services, destination.id, "scheduleDrain");
  const ids = { replay: replay.id, destination: destination.id };
  services.log({
    what: "replay_step",
    ...ids,
    state: isDone ? job.state : "superseded",
    requeued: isDone ? events.length : 0,
    pace: Math.round(pace),
    health,
  });
  if (isEnd && isDone) services.log({ what: "replay_completed", ...ids });
  return isEnd || !isDone ? undefined : nextStepAt;
}

/**
 * Whether the replay may advance. Its row moves in one transaction with the part in the first database. For a part in
 * another one it moves by itself before, which shows whether it has been paused or cancelled; if this invocation dies
 * then, the next step repeats the same work.
 */
async function isClaimed({ db, now }: Services, part: ReplayPart, job: ReplayChange): Promise<boolean> {
  if (part.db === db) return true;
  return (await changeReplay(db, part.replay.id, ["running"], job, now())) !== undefined;
}

async function portionOf(
  services: Services,
  { db, replay }: ReplayPart,
  destination: Destination,
  { size, kept }: Readonly<{ size: number; kept: RetentionTimes }>,
): Promise<Portion> {
  if (size === 0) return { events: [], packed: [], cursor: replay.cursor, isLast: false };
  if (isOfEnded(replay)) {
    const { last } = await idRangeOf(db, { until: replay.until });
    return findPortion(db, replay, last, size, kept);
  }
  // Events that are accepted later are routed as usual.
  const { last } = await idRangeOf(db, { until: Math.min(replay.until, replay.createdAt + 1) });
  const found = await findMissing(services, db, replay, {
    route: criteriaOf(destination),
    last,
    size,
    kept,
  });
  return { ...found, packed: [] };
}

/** Why a replay is not at its full speed. */
function reasonOf({ status }: Destination, health: ReplayHealth): ReplayReason | null {
  if (status === "paused") return "destination_paused";
  return health === "stable" ? null : health;
}
