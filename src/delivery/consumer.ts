/**
 * The consumer of the delivery queue: a batch of messages becomes attempts, outcomes and the next times.
 *
 * A batch must not last as long as its slowest receiver, because the platform adds consumers only when whole batches
 * have ended: a receiver that does not answer soon is awaited in the background.
 */
import type { BundlePart } from "../core/bundle.ts";
import type { Lane } from "../core/lease.ts";
import { CONSUMER_STARTS_MS, consumerPatienceMs } from "../core/lease-runner.ts";
import { type LoadedDelivery, loadDeliveries } from "../db/deliveries.ts";
import { homeOfBundle } from "../db/shards.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { admitBatch, type BatchRun, refusedDispositions, triage } from "./admission.ts";
import { archiving } from "./archiver.ts";
import { logCounts, withCounts } from "./attempt-log.ts";
import { type Connections, connections, sendingInTurn } from "./http.ts";
import {
  ackOrRetry,
  distinct,
  groupMessages,
  type MessageGroup,
  messageGroupFinder,
  openDeliveriesOf,
  postpone,
} from "./message-group.ts";
import type { Disposition } from "./outcome.ts";
import { type Failure, recordAndSettle } from "./pipeline.ts";
import { Recorder } from "./recorder.ts";

const SOURCE = "queue";
/** When nothing can be done for the batch (D1 is away): the first pause, doubled each time. */
const PAUSE_S = 5;
const LONGEST_PAUSE_S = 300;

export async function consumeDeliveries(given: Services, batch: MessageBatch): Promise<void> {
  const shared = connections();
  const { services, release } = archiving(sendingInTurn(withCounts(given, SOURCE)), shared);
  const messages = groupMessages(services, batch);
  try {
    await deliver(services, shared, messages);
  } catch (error) {
    logFailed(services, messages.length, error);
    for (const message of messages) await postpone(services, message, pauseFor(message));
  } finally {
    logCounts(services);
    release();
  }
}

/** In portions, where all bodies together would be too much for the memory. */
async function deliver(
  services: Services,
  shared: Connections,
  messages: readonly MessageGroup[],
): Promise<void> {
  const batch = newBatch(services, shared, messages);
  while (batch.parts.length > 0) {
    const { deliveries, lookedUpAt } = await load(services, batch);
    const { due, dispositions } = triage(services, deliveries, SOURCE);
    const runs = await admitAndAttempt(services, batch.connections, due, lookedUpAt);
    const decided = [...dispositions, ...refusedAmong(services, runs)];
    const recorded = await recordAndSettle(services, batch.recorder, [...runs.keys()], {
      decided,
      ownerOf: (delivery) => batch.messageOf(delivery)?.owner,
      continues: () => false,
    });
    keepRetries(batch, recorded.dispositions);
    keepFailures(services, batch, runs, decided, recorded.failures);
  }
  await ackOrRetryAll(services, batch);
}

/** What is left to do for a batch, and what is known so far of its messages. */
type Batch = {
  readonly messages: readonly MessageGroup[];
  readonly messageOf: (delivery: LoadedDelivery) => MessageGroup | undefined;
  readonly recorder: Recorder;
  /** Of the whole batch: attempts of a portion may still be awaited while the next one is attempted. */
  readonly connections: Connections;
  /** To be loaded. */
  parts: readonly BundlePart[];
  /** What a message must come again for. */
  readonly retries: Map<MessageGroup, Disposition[]>;
  /** Messages that must come again with everything that they hold. */
  readonly postponed: Set<MessageGroup>;
};

function newBatch(services: Services, shared: Connections, messages: readonly MessageGroup[]): Batch {
  return {
    messages,
    messageOf: messageGroupFinder(messages, services.now()),
    recorder: new Recorder(services),
    connections: shared,
    parts: messages.flatMap(({ parts }) => parts),
    retries: new Map(),
    postponed: new Set(),
  };
}

/** The next portion. A retry that has an owner elsewhere is left to that until it is overdue. */
async function load(services: Services, batch: Batch) {
  const { messages, messageOf } = batch;
  const lookedUpAt = services.now();
  const loaded = await loadDeliveries(services, batch.parts, {
    isDue: (row) => (row?.nextAttemptAt ?? 0) <= lookedUpAt,
    fewDueOf: redeliveredBundles(messages),
  });
  batch.parts = loaded.rest;
  const unreadable = loaded.unknown.map(({ bundle }) => bundle);
  const bundles = new Set([...logMissing(services, loaded.missing), ...unreadable]);
  for (const message of messages)
    if (message.parts.some(({ bundle }) => bundles.has(bundle))) batch.postponed.add(message);
  const deliveries = distinct(loaded.deliveries, messages).filter(
    (delivery) => messageOf(delivery) !== undefined,
  );
  return { deliveries, lookedUpAt };
}

