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
  type FleetMember,
  fleetSum,
  type QueueBacklog,
  queueBacklogs,
  readFleet,
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

/** Figures of one object, by name: the help and the value of each; null: there is no sample of it. */
type Figures<T> = Readonly<Record<string, readonly [help: string, value: (of: T) => number | null]>>;
type Labelled<T> = readonly (readonly [labels: Labels, of: T])[];

/** A family for each figure, with a sample of each object. */
function familiesFor<T>(make: typeof gauge, things: Labelled<T>, figures: Figures<T>): Family[] {
  return Object.entries(figures).map(([name, [help, value]]) => {
    const samples = things.map(([labels, of]) => ({ labels, value: value(of) }));
    return make(name, help, samples);
  });
}

/** Only where there are consumers. */
function consumerFamilies({ consumers }: Health, now: number): Family[] {
  if (consumers.length === 0) return [];
  const labelled = consumers.map((seen) => {
    const { destination, consumer } = seen;
    return [{ destination: destination.id, consumer: consumer.name }, seen] as const;
  });
  return familiesFor(gauge, labelled, {
    consumer_lag_seconds: [
      "For how long the oldest event that a consumer of a polled destination has not committed could be fetched.",
      ({ lagMs }) => lagMs / 1000,
    ],
    consumer_lag_events: [
      `Events that the consumer has not committed, of the ${LAG_PACKS} newest bundles with one for its destination.`,
      ({ events }) => events,
    ],
    consumer_last_fetch_seconds: [
      "Time since the consumer last fetched, accurate to the minute.",
      ({ consumer: { fetchedAt } }) => (fetchedAt === null ? null : Math.max(0, now - fetchedAt) / 1000),
    ],
  });
}

/** Only where there are groups. */
function groupFamilies({ groups }: Health): Family[] {
  if (groups.length === 0) return [];
  const labelled = groups.flatMap(({ name, state }) => (state ? [[{ group: name }, state] as const] : []));
  return familiesFor(gauge, labelled, {
    group_circuit_state: [
      "Circuit of a group of destinations that share a receiver: 0 closed, 1 half-open, 2 open.",
      ({ circuit }) => CIRCUIT_VALUES[circuit],
    ],
    group_waiting_members: ["Destinations that wait for their turn in the group.", ({ waiting }) => waiting],
  });
}

/** The figures that have thresholds, over all destinations: computed here, so that an alert needs no history of its own. */
function windowFamilies(fleet: Fleet): Family[] {
  const sums = EXPOSED_WINDOWS.map((window) => [{ window }, fleetSum(fleet, window)] as const);
  const rates = sums.map(([labels, sum]) => [labels, ratesOf(sum)] as const);
  const quantiles = (p50: keyof Rates, p95: keyof Rates): Sample[] =>
    rates.flatMap(([{ window }, of]) => [
      { labels: { window, quantile: "0.5" }, value: seconds(of[p50]) },
      { labels: { window, quantile: "0.95" }, value: seconds(of[p95]) },
    ]);
  return [
    ...familiesFor(gauge, sums, {
      first_attempts: [
        "First attempts in the window, of the destinations that its figures are estimated from.",
        ({ attempts }) => attempts[0] ?? 0,
      ],
    }),
    ...familiesFor(gauge, rates, {
      retry_rate: ["Share of first attempts that had to be retried.", (of) => of.retryRate],
      dead_letter_rate: ["Share of ended deliveries that ended dead.", (of) => of.deadRate],
      mean_attempts_to_success: [
        "Mean number of attempts of a delivered delivery.",
        (of) => of.meanAttemptsToSuccess,
      ],
      second_attempt_success_rate: [
        "Share of second attempts that delivered.",
        (of) => of.secondAttemptSuccess,
      ],
      non_2xx_rate: ["Share of attempts answered with another status than 2xx.", (of) => of.non2xxRate],
      timeout_rate: ["Share of attempts that timed out.", (of) => of.timeoutRate],
    }),
    gauge(
      "latency_seconds",
      "Duration of attempts: median and 95th percentile.",
      quantiles("latencyP50Ms", "latencyP95Ms"),
    ),
    gauge(
      "start_delay_seconds",
      "Delay from the time an attempt was due to its start: median and 95th percentile.",
      quantiles("queueDelayP50Ms", "queueDelayP95Ms"),
    ),
  ];
}

function seconds(ms: number | null): number | null {
  return ms === null ? null : ms / 1000;
}

