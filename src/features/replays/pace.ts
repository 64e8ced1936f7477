/**
 * The pace of a replay: how many deliveries a minute it makes wait again.
 *
 * Dead letters have waited for days, live traffic has not. So a replay begins at the requested rate, doubles it in five
 * minutes while nothing is wrong, and halves it in one while something is. It never catches up on lost time, and makes
 * nothing wait while the destination is blocked or the backlog does not shrink.
 */
export type Observed = Readonly<{
  /** The destination admits nothing: it is paused or held, or its circuit is not closed. */
  blocked: boolean;
  /** Attempts of the last minutes, live traffic included, and those of them that failed. */
  attempts: number;
  failures: number;
  /** Deliveries waiting for the destination, those of live traffic included. */
  waiting: number;
  /** How the replay's own deliveries have ended so far. */
  delivered: number;
  failed: number;
}>;

/** `stuck`: no deliveries are to be made waiting now. */
export type ReplayHealth = "stable" | "doubtful" | "stuck";

/** A step of a replay: how many deliveries to make wait, and the time until the next step. */
export type PaceStep = Readonly<{ portion: number; waitMs: number }>;

const DOUBLES_IN_MS = 300_000;
const HALVES_IN_MS = 60_000;
/** The pace stays between a tenth and ten times the requested rate. */
const RANGE = 10;
/** The most that a pause between two steps counts as: a replay may have been paused for a night. */
const LONGEST_MS = 60_000;
/** Steps are about this long, so that a minute's portion does not come at once. */
const STEP_MS = 10_000;
const LARGEST_PORTION = 1_000;
/** A larger share of failed attempts makes a replay doubtful. */
const TOLERATED = 0.1;
/** Fewer ended deliveries than this say nothing about how a replay goes. */
const ENOUGH_ENDED = 20;

export function replayHealthOf(observed: Observed, pace: number): ReplayHealth {
  const { blocked, attempts, failures, waiting, delivered, failed } = observed;
  if (blocked || waiting >= Math.max(1, pace)) return "stuck";
  const failing = failures > attempts * TOLERATED;
  const rejected = failed > delivered && failed + delivered >= ENOUGH_ENDED;
  return failing || rejected ? "doubtful" : "stable";
}

/**
 * The pace after `elapsedMs` more of this health, in deliveries per minute.
 * @param asked the rate that the replay was created with, per minute
 */
export function nextPace(pace: number, health: ReplayHealth, asked: number, elapsedMs: number): number {
  const elapsed = Math.min(Math.max(0, elapsedMs), LONGEST_MS);
  const factor = health === "stable" ? 2 ** (elapsed / DOUBLES_IN_MS) : 0.5 ** (elapsed / HALVES_IN_MS);
  return Math.min(asked * RANGE, Math.max(asked / RANGE, pace * factor));
}

/** The step to make at this pace. A portion that is larger than a step's share at that rate delays the next step. */
export function stepAt(pace: number, health: ReplayHealth): PaceStep {
  if (health === "stuck") return { portion: 0, waitMs: STEP_MS };
  const portion = Math.min(LARGEST_PORTION, Math.max(1, Math.floor((pace * STEP_MS) / 60_000)));
  return { portion, waitMs: Math.ceil((portion * 60_000) / pace) };
}

/**
 * How long a replay of this many deliveries takes while nothing is wrong, ms: it begins at the requested rate, doubles
 * that every five minutes up to ten times of it, and never exceeds what the destination takes.
 * @param asked deliveries per minute; @param most the destination's rate per minute
 */
export function expectedDurationMs(count: number, asked: number, most: number): number {
  const cap = Math.min(asked * RANGE, most);
  if (asked >= cap) return Math.ceil((count / cap) * 60_000);
  const doubles = DOUBLES_IN_MS / 60_000;
  const growing = (asked * doubles * (cap / asked - 1)) / Math.LN2;
  const minutes =
    count <= growing
      ? doubles * Math.log2(1 + (count * Math.LN2) / (asked * doubles))
      : doubles * Math.log2(cap / asked) + (count - growing) / cap;
  return Math.ceil(minutes * 60_000);
}
