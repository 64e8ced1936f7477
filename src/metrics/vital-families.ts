/** How the machinery itself is doing: the sweep, the queues, the database, and what these figures leave out. */
import { isStalled } from "../policy/stall.ts";
import { AGES_COUNTED } from "../store/retries.ts";
import type { SystemHealth } from "../store/vitals.ts";
import type { Family } from "./exposition.ts";
import { counter, gauge } from "./family.ts";
import type { Fleet } from "./fleet.ts";
import type { QueueBacklog } from "./queue-backlog.ts";

export type Health = Readonly<{
  vitals: SystemHealth;
  retryingForADay: number;
  backlogs: readonly QueueBacklog[];
}>;

export function vitalFamilies({ vitals, retryingForADay, backlogs }: Health, now: number): Family[] {
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
export function coverageFamilies({ seen, sampled, total, unreachable }: Fleet): Family[] {
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
