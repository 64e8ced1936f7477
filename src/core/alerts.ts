/**
 * Notifications of operators and owners: alerts about a destination, the digest of its dead letters, thresholds over
 * all destinations, and a sweep that has stalled.
 *
 * Alert state and digest are part of the gate's state, so that they cost no row. A flapping circuit does not cause an
 * alert for every change: a problem is published at once, the same problem again only after a while, and its end
 * whenever its beginning was.
 */
import type { DestinationState } from "./destination-state.ts";
import { type Counters, ratesOf } from "./metrics.ts";
import { isCalm, MINUTE_MS, type Traffic, trafficSum } from "./rollups.ts";

/** Whether a problem is active, as last published, and when its beginning was last published (epoch ms; 0: never). */
type Problem = Readonly<{ isActive: boolean; notifiedAt: number }>;

export type AlertState = Readonly<{ open: Problem; storm: Problem }>;

export type Alert = "circuit_opened" | "circuit_closed" | "storm_detected" | "recovered";

export const noAlerts: AlertState = {
  open: { isActive: false, notifiedAt: 0 },
  storm: { isActive: false, notifiedAt: 0 },
};

/** The least time between two alerts of the same kind. A storm is judged over 15 minutes. */
const CIRCUIT_INTERVAL_MS = 60_000;
const STORM_INTERVAL_MS = 15 * 60_000;

/**
 * The alerts to publish now. One that comes too early for its interval is published with a later settlement.
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
  const isStorm = sum.storm || (alertState.storm.isActive && (isOpen || !isCalm(sum)));
  const open = problemAfter(alertState.open, isOpen, CIRCUIT_INTERVAL_MS, now);
  const storm = problemAfter(alertState.storm, isStorm, STORM_INTERVAL_MS, now);
  const alerts = [
    ...alertOf(alertState.open, open, "circuit_opened", "circuit_closed"),
    ...alertOf(alertState.storm, storm, "storm_detected", "recovered"),
  ];
  return { alertState: { open, storm }, alerts };
}

function problemAfter(published: Problem, isActive: boolean, intervalMs: number, now: number): Problem {
  if (isActive === published.isActive) return published;
  if (!isActive) return { ...published, isActive };
  // A time in the future comes from a clock that was wrong.
  const isSoon = published.notifiedAt <= now && now - published.notifiedAt < intervalMs;
  return isSoon ? published : { isActive, notifiedAt: now };
}

function alertOf(before: Problem, after: Problem, began: Alert, ended: Alert): Alert[] {
  if (after.isActive === before.isActive) return [];
  return [after.isActive ? began : ended];
}

/**
 * The dead deliveries of a destination that are not published yet: counted, and published together. The first of them
 * schedules the digest for a minute later; it includes what dies meanwhile.
 */
export type DeadLetterDigest = Readonly<{
  dead: number;
  /** When the first of them died, epoch ms; 0 while there are none. */
  since: number;
  /** When the digest was last scheduled, epoch ms; 0 when it is not. */
  sentAt: number;
}>;

export const emptyDigest: DeadLetterDigest = { dead: 0, since: 0, sentAt: 0 };

/** How long a digest collects. */
export const DIGEST_MS = 60_000;
/** The age from which a scheduled digest counts as lost. */
const LOST_MS = 3 * DIGEST_MS;

/** Counts further dead deliveries. Returns whether to schedule the digest, which is then noted as scheduled. */
export function digestAfter(
  deadLetterDigest: DeadLetterDigest,
  dead: number,
  now: number,
): Readonly<{ deadLetterDigest: DeadLetterDigest; isDue: boolean }> {
  if (dead === 0) return { deadLetterDigest, isDue: false };
  const { sentAt, since } = deadLetterDigest;
  const isScheduled = sentAt > 0 && sentAt <= now && now - sentAt < LOST_MS;
  const counted = { dead: deadLetterDigest.dead + dead, since: since || now };
  return { deadLetterDigest: { ...counted, sentAt: isScheduled ? sentAt : now }, isDue: !isScheduled };
}

