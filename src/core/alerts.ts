/**
 * What the operator has been told of a destination, so that a door that flaps does not tell of every turn:
 * trouble is told of at once, again only after a while, and its end whenever its beginning was. Kept in the
 * gate's state, so that it costs no row.
 */
import type { DestinationState } from "./destination-state.ts";
import { type Counters, ratesOf } from "./metrics.ts";
import { isCalm, MINUTE_MS, type Traffic, trafficSum } from "./rollups.ts";

/** A trouble that lasts, as far as it has been told, and when its beginning was told last (epoch ms; 0: never). */
type Trouble = Readonly<{ lasts: boolean; toldAt: number }>;

export type AlertState = Readonly<{ open: Trouble; storm: Trouble }>;

export type Alert = "circuit_opened" | "circuit_closed" | "storm_detected" | "recovered";

export const noAlerts: AlertState = {
  open: { lasts: false, toldAt: 0 },
  storm: { lasts: false, toldAt: 0 },
};

/** From one telling of a beginning to the next. A storm is judged over 15 minutes. */
const CIRCUIT_APART_MS = 60_000;
const STORM_APART_MS = 15 * 60_000;

/**
 * What is to be told now, if anything. Whoever tells a thing too late tells it with the next settlement.
 * @param recent the last 15 minutes
 */
export function alertsAfter(
  alertState: AlertState,
  { circuit }: DestinationState,
  recent: Traffic,
  now: number,
): Readonly<{ alertState: AlertState; alerts: readonly Alert[] }> {
  const isOpen = circuit.kind !== "closed";
  const sum = trafficSum(recent);
  const storms = sum.storm || (alertState.storm.lasts && (isOpen || !isCalm(sum)));
  const open = troubleAfter(alertState.open, isOpen, CIRCUIT_APART_MS, now);
  const storm = troubleAfter(alertState.storm, storms, STORM_APART_MS, now);
  const alerts = [
    ...noticed(alertState.open, open, "circuit_opened", "circuit_closed"),
    ...noticed(alertState.storm, storm, "storm_detected", "recovered"),
  ];
  return { alertState: { open, storm }, alerts };
}

function troubleAfter(told: Trouble, lasts: boolean, apartMs: number, now: number): Trouble {
  if (lasts === told.lasts) return told;
  if (!lasts) return { ...told, lasts };
  // A time in the future is a clock's that was wrong.
  const isSoon = told.toldAt <= now && now - told.toldAt < apartMs;
  return isSoon ? told : { lasts, toldAt: now };
}

function noticed(before: Trouble, after: Trouble, began: Alert, ended: Alert): Alert[] {
  if (after.lasts === before.lasts) return [];
  return [after.lasts ? began : ended];
}

/**
 * The dead of a destination of whom nobody has been told: they are counted, and told of together. With the
 * first of them somebody is sent to ask after a minute; what dies meanwhile is in the same answer.
 */
export type DeadLetterDigest = Readonly<{
  dead: number;
  /** When the first of them died, epoch ms; 0 while there are none. */
  since: number;
  /** When somebody was last sent to ask, epoch ms; 0 when nobody is on the way. */
  sentAt: number;
}>;

export const emptyDigest: DeadLetterDigest = { dead: 0, since: 0, sentAt: 0 };

/** How long the dead are gathered. */
export const DIGEST_MS = 60_000;
/** Whoever was sent for so long ago has been lost on the way. */
const LOST_MS = 3 * DIGEST_MS;

/** More have died: whether somebody is to be sent to ask, and then the toll knows of it. */
export function digestAfter(
  deadLetterDigest: DeadLetterDigest,
  dead: number,
  now: number,
): Readonly<{ deadLetterDigest: DeadLetterDigest; isDue: boolean }> {
  if (dead === 0) return { deadLetterDigest, isDue: false };
  const isOnTheWay =
    deadLetterDigest.sentAt > 0 && deadLetterDigest.sentAt <= now && now - deadLetterDigest.sentAt < LOST_MS;
  const counted = { dead: deadLetterDigest.dead + dead, since: deadLetterDigest.since || now };
  return {
    deadLetterDigest: { ...counted, sentAt: isOnTheWay ? deadLetterDigest.sentAt : now },
    isDue: !isOnTheWay,
  };
}

