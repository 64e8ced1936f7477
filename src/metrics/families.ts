/** Everything that /metrics says, read at once and bounded. */

import { isStalled } from "../core/alerts.ts";
import {
  type Counters,
  DELAY_BOUNDS_MS,
  emptyCounters,
  LATENCY_BOUNDS_MS,
  type Rates,
  ratesOf,
  results,
} from "../core/metrics.ts";
import type { StatsWindow } from "../core/rollups.ts";
import {
  AGES_COUNTED,
  RETRIES_COUNTED,
  readSystemHealth,
  retryingForADay,
  type SystemHealth,
} from "../db/stats.ts";
import type { Services } from "../services.ts";
import {
  counter,
  type Family,
  gauge,
  histogram,
  histogramSamples,
  type Labels,
  type Sample,
} from "./exposition.ts";
import {
  COUNTED,
  type Fleet,
  fleetSum,
  type QueueBacklog,
  queueBacklogs,
  readFleet,
  type Seen,
} from "./fleet.ts";

// §§ What is exposed of each destination. Its id is the only label that grows, and at most as many ids appear
// as gates are asked; results, numbers and bounds are fixed. Counters only grow, as long as a gate lives.

/** Attempts by their number, as `ATTEMPT_BOUNDS` divides them. */
export const ATTEMPT_NUMBERS = ["1", "2", "3", "4", "5", "6-10", "11+"] as const;

const circuits = { closed: 0, half_open: 1, open: 2 } as const;

function destinationFamilies({ seen }: Fleet): Family[] {
  const of = (samplesOf: (one: Reached, labels: Labels) => readonly Sample[]) =>
    seen.flatMap((one) => {
      const { figures } = one;
      return figures ? samplesOf({ ...one, figures }, { destination: one.row.id }) : [];
    });
  const each = (pick: (one: Reached) => number) => of((one, labels) => [{ labels, value: pick(one) }]);
  const depth = (pick: (one: Seen) => number) =>
    seen.map((one) => ({ labels: { destination: one.row.id }, value: pick(one) }));
  return [
    counter("attempts_total", "Attempts, by what they came to.", of(byResult)),
    counter(
      "attempts_by_number_total",
      "Attempts, by the how manieth of its delivery each was.",
      of(byNumber),
    ),
    counter(
      "delivered_total",
      "Deliveries that ended delivered.",
      each(({ figures }) => figures.ever.delivered),
    ),
    counter(
      "dead_total",
      "Deliveries that ended dead, with or without an attempt.",
      each(({ figures }) => figures.ever.dead),
    ),
    histogram("attempt_duration_seconds", "How long attempts took.", of(latency)),
    histogram("queue_delay_seconds", "How long after their time attempts started.", of(delay)),
    gauge(
      "waiting_deliveries",
      `Deliveries held at the door, ${COUNTED} at most.`,
      depth(({ depth }) => depth.waiting),
    ),
    gauge(
      "dead_letters",
      `Dead deliveries that are kept, ${COUNTED} at most.`,
      depth(({ depth }) => depth.dead),
    ),
    gauge(
      "retrying_deliveries",
      `Deliveries to be tried again, of the ${RETRIES_COUNTED} in all that are due first.`,
      depth(({ depth }) => depth.retrying),
    ),
    gauge(
      "storm_ratio",
      "Retries for each first attempt, over 15 minutes.",
      each(({ figures }) => ratesOf(quarter(figures)).retryRatio),
    ),
    gauge(
      "storm",
      "1 while there is a retry storm: a ratio above 5 with more than 100 retries.",
      each(({ figures }) => Number(figures.view.traffic.storm)),
    ),
    gauge(
      "circuit_state",
      "0 closed, 1 half-open, 2 open.",
      each(({ figures }) => circuits[figures.view.circuit]),
    ),
    gauge(
      "in_flight",
      "Connections under lease.",
      each(({ figures }) => figures.view.inFlight),
    ),
    gauge(
      "paused",
      "1 while the destination is paused.",
      depth(({ row }) => Number(row.status === "paused")),
    ),
  ];
}

