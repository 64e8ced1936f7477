/**
 * The metric families of `/metrics`, read at once and bounded.
 *
 * A destination's id is the only label whose values grow, and there are at most as many ids as gates are queried;
 * results, numbers and bounds are fixed. Counters only grow, as long as a gate keeps its state.
 */

import { isStalled } from "../../core/alerts.ts";
import {
  type Counters,
  DELAY_BOUNDS_MS,
  emptyCounters,
  LATENCY_BOUNDS_MS,
  type Rates,
  ratesOf,
} from "../../core/metrics.ts";
import { results } from "../../core/retry/classify.ts";
import type { StatsWindow } from "../../core/rollups.ts";
import { isPolled } from "../../delivery/kinds/sending.ts";
import type { Services } from "../../services.ts";
import { allOf } from "../../store/databases.ts";
import { countBehind } from "../../store/inbox.ts";
import {
  AGES_COUNTED,
  RETRIES_COUNTED,
  readSystemHealth,
  retryingForADay,
  type SystemHealth,
} from "../../store/stats.ts";
import { UNREADABLE_COUNTED } from "../../store/unreadable.ts";
import type { GroupStateJson } from "../groups/schema.ts";
import { groupsWithState } from "../groups/service.ts";
import { type ConsumerLag, lagsOf } from "../polling/lag.ts";
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

/** Labels of attempts by their number, as `ATTEMPT_BOUNDS` divides them. */
export const ATTEMPT_NUMBERS = ["1", "2", "3", "4", "5", "6-10", "11+"] as const;

const CIRCUIT_VALUES = { closed: 0, half_open: 1, open: 2 } as const;

/** The state of each is a call. */
const GROUPS_SHOWN = 50;
/** Polled destinations whose consumers are shown: each is a call and a query of every database. */
const INBOXES_SHOWN = 20;
const INBOX_QUERIES = 200;
/** Consumers of a destination that are shown, the furthest behind first: they have names that their owners choose. */
const CONSUMERS_SHOWN = 5;
/** Newest packs of a destination in which events are counted. */
const LAG_PACKS = 100;

const EXPOSED_WINDOWS: readonly StatsWindow[] = ["15m", "1h", "24h"];

/** Reads everything that `/metrics` exposes. */
export async function scrape(services: Services): Promise<Family[]> {
  const now = services.now();
  const [fleet, system, old, backlogs, groups] = await Promise.all([
    readFleet(services, {}, { windows: EXPOSED_WINDOWS, series: false }),
    readSystemHealth(services),
    retryingForADay(services, {}, now),
    queueBacklogs(services),
    groupsWithState(services, { after: undefined, limit: GROUPS_SHOWN }),
  ]);
  const consumers = await consumersSeen(services, fleet);
  return familiesOf(fleet, { system, retryingForADay: old, backlogs, groups, consumers }, now);
}

type ConsumerSeen = ConsumerLag & Readonly<{ events: number }>;

/** The consumers of some of the polled destinations that are shown. */
async function consumersSeen(services: Services, { seen }: Fleet): Promise<readonly ConsumerSeen[]> {
  const most = Math.min(INBOXES_SHOWN, Math.floor(INBOX_QUERIES / allOf(services).length));
  const rows = seen.map(({ row }) => row).filter(isPolled);
  const lags = await lagsOf(services, rows.slice(0, most));
  const shown = [...Map.groupBy(lags, ({ destination }) => destination.id)].map(([id, own]) => ({
    id,
    own: own.toSorted((a, b) => b.lagMs - a.lagMs).slice(0, CONSUMERS_SHOWN),
  }));
  const counted = await Promise.all(
    shown.map(async ({ id, own }) => {
      const positions = own.map(({ consumer }) => consumer.position);
      const behind = await countBehind(services, id, positions, LAG_PACKS);
      return own.map((one, i) => {
        const { late, returned } = one.consumer;
        return { ...one, events: (behind[i]?.events ?? 0) + late + returned };
      });
    }),
  );
  return counted.flat();
}

type Health = Readonly<{
  system: SystemHealth;
  retryingForADay: number;
  backlogs: readonly QueueBacklog[];
  groups: readonly GroupStateJson[];
  consumers: readonly ConsumerSeen[];
}>;

export function familiesOf(fleet: Fleet, health: Health, now: number): Family[] {
  return [
    ...windowFamilies(fleet),
    ...destinationCounters(fleet),
    ...destinationGauges(fleet),
    ...sweepFamilies(health, now),
    ...queueFamilies(health, now),
    ...databaseFamilies(health),
    ...coverageFamilies(fleet),
    ...groupFamilies(health),
    ...consumerFamilies(health, now),
  ];
}

