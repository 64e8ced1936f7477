/**
 * The consumer: a batch of messages becomes attempts, outcomes and the next times.
 *
 * load → sort out → through the gate, all destinations at once, each recorded and settled as it ends → acknowledge or
 * retry.
 *
 * A batch must not last as long as its slowest receiver, because the platform adds consumers only after
 * whole batches have ended: a receiver that does not answer soon is awaited in the background.
 */
import type { BundlePart } from "../core/bundle.ts";
import type { Lane } from "../core/lease.ts";
import { type LoadedDelivery, loadDeliveries } from "../db/deliveries.ts";
import { homeOfBundle } from "../db/shards.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { logCounts, withCounts } from "./attempt-log.ts";
import { connections } from "./http.ts";
import {
  ackOrRetry,
  distinct,
  type MessageGroup,
  messageGroupFinder,
  messageGroupsOf,
  openDeliveriesOf,
  postpone,
} from "./message-group.ts";
import { type Disposition, refusedDispositions } from "./outcome.ts";
import { type BatchRun, dispatch, startBatch } from "./pipeline.ts";
import { Recorder } from "./recorder.ts";
import { triage } from "./triage.ts";

/** How long a batch goes on starting attempts, as long as answers come. */
const STARTS_MS = 5_000;
/** How long it waits for one answer: of a quick receiver twenty times as long as that usually takes, within bounds. */
const LONGEST_PATIENCE_MS = 1_000;
const SHORTEST_PATIENCE_MS = 200;
const PATIENCE_PER_MS = 20;
/** When the batch cannot be worked on at all (D1 is away): the first pause, doubled each time. */
const PAUSE_S = 5;
const LONGEST_PAUSE_S = 300;

export async function consumeDeliveries(given: Services, batch: MessageBatch): Promise<void> {
  const services = withCounts(given, "queue");
  const messageGroups = messageGroupsOf(services, batch);
  try {
    await deliverAll(services, messageGroups);
  } catch (error) {
    logFailed(services, messageGroups.length, error);
    for (const messageGroup of messageGroups) await postpone(services, messageGroup, pauseFor(messageGroup));
  } finally {
    logCounts(services);
  }
}

/** In portions, where all bodies together would be too much. */
async function deliverAll(services: Services, messageGroups: readonly MessageGroup[]): Promise<void> {
  const messageGroupOf = messageGroupFinder(messageGroups, services.now());
  const again = new Map<MessageGroup | undefined, Disposition[]>();
  const later = new Set<MessageGroup>();
  const recorder = new Recorder(services);
  let parts: readonly BundlePart[] = messageGroups.flatMap((messageGroup) => messageGroup.parts);
  while (parts.length > 0) {
    const delivered = await deliver(services, recorder, messageGroups, parts, messageGroupOf);
    for (const disposition of delivered.dispositions) {
      if (disposition.againAt === undefined) continue;
      const messageGroup = messageGroupOf(disposition.work);
      const some = again.get(messageGroup);
      if (some) some.push(disposition);
      else again.set(messageGroup, [disposition]);
    }
    for (const messageGroup of delivered.later) later.add(messageGroup);
    parts = delivered.rest;
  }
  for (const messageGroup of messageGroups) {
    if (later.has(messageGroup)) await postpone(services, messageGroup, pauseFor(messageGroup));
    else await ackOrRetry(services, messageGroup, openDeliveriesOf(again.get(messageGroup) ?? []));
  }
}

type Delivered = Readonly<{
  dispositions: readonly Disposition[];
  /** Those that must come again with all that they bring. */
  later: readonly MessageGroup[];
  /** To be delivered next. */
  rest: readonly BundlePart[];
}>;