/** Marks this many of those that died since then as published; the rest are a separate digest. Safe to repeat. */
export function afterDigestSent(
  deadLetterDigest: DeadLetterDigest,
  { dead, since }: Pick<DeadLetterDigest, "dead" | "since">,
  now: number,
): Readonly<{ deadLetterDigest: DeadLetterDigest; isDue: boolean }> {
  if (deadLetterDigest.since !== since) return { deadLetterDigest, isDue: false };
  return digestAfter(emptyDigest, Math.max(0, deadLetterDigest.dead - dead), now);
}

/** One destination's part in the figures that have thresholds. */
export type WatchedDestination = Readonly<{
  id: string;
  hour: Counters;
  /** Deliveries that wait or retry. */
  backlog: number;
  /** Whether `backlog` was not counted to its end. */
  isBacklogCut?: boolean;
  isPaused: boolean;
  /** Absent where it was not counted. */
  retryingForADay?: number;
}>;

/** Backlogs by destination, at one time. */
export type Backlogs = Readonly<Record<string, number>>;

/** The backlogs that were found at `at`, epoch ms. */
export type BacklogSnapshot = Readonly<{ at: number; backlogs: Backlogs }>;

/** The number of destinations that the rates are computed from. */
type Coverage = Readonly<{ total: number; queried: number; unreachable: number }>;

export type WatchedSums = Readonly<{
  /** Sums over the checked destinations. */
  hour: Counters;
  day: Counters;
  coverage?: Coverage;
  /** Deliveries that were attempted and have not ended a day after their event. */
  retryingForADay: number;
  destinations: readonly WatchedDestination[];
  /** Absent without a snapshot from then. A destination that is missing in it is not judged for growth. */
  aQuarterAgo?: Backlogs | undefined;
  halfAnHourAgo?: Backlogs | undefined;
}>;