/** Only where there are consumers. */
function consumerFamilies({ consumers }: Health, now: number): Family[] {
  if (consumers.length === 0) return [];
  const each = (value: (seen: ConsumerSeen) => number | null) =>
    consumers.map((seen) => ({
      labels: { destination: seen.destination.id, consumer: seen.consumer.name },
      value: value(seen),
    }));
  return [
    gauge(
      "consumer_lag_seconds",
      "For how long the oldest event that a consumer of a polled destination has not committed could be fetched.",
      each(({ lagMs }) => lagMs / 1000),
    ),
    gauge(
      "consumer_lag_events",
      `Events that the consumer has not committed, of the ${LAG_PACKS} newest bundles with one for its destination.`,
      each(({ events }) => events),
    ),
    gauge(
      "consumer_last_fetch_seconds",
      "Time since the consumer last fetched, accurate to the minute.",
      each(({ consumer: { fetchedAt } }) =>
        fetchedAt === null ? null : Math.max(0, now - fetchedAt) / 1000,
      ),
    ),
  ];
}

/** Only where there are groups. */
function groupFamilies({ groups }: Health): Family[] {
  if (groups.length === 0) return [];
  const of = (value: (group: GroupStateJson["state"] & object) => number) =>
    groups.flatMap(({ name, state }) => (state ? [{ labels: { group: name }, value: value(state) }] : []));
  return [
    gauge(
      "group_circuit_state",
      "Circuit of a group of destinations that share a receiver: 0 closed, 1 half-open, 2 open.",
      of(({ circuit }) => CIRCUIT_VALUES[circuit]),
    ),
    gauge(
      "group_waiting_members",
      "Destinations that wait for their turn in the group.",
      of(({ waiting }) => waiting),
    ),
  ];
}