/** So many, of those who have died since then, have been told of; the rest are a toll of their own. Safe to repeat. */
export function afterDigestSent(
  deadLetterDigest: DeadLetterDigest,
  { dead, since }: Pick<DeadLetterDigest, "dead" | "since">,
  now: number,
): Readonly<{ deadLetterDigest: DeadLetterDigest; isDue: boolean }> {
  if (deadLetterDigest.since !== since) return { deadLetterDigest, isDue: false };
  return digestAfter(emptyDigest, Math.max(0, deadLetterDigest.dead - dead), now);
}

// §§ The figures that have a bound beyond which somebody should look, over all destinations and the last hour. A
// share of few says nothing: each is judged only where there is enough of what it is a share of.

/** One destination, as far as it is watched. */
export type WatchedDestination = Readonly<{
  id: string;
  hour: Counters;
  /** Deliveries that wait or are to be tried again. */
  backlog: number;
  /** Whether `backlog` was not counted to its end. */
  isBacklogCut?: boolean;
  isPaused: boolean;
  /** Absent where it was not asked. */
  retryingForADay?: number;
}>;

/** Backlogs by destination, at one time. */
export type Backlogs = Readonly<Record<string, number>>;

/** The backlogs that were found at `at`, epoch ms. */
export type BacklogSnapshot = Readonly<{ at: number; backlogs: Backlogs }>;

export type Watched = Readonly<{
  hour: Counters;
  day: Counters;
  /** Deliveries that were attempted and are not over a day after their event. */
  retryingForADay: number;
  destinations: readonly WatchedDestination[];
  /** Absent where nobody looked then; without a destination's backlog, nothing is said of its growth. */
  aQuarterAgo?: Backlogs | undefined;
  halfAnHourAgo?: Backlogs | undefined;
}>;

/** A figure beyond its bound, and the destinations that have most part in it, the first the most. */
export type Crossing = Readonly<{
  threshold: Threshold;
  value: number;
  limit: number;
  window: "30m" | "1h" | "now";
  destinations: readonly string[];
}>;

export const thresholds = [
  "retry_rate",
  "dead_letter_rate",
  "mean_attempts_to_success",
  "second_attempt_success_rate",
  "dead_letter_growth",
  "retrying_for_a_day",
  "backlog_growth",
] as const;

export type Threshold = (typeof thresholds)[number];

const RETRY_RATE = 0.1;
const DEAD_RATE = 0.01;
const MEAN_ATTEMPTS = 2;
const SECOND_SUCCESS = 0.6;
export const RETRYING_FOR_A_DAY = 100;
/** So many times as many dead within the hour as in a mean hour of the day. */
const GROWTH = 3;
/** What a backlog may gain in half an hour: so many, or this share of what it was. */
const GAINED = 100;
const GAINED_SHARE = 0.2;

const ENOUGH = 100;
const ENOUGH_SECONDS = 20;
const ENOUGH_DEAD = 20;

/** Destinations named in one crossing. */
const NAMED = 5;

export function crossings(watched: Watched): Crossing[] {
  const { hour, day, retryingForADay, destinations } = watched;
  const rates = ratesOf(hour);
  const [first = 0, second = 0] = hour.attempts;
  const ended = hour.delivered + hour.dead;
  const usual = Math.round((day.dead / 24) * GROWTH * 100) / 100;
  const crossed = [
    ...above("retry_rate", first >= ENOUGH ? rates.retryRate : null, RETRY_RATE),
    ...above("dead_letter_rate", ended >= ENOUGH ? rates.deadRate : null, DEAD_RATE),
    ...above(
      "mean_attempts_to_success",
      hour.delivered >= ENOUGH ? rates.meanAttemptsToSuccess : null,
      MEAN_ATTEMPTS,
    ),
    ...below(
      "second_attempt_success_rate",
      second >= ENOUGH_SECONDS ? rates.secondAttemptSuccess : null,
      SECOND_SUCCESS,
    ),
    ...above("dead_letter_growth", hour.dead >= ENOUGH_DEAD ? hour.dead : null, usual),
    ...above("retrying_for_a_day", retryingForADay, RETRYING_FOR_A_DAY, "now"),
  ];
  const named = crossed.map((crossing) => ({
    ...crossing,
    destinations: most(destinations, parts[crossing.threshold]),
  }));
  return [...named, ...backlogGrowth(watched)];
}