type Reached = Seen & Readonly<{ figures: NonNullable<Seen["figures"]> }>;

function quarter({ windows }: Reached["figures"]): Counters {
  return windows["15m"]?.sum ?? emptyCounters(0);
}

function byResult({ figures }: Reached, labels: Labels): Sample[] {
  return results.map((result, i) => ({ labels: { ...labels, result }, value: figures.ever.results[i] ?? 0 }));
}

function byNumber({ figures }: Reached, labels: Labels): Sample[] {
  return ATTEMPT_NUMBERS.map((number, i) => ({
    labels: { ...labels, number },
    value: figures.ever.attempts[i] ?? 0,
  }));
}

function latency({ figures: { ever } }: Reached, labels: Labels): Sample[] {
  return histogramSamples(labels, ever.latency, LATENCY_BOUNDS_MS, ever.latencyMs);
}

function delay({ figures: { ever } }: Reached, labels: Labels): Sample[] {
  return histogramSamples(labels, ever.delay, DELAY_BOUNDS_MS, ever.delayMs);
}

// §§ How the machinery itself is doing: the sweep, the queues, the database, and what these figures leave out.

type Health = Readonly<{
  vitals: SystemHealth;
  retryingForADay: number;
  backlogs: readonly QueueBacklog[];
}>;

function vitalFamilies({ vitals, retryingForADay, backlogs }: Health, now: number): Family[] {
  const { heartbeatAt, oldestDueAt } = vitals;
  const ofQueues = (pick: (backlog: QueueBacklog) => number | null) =>
    backlogs.map((backlog) => ({ labels: { queue: backlog.queue }, value: pick(backlog) }));
  const ofDatabases = (pick: (database: SystemHealth["databases"][number]) => number) =>
    vitals.databases.map((database) => ({ labels: { database: database.name }, value: pick(database) }));
  const one = (value: number | null) => [{ value }];
  return [
    gauge(
      "sweep_heartbeat_age_seconds",
      "Since a sweep last got through: about a minute.",
      one(heartbeatAt === null ? null : (now - heartbeatAt) / 1000),
    ),
    gauge(
      "sweep_stalled",
      "1 while the sweep has been silent for more than five minutes.",
      one(Number(isStalled(heartbeatAt, now))),
    ),
    gauge(
      "oldest_due_seconds",
      "How long the retry that was due first is overdue; 0 when none is.",
      one(oldestDueAt === null ? 0 : Math.max(0, now - oldestDueAt) / 1000),
    ),
    gauge(
      "retrying_for_a_day",
      `Attempted deliveries that are not over a day after their event, of the first ${AGES_COUNTED} retrying and waiting ones each.`,
      one(retryingForADay),
    ),
    counter(
      "deduplicated_total",
      "Requests that were answered from what had been stored before.",
      one(vitals.deduplicated),
    ),
    counter(
      "keyed_requests_total",
      "Requests with an Idempotency-Key that were answered, repeats among them; new ones are counted once a minute.",
      one(vitals.keyed + vitals.deduplicated),
    ),
    gauge(
      "queue_messages",
      "Messages in the queue, delayed retries included.",
      ofQueues(({ messages }) => messages),
    ),
    gauge(
      "queue_oldest_seconds",
      "Age of the oldest message in the queue.",
      ofQueues(({ oldestAt }) => (oldestAt === null ? null : Math.max(0, now - oldestAt) / 1000)),
    ),
    gauge(
      "database_bytes",
      "The size of the database.",
      ofDatabases(({ bytes }) => bytes),
    ),
    gauge(
      "database_headroom_bytes",
      "What the database may still grow by.",
      ofDatabases(({ headroomBytes }) => headroomBytes),
    ),
  ];
}

