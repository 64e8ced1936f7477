/**
 * A replay at work, step by step: it looks at the destination, sets a portion of what it means to wait, and
 * sends for its next step. The drains do all the sending, through the gate like everything that waits.
 *
 * Nothing of it lives longer than a step. A step that is lost is made up for by the next tick of the clock;
 * one that comes twice finds the cursor moved, or its time not come, and does nothing.
 */

import type { ReplayReason } from "../core/reasons.ts";
import { ageLimitOf } from "../core/retry/policy.ts";
import { lately } from "../core/rollups.ts";
import { idRangeOf } from "../db/bundles.ts";
import { type Destination, gateSettingsOf, retryPolicyOf } from "../db/destinations.ts";
import { advanceReplay, findPortion, type Part, type Portion, partsOf } from "../db/replay-steps.ts";
import {
  cancelReplaysOf,
  changeReplay,
  findReplayJob,
  overdueReplays,
  type Replay,
  type ReplayChange,
  summedUp,
} from "../db/replays.ts";
import { countWaiting } from "../db/waiting.ts";
import { scheduleDrainAtGate, viewGate } from "../gate/client.ts";
import { faultOf } from "../log.ts";
import { delaySecondsUntil } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import { type Health, healthOf, nextPace, stepAt } from "./pace.ts";

/** A step that is this late has been lost. */
const LATE_MS = 30_000;
/** Lost steps that one tick makes up for. */
const OVERDUE = 100;
/** How long a failure is remembered. */
const LATELY_MS = 3 * 60_000;
/** Waiting deliveries counted at most, to see whether they get through. */
const COUNTED = 1_000;

/** Makes the replay's next step, if it is running and the step is due. */
export async function stepReplay(services: Services, id: string): Promise<void> {
  const now = services.now();
  const job = await findReplayJob(services.db, id);
  if (job?.replay.state !== "running" || job.replay.nextStepAt > now) return;
  const { replay, destination } = job;
  if (!destination || destination.deletedAt !== null)
    return endReplaysOfDeleted(services, replay.destinationId);
  const parts = await partsOf(services, replay, services.config.retentionMs);
  const sum = summedUp(
    replay,
    parts.map((one) => one.replay),
  );
  const health = await lookAt(services, sum, destination);
  const pace = nextPace(replay.pace, health, replay.ratePerMinute, now - replay.updatedAt);
  const { portion, waitMs } = stepAt(pace, health);
  const part = parts.find((one) => one.replay.state !== "completed") ?? { db: services.db, replay };
  const nextStepAt = await letWait(services, replay, destination, { part, portion, pace, waitMs, health });
  if (nextStepAt !== undefined) await sendForStep(services, id, nextStepAt);
}

type Plan = Readonly<{ part: Part; portion: number; pace: number; waitMs: number; health: Health }>;

/**
 * Sets the portion to wait, and rings for it; returns when the next step is, or undefined when there is none. One
 * that has found less than its portion is followed the sooner: what had to be passed over costs no time.
 */
async function letWait(
  services: Services,
  replay: Replay,
  destination: Destination,
  { part, portion, pace, waitMs, health }: Plan,
): Promise<number | undefined> {
  const { db, now } = services;
  const startedAt = now();
  const found = await portionOf(services, part, portion);
  const { events, isLast } = found;
  const share = portion === 0 || isLast ? 1 : events.length / portion;
  const nextStepAt = startedAt + Math.ceil(waitMs * share);
  const isEnd = isLast && part.db === db;
  const goesOn = { state: "running", reason: reasonOf(destination, health), endedAt: null } as const;
  const isOver = { state: "completed", reason: null, endedAt: now() } as const;
  const job = { ...(isEnd ? isOver : goesOn), pace, nextStepAt };
  const after = { ...job, ...(isLast && isOver) };
  const giveUpAt = ageLimitOf(retryPolicyOf(destination), null, now());
  const isDone =
    (await isClaimed(services, part, job)) &&
    (await advanceReplay(part.db, part.replay, found, after, giveUpAt, now()));
  if (isDone && events.length > 0) await scheduleDrainAtGate(services, destination.id);
  services.log({
    what: "replay_step",
    replay: replay.id,
    destination: destination.id,
    state: isDone ? job.state : "overtaken",
    moved: isDone ? events.length : 0,
    pace: Math.round(pace),
    health,
  });
  if (isEnd && isDone)
    services.log({ what: "replay_completed", replay: replay.id, destination: destination.id });
  return isEnd || !isDone ? undefined : nextStepAt;
}

/**
 * The job moves with its own part, in one transaction. Before another one it moves by itself: so it is seen
 * whether it has been paused or cancelled, and should nothing follow, the next step does the same work.
 */
async function isClaimed({ db, now }: Services, part: Part, job: ReplayChange): Promise<boolean> {
  if (part.db === db) return true;
  return (await changeReplay(db, part.replay.id, ["running"], job, now())) !== undefined;
}

async function portionOf({ config }: Services, { db, replay }: Part, size: number): Promise<Portion> {
  if (size === 0) return { events: [], packed: [], cursor: replay.cursor, isLast: false };
  const { last } = await idRangeOf(db, { until: replay.until });
  return findPortion(db, replay, last, size, config.retentionMs);
}

/** Why a replay is not at its full speed. */
function reasonOf({ status }: Destination, health: Health): ReplayReason | null {
  if (status === "paused") return "destination_paused";
  return health === "stable" ? null : health;
}

async function lookAt(
  services: Services,
  { pace, delivered, failed }: Replay,
  destination: Destination,
): Promise<Health> {
  const [view, waiting] = await Promise.all([
    viewGate(services, destination.id, gateSettingsOf(destination)),
    countWaiting(services, destination.id, COUNTED),
  ]);
  const shut = destination.status === "paused" || view?.circuit !== "closed" || view.heldUntil !== null;
  const { attempts, troubled: failures } = lately(view?.minutes ?? [], LATELY_MS, services.now());
  return healthOf({ shut, attempts, failures, waiting, delivered, failed }, Math.min(pace, COUNTED));
}

/** A failure is logged, not thrown: the next tick sends for what is late. */
export async function sendForStep(services: Services, replay: string, at: number): Promise<void> {
  try {
    const delaySeconds = delaySecondsUntil(at, services.now());
    await services.drains.send({ replay }, { delaySeconds });
  } catch (error) {
    services.log({ what: "replay_step_not_sent", replay, error: faultOf(error) });
  }
}

/** Ends the replays of deleted destinations, in whatever state, or of one of them. Safe to repeat. */
export async function endReplaysOfDeleted(services: Services, destination?: string): Promise<void> {
  const reason = "destination_deleted";
  for (const replay of await cancelReplaysOf(services.db, reason, services.now(), destination))
    services.log({
      what: "replay_cancelled",
      replay: replay.id,
      destination: replay.destinationId,
      reason,
    });
}

/** Sends for the steps that have been lost on their way, and ends the replays that nobody would ever end. */
export async function wakeReplays(services: Services): Promise<void> {
  const now = services.now();
  const late = await overdueReplays(services.db, now - LATE_MS, OVERDUE);
  for (const replay of late) await sendForStep(services, replay, now);
  await endReplaysOfDeleted(services);
}