function destinationCounters({ seen }: Fleet): Family[] {
  const reached = reachedOf(seen);
  const each = (samples: (ever: Counters, labels: Labels) => Sample[]) =>
    reached.flatMap(([labels, { ever }]) => samples(ever, labels));
  return [
    counter("attempts_total", "Attempts by result.", each(byResult)),
    counter("attempts_by_number_total", "Attempts by attempt number.", each(byNumber)),
    ...familiesFor(counter, reached, {
      delivered_total: ["Deliveries that ended delivered.", ({ ever }) => ever.delivered],
      dead_total: ["Deliveries that ended dead, with or without an attempt.", ({ ever }) => ever.dead],
    }),
    histogram("attempt_duration_seconds", "Duration of attempts.", each(latency)),
    histogram("queue_delay_seconds", "Delay from the time an attempt was due to its start.", each(delay)),
  ];
}

function destinationGauges({ seen }: Fleet): Family[] {
  const all = seen.map((one) => [{ destination: one.row.id }, one] as const);
  return [
    ...familiesFor(gauge, all, {
      waiting_deliveries: [
        `Deliveries waiting until the gate admits them, ${COUNTED} at most.`,
        ({ depth }) => depth.waiting,
      ],
      dead_letters: [`Dead deliveries that are kept, ${COUNTED} at most.`, ({ depth }) => depth.dead],
      retrying_deliveries: [
        `Deliveries with a retry due later, among the ${RETRIES_COUNTED} in all that are due first.`,
        ({ depth }) => depth.retrying,
      ],
    }),
    ...familiesFor(gauge, reachedOf(seen), {
      storm_ratio: [
        "Retries for each first attempt, over 15 minutes.",
        ({ windows }) => ratesOf(windows["15m"]?.sum ?? emptyCounters(0)).retryRatio,
      ],
      storm: [
        "1 during a retry storm: a ratio above 5 with more than 100 retries.",
        ({ view }) => Number(view.traffic.storm),
      ],
      circuit_state: ["0 closed, 1 half-open, 2 open.", ({ view }) => CIRCUIT_VALUES[view.circuit]],
      in_flight: ["Connections under lease.", ({ view }) => view.inFlight],
    }),
    ...familiesFor(gauge, all, {
      paused: ["1 while the destination is paused.", ({ row }) => Number(row.status === "paused")],
    }),
  ];
}

/** The figures of the destinations whose gates have answered. */
function reachedOf(seen: Fleet["seen"]): Labelled<NonNullable<FleetMember["figures"]>> {
  return seen.flatMap(({ row, figures }) => (figures ? [[{ destination: row.id }, figures] as const] : []));
}

function byResult(ever: Counters, labels: Labels): Sample[] {
  return results.map((result, i) => ({ labels: { ...labels, result }, value: ever.results[i] ?? 0 }));
}

function byNumber(ever: Counters, labels: Labels): Sample[] {
  return ATTEMPT_NUMBERS.map((number, i) => ({
    labels: { ...labels, number },
    value: ever.attempts[i] ?? 0,
  }));
}

function latency(ever: Counters, labels: Labels): Sample[] {
  return histogramSamples(labels, ever.latency, LATENCY_BOUNDS_MS, ever.latencyMs);
}

function delay(ever: Counters, labels: Labels): Sample[] {
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
  const labelled = backlogs.map((backlog) => [{ queue: backlog.queue }, backlog] as const);
  return familiesFor(gauge, labelled, {
    queue_messages: ["Messages in the queue, delayed retries included.", ({ messages }) => messages],
    queue_oldest_seconds: [
      "Age of the oldest message in the queue.",
      ({ oldestAt }) => (oldestAt === null ? null : Math.max(0, now - oldestAt) / 1000),
    ],
  });
}

function databaseFamilies({ system: { databases, unreadable } }: Health): Family[] {
  const labelled = databases.map((database) => [{ database: database.name }, database] as const);
  return [
    ...familiesFor(gauge, labelled, {
      database_bytes: ["Size of the database.", ({ bytes }) => bytes],
      database_headroom_bytes: ["How much the database may still grow.", (one) => one.headroomBytes],
    }),
    gauge(
      "unreadable_bundles",
      `Bundles that jobs pass over because they cannot be read, ${UNREADABLE_COUNTED} at most.`,
      [{ value: unreadable }],
    ),
  ];
}

/** The destinations that the figures are about. */
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