/** What the figures of destinations are made of. */
function coverageFamilies({ seen, sampled, total, unreachable }: Fleet): Family[] {
  return [
    gauge("destinations", "Destinations there are, 10000 at most.", [{ value: total }]),
    gauge("destinations_left_out", "Destinations beyond those that are named in these figures.", [
      { value: Math.max(0, total - seen.length) },
    ]),
    gauge(
      "destinations_sampled",
      "Destinations, chosen by chance, that the figures of a window are estimated from; 0: they are of all.",
      [{ value: sampled === seen ? 0 : sampled.length }],
    ),
    gauge("gates_unreachable", "Gates that were asked and did not answer.", [{ value: unreachable }]),
  ];
}

// §§ The figures that have thresholds, over all destinations and three windows. They are made here, from
// counts, and not left to a query, so that an alert needs no history of its own.

const EXPOSED_WINDOWS: readonly StatsWindow[] = ["15m", "1h", "24h"];

function windowFamilies(fleet: Fleet): Family[] {
  const sums = EXPOSED_WINDOWS.map((window) => ({ window, sum: fleetSum(fleet, window) }));
  const rates = sums.map(({ window, sum }) => ({ window, rates: ratesOf(sum) }));
  const of = (pick: (rates: Rates) => number | null) =>
    rates.map(({ window, rates }) => ({ labels: { window }, value: pick(rates) }));
  const quantiles = (p50: (rates: Rates) => number | null, p95: (rates: Rates) => number | null): Sample[] =>
    rates.flatMap(({ window, rates }) => [
      { labels: { window, quantile: "0.5" }, value: seconds(p50(rates)) },
      { labels: { window, quantile: "0.95" }, value: seconds(p95(rates)) },
    ]);
  return [
    gauge(
      "first_attempts",
      "First attempts within the window.",
      sums.map(({ window, sum }) => ({ labels: { window }, value: sum.attempts[0] ?? 0 })),
    ),
    gauge(
      "retry_rate",
      "Of the first attempts, the share that had to be tried again.",
      of((r) => r.retryRate),
    ),
    gauge(
      "dead_letter_rate",
      "Of the deliveries that ended, the share that ended dead.",
      of((r) => r.deadRate),
    ),
    gauge(
      "mean_attempts_to_success",
      "Attempts that a delivered delivery had needed.",
      of((r) => r.meanAttemptsToSuccess),
    ),
    gauge(
      "second_attempt_success_rate",
      "Of the second attempts, the share that delivered.",
      of((r) => r.secondAttemptSuccess),
    ),
    gauge(
      "non_2xx_rate",
      "Of all attempts, the share that was answered, but not with a 2xx.",
      of((r) => r.non2xxRate),
    ),
    gauge(
      "timeout_rate",
      "Of all attempts, the share that was not answered in time.",
      of((r) => r.timeoutRate),
    ),
    gauge(
      "latency_seconds",
      "How long attempts took: median and 95th percentile.",
      quantiles(
        (r) => r.latencyP50Ms,
        (r) => r.latencyP95Ms,
      ),
    ),
    gauge(
      "start_delay_seconds",
      "How long after their time attempts started: median and 95th percentile.",
      quantiles(
        (r) => r.queueDelayP50Ms,
        (r) => r.queueDelayP95Ms,
      ),
    ),
  ];
}

function seconds(ms: number | null): number | null {
  return ms === null ? null : ms / 1000;
}

export async function scrape(services: Services): Promise<Family[]> {
  const now = services.now();
  const [fleet, vitals, old, backlogs] = await Promise.all([
    readFleet(services, {}, { windows: EXPOSED_WINDOWS, series: false }),
    readSystemHealth(services),
    retryingForADay(services, {}, now),
    queueBacklogs(services),
  ]);
  return familiesOf(fleet, { vitals, retryingForADay: old, backlogs }, now);
}

/** All that there is to expose, of what has been read. */
export function familiesOf(fleet: Fleet, health: Health, now: number): Family[] {
  return [
    ...windowFamilies(fleet),
    ...destinationFamilies(fleet),
    ...vitalFamilies(health, now),
    ...coverageFamilies(fleet),
  ];
}