/** A figure beyond its threshold, and the destinations with the largest part in it, largest first. */
export type Crossing = Readonly<{
  threshold: Threshold;
  value: number;
  limit: number;
  window: "30m" | "1h" | "now";
  destinations: readonly string[];
  /** Absent if the figure is about all destinations. */
  coverage?: Coverage | undefined;
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

type Threshold = (typeof thresholds)[number];

export const RETRYING_FOR_A_DAY = 100;
/** How much a backlog may grow in half an hour: by this number, or by this share of its former size. */
const GAINED = 100;
const GAINED_SHARE = 0.2;

/** The least total from which a share is judged. */
const ENOUGH = 100;
const ENOUGH_SECONDS = 20;
const ENOUGH_DEAD = 20;

/** Destinations named in one crossing. */
const NAMED = 5;

type Part = (destination: WatchedDestination) => number;

type Rates = ReturnType<typeof ratesOf>;

type Figure = Readonly<{
  /**
   * Null if there is too little data.
   * @param rates of the hour
   */
  value: (watched: WatchedSums, rates: Rates) => number | null;
  limit: number | ((watched: WatchedSums) => number);
  isLeast?: true;
  window: "1h" | "now";
  /** A destination's part in it. */
  part: Part;
}>;

/** The figures that are judged over all destinations and the last hour. */
const figures: Readonly<Record<Exclude<Threshold, "backlog_growth">, Figure>> = {
  retry_rate: {
    value: ({ hour }, rates) => ((hour.attempts[0] ?? 0) >= ENOUGH ? rates.retryRate : null),
    limit: 0.1,
    window: "1h",
    part: ({ hour }) => hour.firstsAgain,
  },
  dead_letter_rate: {
    value: ({ hour }, rates) => (hour.delivered + hour.dead >= ENOUGH ? rates.deadRate : null),
    limit: 0.01,
    window: "1h",
    part: ({ hour }) => hour.dead,
  },
  mean_attempts_to_success: {
    value: ({ hour }, rates) => (hour.delivered >= ENOUGH ? rates.meanAttemptsToSuccess : null),
    limit: 2,
    window: "1h",
    part: ({ hour }) => hour.attemptsToSuccess - hour.delivered,
  },
  second_attempt_success_rate: {
    value: ({ hour }, rates) =>
      (hour.attempts[1] ?? 0) >= ENOUGH_SECONDS ? rates.secondAttemptSuccess : null,
    limit: 0.6,
    isLeast: true,
    window: "1h",
    part: ({ hour }) => (hour.attempts[1] ?? 0) - hour.secondsDelivered,
  },
  dead_letter_growth: {
    value: ({ hour }) => (hour.dead >= ENOUGH_DEAD ? hour.dead : null),
    // Three times those of a mean hour of the day.
    limit: ({ day }) => Math.round((day.dead / 24) * 3 * 100) / 100,
    window: "1h",
    part: ({ hour }) => hour.dead,
  },
  retrying_for_a_day: {
    value: ({ retryingForADay }) => retryingForADay,
    limit: RETRYING_FOR_A_DAY,
    window: "now",
    part: ({ retryingForADay = 0 }) => retryingForADay,
  },
};

/** The thresholds that are crossed, in the order in which they are listed. */
export function crossings(watched: WatchedSums): Crossing[] {
  const { destinations, coverage } = watched;
  const rates = ratesOf(watched.hour);
  const crossed = Object.entries(figures).flatMap(([threshold, { value, limit, isLeast, window, part }]) => {
    const [found, bound] = [value(watched, rates), typeof limit === "number" ? limit : limit(watched)];
    if (found === null || (isLeast ? found >= bound : found <= bound)) return [];
    const named = { destinations: most(destinations, part), ...(window === "1h" && { coverage }) };
    return [{ threshold: threshold as Threshold, value: rounded(found), limit: bound, window, ...named }];
  });
  return [...crossed, ...backlogGrowth(watched)];
}

/** The destinations with the largest parts in each figure: enough of them to name those of any crossing. */
export function foremost(destinations: readonly WatchedDestination[]): WatchedDestination[] {
  const named = new Set(Object.values(figures).flatMap(({ part }) => most(destinations, part)));
  return destinations.filter(({ id }) => named.has(id));
}

function most(destinations: readonly WatchedDestination[], part: Part): string[] {
  return destinations
    .filter((destination) => part(destination) > 0)
    .sort((a, b) => part(b) - part(a))
    .slice(0, NAMED)
    .map(({ id }) => id);
}

/**
 * Growing backlogs: larger than half an hour ago by a hundred and by a fifth, and larger at each snapshot since. A
 * sudden backlog may be a burst, a constantly large one is reported elsewhere, and the one of a paused destination is
 * expected to grow.
 */
function backlogGrowth({ destinations, aQuarterAgo, halfAnHourAgo }: WatchedSums): Crossing[] {
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

/** How far a snapshot may be from its nominal time: less than half the interval between two. */
const NEAR_MS = 7 * MINUTE_MS;

/** The snapshot of about this many minutes ago; undefined when there is none. */
export function snapshotAgo(
  snapshots: readonly BacklogSnapshot[],
  now: number,
  minutes: number,
): Backlogs | undefined {
  const distance = ({ at }: BacklogSnapshot) => Math.abs(now - minutes * MINUTE_MS - at);
  const [nearest] = snapshots.toSorted((a, b) => distance(a) - distance(b));
  return nearest && distance(nearest) <= NEAR_MS ? nearest.backlogs : undefined;
}

function rounded(value: number): number {
  return Math.round(value * 10_000) / 10_000;
}

/** The sweep runs every minute; one that takes long or fails once is not a stall. */
const STALLED_AFTER_MS = 5 * 60_000;

/** @param heartbeatAt when a sweep last completed, epoch ms; null before the first, which is not a stall yet */
export function isStalled(heartbeatAt: number | null, now: number): heartbeatAt is number {
  return heartbeatAt !== null && now - heartbeatAt > STALLED_AFTER_MS;
}
