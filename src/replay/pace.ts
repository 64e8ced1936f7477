/**
 * The pace of a replay: how many deliveries a minute it sets to wait again.
 *
 * What is dead has waited for days; what is live has not. So a replay begins with what was asked for, doubles
 * in five minutes while nothing is wrong, and halves in one while something is. It never catches up on time
 * that it lost, and sets nothing to wait while the door is shut or what waits already does not get through.
 */
export type Sight = Readonly<{
  /** The destination lets nothing in: paused, held, or its circuit is not closed. */
  shut: boolean;
  /** Attempts of the last minutes, live traffic's included, and those of them that failed. */
  attempts: number;
  failures: number;
  /** Deliveries that wait for the destination, whoever made them wait. */
  waiting: number;
  /** How the replay's own deliveries have ended so far. */
  delivered: number;
  failed: number;
}>;

/** `stuck`: nothing is to be set to wait now. */
export type Health = "stable" | "doubtful" | "stuck";

/** A step of a replay: so many deliveries, and the next step after so long. */
export type Step = Readonly<{ portion: number; waitMs: number }>;

const DOUBLES_IN_MS = 300_000;
const HALVES_IN_MS = 60_000;
/** The pace stays between a tenth and ten times the rate asked for. */
const RANGE = 10;
/** A pause between two steps, a restart or a night count as this much at most. */
const LONGEST_MS = 60_000;
/** Steps are about this long, so that a minute's portion does not come at once. */
const STEP_MS = 10_000;
const LARGEST_PORTION = 1_000;
/** More failures than this share of the attempts are a sign of trouble. */
const TOLERATED = 0.1;
/** So many ends say something about how a replay goes. */
const TELLING = 20;

export function healthOf(sight: Sight, pace: number): Health {
  if (sight.shut || sight.waiting >= Math.max(1, pace)) return "stuck";
  const failing = sight.failures > sight.attempts * TOLERATED;
  const rejected = sight.failed > sight.delivered && sight.failed + sight.delivered >= TELLING;
  return failing || rejected ? "doubtful" : "stable";
}

/**
 * The pace after `elapsedMs` more of this health, in deliveries per minute.
 * @param asked the rate that the replay was created with, per minute
 */
export function nextPace(pace: number, health: Health, asked: number, elapsedMs: number): number {
  const elapsed = Math.min(Math.max(0, elapsedMs), LONGEST_MS);
  const factor = health === "stable" ? 2 ** (elapsed / DOUBLES_IN_MS) : 0.5 ** (elapsed / HALVES_IN_MS);
  return Math.min(asked * RANGE, Math.max(asked / RANGE, pace * factor));
}

/** The step to make at this pace. Whatever its portion, the rate is held: the next step comes later. */
export function stepAt(pace: number, health: Health): Step {
  if (health === "stuck") return { portion: 0, waitMs: STEP_MS };
  const portion = Math.min(LARGEST_PORTION, Math.max(1, Math.floor((pace * STEP_MS) / 60_000)));
  return { portion, waitMs: Math.ceil((portion * 60_000) / pace) };
}