type Part = (destination: WatchedDestination) => number;

/** How much of each figure is a destination's. */
const parts: Readonly<Record<Exclude<Threshold, "backlog_growth">, Part>> = {
  retry_rate: ({ hour }) => hour.firstsAgain,
  dead_letter_rate: ({ hour }) => hour.dead,
  mean_attempts_to_success: ({ hour }) => hour.attemptsToSuccess - hour.delivered,
  second_attempt_success_rate: ({ hour }) => (hour.attempts[1] ?? 0) - hour.secondsDelivered,
  dead_letter_growth: ({ hour }) => hour.dead,
  retrying_for_a_day: ({ retryingForADay = 0 }) => retryingForADay,
};

function most(destinations: readonly WatchedDestination[], part: Part): string[] {
  return destinations
    .filter((destination) => part(destination) > 0)
    .sort((a, b) => part(b) - part(a))
    .slice(0, NAMED)
    .map(({ id }) => id);
}

/**
 * Backlogs that grow: more than half an hour ago by a hundred and by a fifth, and more at each look since. What has
 * come all at once may be a burst, what is large and stays so is said elsewhere, and what is paused is meant to grow.
 */
function backlogGrowth({ destinations, aQuarterAgo, halfAnHourAgo }: Watched): Crossing[] {
  const growing = destinations.flatMap(({ id, backlog, isPaused }) => {
    const half = halfAnHourAgo?.[id];
    const quarter = aQuarterAgo?.[id];
    if (half === undefined || quarter === undefined || isPaused) return [];
    const [gained, limit] = [backlog - half, Math.max(GAINED, half * GAINED_SHARE)];
    return gained > limit && backlog > quarter && quarter > half ? [{ id, gained, limit }] : [];
  });
  growing.sort((a, b) => b.gained - a.gained);
  const [worst] = growing;
  if (worst === undefined) return [];
  const named = growing.slice(0, NAMED).map(({ id }) => id);
  const { gained: value, limit } = worst;
  return [{ threshold: "backlog_growth", value, limit: rounded(limit), window: "30m", destinations: named }];
}

/** How far a look may be from the time that it stands for: less than half of what is between two. */
const NEAR_MS = 7 * MINUTE_MS;

/** What was found about so many minutes ago; undefined when nobody looked then. */
export function snapshotAgo(
  looks: readonly BacklogSnapshot[],
  now: number,
  minutes: number,
): Backlogs | undefined {
  const distance = ({ at }: BacklogSnapshot) => Math.abs(now - minutes * MINUTE_MS - at);
  const [nearest] = looks.toSorted((a, b) => distance(a) - distance(b));
  return nearest && distance(nearest) <= NEAR_MS ? nearest.backlogs : undefined;
}

type Crossed = Readonly<{
  threshold: Exclude<Threshold, "backlog_growth">;
  value: number;
  limit: number;
  window: Crossing["window"];
}>;

function above(
  threshold: Crossed["threshold"],
  value: number | null,
  limit: number,
  window: Crossing["window"] = "1h",
): Crossed[] {
  return value !== null && value > limit ? [{ threshold, value: rounded(value), limit, window }] : [];
}

function below(threshold: Crossed["threshold"], value: number | null, limit: number): Crossed[] {
  return value !== null && value < limit ? [{ threshold, value: rounded(value), limit, window: "1h" }] : [];
}

function rounded(value: number): number {
  return Math.round(value * 10_000) / 10_000;
}

// §§ When the sweep counts as silent: it comes every minute, and one that takes long or fails once is no stall.

export const STALLED_AFTER_MS = 5 * 60_000;

/** @param heartbeatAt when a sweep last got through, epoch ms; null before the first, which is no stall yet */
export function isStalled(heartbeatAt: number | null, now: number): heartbeatAt is number {
  return heartbeatAt !== null && now - heartbeatAt > STALLED_AFTER_MS;
}