async function deliver(
  services: Services,
  recorder: Recorder,
  messageGroups: readonly MessageGroup[],
  parts: readonly BundlePart[],
  messageGroupOf: (work: LoadedDelivery) => MessageGroup | undefined,
): Promise<Delivered> {
  const lookedUpAt = services.now();
  const { works, missing, unknown, rest } = await loadDeliveries(services, parts, {
    isDue: (row) => (row?.nextAttemptAt ?? 0) <= lookedUpAt,
    fewDueOf: broughtBefore(messageGroups),
  });
  // A retry that has got a message of its own is left to that until it is due.
  const own = distinct(works, messageGroups).filter((work) => messageGroupOf(work) !== undefined);
  const { due, dispositions: sorted } = triage(services, own, "queue");
  const groups = [...Map.groupBy(due, groupKey).values()];
  const runs = await startGroups(services, groups, lookedUpAt);
  const refused = runs.flatMap((run, i) => refusedDispositions(services, run, groups[i] ?? []));
  const also = [...sorted, ...refused];
  const { dispositions, failures } = await dispatch(services, recorder, runs, {
    also,
    ownerOf: (work) => messageGroupOf(work)?.owner,
    continues: () => false,
  });
  const unrecorded = failures.flatMap(({ batchRun }) =>
    batchRun ? (groups[runs.indexOf(batchRun)] ?? []) : also.map(({ work }) => work),
  );
  const failed = new Set(unrecorded.map(messageGroupOf));
  if (failures[0]) logFailed(services, failed.size, failures[0].error);
  const others = new Set([...logMissing(services, missing), ...unknown.map(({ bundle }) => bundle)]);
  const later = messageGroups.filter(
    (messageGroup) => failed.has(messageGroup) || messageGroup.parts.some(({ bundle }) => others.has(bundle)),
  );
  return { dispositions, later, rest };
}

/** So many messages come again, because nothing is known of what they brought. */
function logFailed({ log }: Services, messages: number, error: unknown): void {
  log({ what: "batch_failed", messages, error: faultOf(error) });
}

/** Bundles whose message has come before: it has come for what is due now. */
function broughtBefore(messageGroups: readonly MessageGroup[]): ReadonlySet<number> {
  const again = messageGroups.filter(({ message }) => message.attempts > 1);
  return new Set(again.flatMap(({ parts }) => parts.map(({ bundle }) => bundle)));
}

/** All destinations at once, over connections that they share fairly. */
function startGroups(
  services: Services,
  groups: readonly (readonly LoadedDelivery[])[],
  lookedUpAt: number,
): Promise<BatchRun[]> {
  const shared = connections(new Set(groups.map(([first]) => first?.destination.id)).size);
  return Promise.all(
    groups.map((works) => {
      const [first] = works;
      if (!first) throw new Error("A group has at least one delivery");
      const deliveries = works.map(({ event }) => event.id);
      const ask = { lane: laneOf(first), deliveries, startWithinMs: STARTS_MS };
      const load = (granted: readonly number[]) => {
        const wanted = new Set(granted);
        return { works: works.filter(({ event }) => wanted.has(event.id)) };
      };
      return startBatch(services, shared, {
        destination: first.destination,
        ask,
        lookedUpAt,
        patienceFor,
        load,
      });
    }),
  );
}

/** A receiver that answers at once, or else hangs, is not to hold up the batch as one would that is always slow. */
function patienceFor(usualMs: number): number {
  if (usualMs === 0) return LONGEST_PATIENCE_MS;
  return Math.min(LONGEST_PATIENCE_MS, Math.max(SHORTEST_PATIENCE_MS, PATIENCE_PER_MS * usualMs));
}

function groupKey(work: LoadedDelivery): string {
  return `${laneOf(work)} ${work.destination.id}`;
}

function laneOf({ row }: LoadedDelivery): Lane {
  return row && row.attempts > 0 ? "retry" : "fresh";
}

/**
 * Bundles or destinations that are not in D1: there is nothing to deliver. Or not yet: of a database that has just
 * been added, an isolate that is not of the newest version knows nothing. Returns the bundles of such.
 */
function logMissing(services: Services, missing: readonly BundlePart[]): ReadonlySet<number> {
  const unbound = new Set<number>();
  for (const { bundle, destinations } of missing) {
    const isBound = homeOfBundle(services, bundle) !== undefined;
    if (!isBound) unbound.add(bundle);
    const what = isBound ? "delivery_unknown" : "database_not_bound";
    services.log({ what, bundle, destination: destinations.join(" ") });
  }
  return unbound;
}

/** In seconds. */
function pauseFor({ message }: MessageGroup): number {
  return Math.min(LONGEST_PAUSE_S, PAUSE_S * 2 ** Math.min(message.attempts - 1, 10));
}