/** The figures that have thresholds, over all destinations: computed here, so that an alert needs no history of its own. */
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
      "First attempts in the window, of the destinations that its figures are estimated from.",
      sums.map(({ window, sum }) => ({ labels: { window }, value: sum.attempts[0] ?? 0 })),
    ),
    gauge(
      "retry_rate",
      "Share of first attempts that had to be retried.",
      of((r) => r.retryRate),
    ),
    gauge(
      "dead_letter_rate",
      "Share of ended deliveries that ended dead.",
      of((r) => r.deadRate),
    ),
    gauge(
      "mean_attempts_to_success",
      "Mean number of attempts of a delivered delivery.",
      of((r) => r.meanAttemptsToSuccess),
    ),
    gauge(
      "second_attempt_success_rate",
      "Share of second attempts that delivered.",
      of((r) => r.secondAttemptSuccess),
    ),
    gauge(
      "non_2xx_rate",
      "Share of attempts answered with another status than 2xx.",
      of((r) => r.non2xxRate),
    ),
    gauge(
      "timeout_rate",
      "Share of attempts that timed out.",
      of((r) => r.timeoutRate),
    ),
    gauge(
      "latency_seconds",
      "Duration of attempts: median and 95th percentile.",
      quantiles(
        (r) => r.latencyP50Ms,
        (r) => r.latencyP95Ms,
      ),
    ),
    gauge(
      "start_delay_seconds",
      "Delay from the time an attempt was due to its start: median and 95th percentile.",
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

function destinationCounters({ seen }: Fleet): Family[] {
  const each = (pick: (one: Reached) => number) =>
    samplesOf(seen, (one, labels) => [{ labels, value: pick(one) }]);
  return [
    counter("attempts_total", "Attempts by result.", samplesOf(seen, byResult)),
    counter("attempts_by_number_total", "Attempts by attempt number.", samplesOf(seen, byNumber)),
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
    histogram("attempt_duration_seconds", "Duration of attempts.", samplesOf(seen, latency)),
    histogram(
      "queue_delay_seconds",
      "Delay from the time an attempt was due to its start.",
      samplesOf(seen, delay),
    ),
  ];
}

function destinationGauges({ seen }: Fleet): Family[] {
  const each = (pick: (one: Reached) => number) =>
    samplesOf(seen, (one, labels) => [{ labels, value: pick(one) }]);
  const depth = (pick: (one: Seen) => number) =>
    seen.map((one) => ({ labels: { destination: one.row.id }, value: pick(one) }));
  return [
    gauge(
      "waiting_deliveries",
      `Deliveries waiting until the gate admits them, ${COUNTED} at most.`,
      depth(({ depth }) => depth.waiting),
    ),
    gauge(
      "dead_letters",
      `Dead deliveries that are kept, ${COUNTED} at most.`,
      depth(({ depth }) => depth.dead),
    ),
    gauge(
      "retrying_deliveries",
      `Deliveries with a retry due later, among the ${RETRIES_COUNTED} in all that are due first.`,
      depth(({ depth }) => depth.retrying),
    ),
    gauge(
      "storm_ratio",
      "Retries for each first attempt, over 15 minutes.",
      each(({ figures }) => ratesOf(lastQuarter(figures)).retryRatio),
    ),
    gauge(
      "storm",
      "1 during a retry storm: a ratio above 5 with more than 100 retries.",
      each(({ figures }) => Number(figures.view.traffic.storm)),
    ),
    gauge(
      "circuit_state",
      "0 closed, 1 half-open, 2 open.",
      each(({ figures }) => CIRCUIT_VALUES[figures.view.circuit]),
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

/** A destination whose gate has answered. */
type Reached = Seen & Readonly<{ figures: NonNullable<Seen["figures"]> }>;

function samplesOf(seen: Fleet["seen"], pick: (one: Reached, labels: Labels) => readonly Sample[]): Sample[] {
  return seen.flatMap((one) => {
    const { figures } = one;
    return figures ? pick({ ...one, figures }, { destination: one.row.id }) : [];
  });
}

function lastQuarter({ windows }: Reached["figures"]): Counters {
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

function sweepFamilies({ system, retryingForADay }: Health, now: number): Family[] {
  const { heartbeatAt, oldestDueAt, keyed, deduplicated } = system;
  const one = (value: number | null) => [{ value }];
  return [
    gauge(
      "sweep_heartbeat_age_seconds",
      "Time since the sweep's last heartbeat: about a minute.",
      one(heartbeatAt === null ? null : (now - heartbeatAt) / 1000),
    ),
    gauge(
      "sweep_stalled",
      "1 while the sweep's heartbeat is more than five minutes old.",
      one(Number(isStalled(heartbeatAt, now))),
    ),
    gauge(
      "oldest_due_seconds",
      "How long the retry that was due first is overdue; 0 when none is.",
      one(oldestDueAt === null ? 0 : Math.max(0, now - oldestDueAt) / 1000),
    ),
    gauge(
      "retrying_for_a_day",
      `Attempted deliveries that have not ended a day after their event, of the first ${AGES_COUNTED} retrying and waiting ones each.`,
      one(retryingForADay),
    ),
    counter(
      "deduplicated_total",
      "Requests that were answered from their Idempotency-Key.",
      one(deduplicated),
    ),
    counter(
      "keyed_requests_total",
      "Answered requests with an Idempotency-Key, repeats included; new ones are counted once a minute.",
      one(keyed + deduplicated),
    ),
  ];
}

function queueFamilies({ backlogs }: Health, now: number): Family[] {
  const each = (pick: (backlog: QueueBacklog) => number | null) =>
    backlogs.map((backlog) => ({ labels: { queue: backlog.queue }, value: pick(backlog) }));
  return [
    gauge(
      "queue_messages",
      "Messages in the queue, delayed retries included.",
      each(({ messages }) => messages),
    ),
    gauge(
      "queue_oldest_seconds",
      "Age of the oldest message in the queue.",
      each(({ oldestAt }) => (oldestAt === null ? null : Math.max(0, now - oldestAt) / 1000)),
    ),
  ];
}

function databaseFamilies({ system: { databases, unreadable } }: Health): Family[] {
  const each = (pick: (database: SystemHealth["databases"][number]) => number) =>
    databases.map((database) => ({ labels: { database: database.name }, value: pick(database) }));
  return [
    gauge(
      "database_bytes",
      "Size of the database.",
      each(({ bytes }) => bytes),
    ),
    gauge(
      "database_headroom_bytes",
      "How much the database may still grow.",
      each(({ headroomBytes }) => headroomBytes),
    ),
    gauge(
      "unreadable_bundles",
      `Bundles that jobs pass over because they cannot be read, ${UNREADABLE_COUNTED} at most.`,
      [{ value: unreadable }],
    ),
  ];
}

/** Which destinations the figures are of. */
function coverageFamilies({ seen, sampled, total, unreachable }: Fleet): Family[] {
  return [
    gauge("destinations", "Number of destinations; of more than 10000, an estimate.", [{ value: total }]),
    gauge("destinations_left_out", "Destinations that these metrics do not name.", [
      { value: Math.max(0, total - seen.length) },
    ]),
    gauge(
      "destinations_sampled",
      "Random destinations that the figures of a window are estimated from; 0 when they are of all.",
      [{ value: sampled === seen ? 0 : sampled.length }],
    ),
    gauge("gates_unreachable", "Gates that were queried and did not answer.", [{ value: unreachable }]),
  ];
}