/** Bundles whose message has come before: little of them is due now. */
function redeliveredBundles(messages: readonly MessageGroup[]): ReadonlySet<number> {
  const redelivered = messages.filter(({ message }) => message.attempts > 1);
  return new Set(redelivered.flatMap(({ parts }) => parts.map(({ bundle }) => bundle)));
}

/**
 * Bundles or destinations that are not in D1: there is nothing to deliver. Or not yet: an isolate of an older version
 * does not know a database that has just been added. Returns the bundles of such.
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

/** The runs of a portion, each with its deliveries, also those that were refused. */
type Runs = ReadonlyMap<BatchRun, readonly LoadedDelivery[]>;

/** Asks all gates at once, and starts what they admit, over connections that the destinations share fairly. */
async function admitAndAttempt(
  services: Services,
  shared: Connections,
  due: readonly LoadedDelivery[],
  lookedUpAt: number,
): Promise<Runs> {
  const batches = [
    ...Map.groupBy(due, (delivery) => `${laneOf(delivery)} ${delivery.destination.id}`).values(),
  ];
  shared.shareAmong(new Set(due.map(({ destination }) => destination.id)).size);
  const admit = async (deliveries: readonly LoadedDelivery[]) => {
    const [first] = deliveries;
    if (first === undefined) throw new Error("A batch has at least one delivery");
    const request = {
      lane: laneOf(first),
      deliveries: deliveries.map(({ event }) => event.id),
      startWithinMs: CONSUMER_STARTS_MS,
    };
    const ofAdmitted = (admitted: readonly number[]) => {
      const ids = new Set(admitted);
      return { deliveries: deliveries.filter(({ event }) => ids.has(event.id)) };
    };
    const { destination } = first;
    const batch = { destination, request, lookedUpAt, patienceFor: consumerPatienceMs, load: ofAdmitted };
    return [await admitBatch(services, shared, batch), deliveries] as const;
  };
  return new Map(await Promise.all(batches.map(admit)));
}

function laneOf({ row }: LoadedDelivery): Lane {
  return row && row.attempts > 0 ? "retry" : "fresh";
}

function refusedAmong(services: Services, runs: Runs): Disposition[] {
  return [...runs].flatMap(([run, deliveries]) => refusedDispositions(services, run, deliveries));
}

function keepRetries({ messageOf, retries }: Batch, dispositions: readonly Disposition[]): void {
  for (const disposition of dispositions) {
    const message = disposition.retryAt === undefined ? undefined : messageOf(disposition.delivery);
    if (!message) continue;
    const some = retries.get(message);
    if (some) some.push(disposition);
    else retries.set(message, [disposition]);
  }
}

/** Messages of deliveries that could not be recorded come again, because nothing is known of these. */
function keepFailures(
  services: Services,
  { messageOf, postponed }: Batch,
  runs: Runs,
  decided: readonly Disposition[],
  failures: readonly Failure[],
): void {
  const [first] = failures;
  if (!first) return;
  const unrecorded = failures.flatMap(({ batchRun }) =>
    batchRun ? (runs.get(batchRun) ?? []) : decided.map(({ delivery }) => delivery),
  );
  const failed = new Set(unrecorded.flatMap((delivery) => messageOf(delivery) ?? []));
  for (const message of failed) postponed.add(message);
  logFailed(services, failed.size, first.error);
}

/** @param messages how many come again */
function logFailed({ log }: Services, messages: number, error: unknown): void {
  log({ what: "batch_failed", messages, error: faultOf(error) });
}

async function ackOrRetryAll(services: Services, { messages, postponed, retries }: Batch): Promise<void> {
  for (const message of messages) {
    if (postponed.has(message)) await postpone(services, message, pauseFor(message));
    else await ackOrRetry(services, message, openDeliveriesOf(retries.get(message) ?? []));
  }
}

/** In seconds. */
function pauseFor({ message }: MessageGroup): number {
  return Math.min(LONGEST_PAUSE_S, PAUSE_S * 2 ** Math.min(message.attempts - 1, 10));
}
