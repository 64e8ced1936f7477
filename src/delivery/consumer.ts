/**
 * The consumer of the delivery queue: a batch of messages becomes attempts, outcomes and the next times.
 *
 * A batch must not last as long as its slowest receiver, because the platform adds consumers only when whole batches
 * have ended: a receiver that does not answer soon is awaited in the background.
 *
 * The destinations of a batch are processed apart from each other. They share connections, writes and the end of the
 * batch: the platform acknowledges messages only when the invocation ends, so what becomes of them is decided then.
 */

import { type BundlePart, partsOf } from "../core/bundle.ts";
import type { Lane } from "../core/lease.ts";
import { CONSUMER_STARTS_MS, consumerPatienceMs } from "../core/lease-runner.ts";
import type { DeliverySource } from "../core/triage.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { isBound, type Loaded, type LoadedDelivery, loadDeliveries } from "../store/deliveries.ts";
import type { DeliveryRow } from "../store/delivery.ts";
import { admitDue, type Decided, type Due, type LoadedAdmitted, triage } from "./admission.ts";
import { attempting } from "./attempt-log.ts";
import { type Connections, connections } from "./connections.ts";
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
import { Pipeline } from "./pipeline.ts";
import { Recorder } from "./recorder.ts";

const SOURCE = "queue";
/** When nothing can be done for the batch (D1 is away): the first pause, doubled each time. */
const PAUSE_S = 5;
const LONGEST_PAUSE_S = 300;
/** How long deliveries wait for a slower further database. */
const DATABASE_PATIENCE_MS = 1_000;

export async function consumeDeliveries(given: Services, batch: MessageBatch): Promise<void> {
  const shared = connections();
  const { services, end } = await attempting(given, SOURCE, shared);
  const messages = groupMessages(services, batch);
  try {
    await deliver(services, shared, messages);
  } catch (error) {
    logFailed(services, messages.length, error);
    for (const message of messages) await postpone(services, message, pauseFor(message));
  } finally {
    end();
  }
}

async function deliver(services: Services, shared: Connections, messages: readonly MessageGroup[]) {
  const batch = newBatch(services, shared, messages);
  const parts = messages.flatMap((message) => message.parts);
  await deliverPortions(services, batch, portionOf(services, batch, parts));
  await Promise.all(batch.later);
  await ackOrRetryAll(services, batch);
}

/** In portions, if all bodies together would be too much for the memory. */
async function deliverPortions(services: Services, batch: Batch, first: Portion): Promise<void> {
  let rest = await deliverPortion(services, batch, first);
  while (rest.length > 0) rest = await deliverPortion(services, batch, portionOf(services, batch, rest));
}

/** Delivers what a portion brings, each destination by itself. Returns the parts that are left over. */
async function deliverPortion(
  services: Services,
  batch: Batch,
  portion: Portion,
): Promise<readonly BundlePart[]> {
  try {
    const { deliveries, late, rest } = await load(services, batch, portion);
    for (const { parts, loaded } of late)
      batch.later.push(deliverPortions(services, batch, { ...portion, parts, load: () => loaded }));
    const sourceOf = (delivery: LoadedDelivery) =>
      takesWaiting(batch.messageOf(delivery), delivery) ? "drain" : SOURCE;
    await Promise.all(
      apart(deliveries).map((own) => deliverTriaged(services, batch, { own, sourceOf, ...portion })),
    );
    return rest;
  } catch (error) {
    keepFailure(batch, messagesOf(batch, portion.parts), error);
    return [];
  }
}

/** A destination's transformation may take its time: those with one are triaged by themselves. */
function apart(deliveries: readonly LoadedDelivery[]): readonly (readonly LoadedDelivery[])[] {
  const groups = Map.groupBy(deliveries, ({ destination }) => (destination.transform ? destination.id : ""));
  return [...groups.values()];
}

type Untriaged = Readonly<{
  own: readonly LoadedDelivery[];
  sourceOf: (delivery: LoadedDelivery) => DeliverySource;
  lookedUpAt: number;
}>;

/** Delivers what is due of some deliveries, each destination by itself. */
async function deliverTriaged(services: Services, batch: Batch, { own, sourceOf, lookedUpAt }: Untriaged) {
  try {
    const readAgain = (some: readonly LoadedDelivery[]) => loadAgain(services, some, sourceOf);
    const triaged = await triage(services, own, sourceOf);
    const dispatches = dispatchesOf(triaged, lookedUpAt, readAgain);
    const work = () => Promise.all(dispatches.map((dispatch) => deliverTo(services, batch, dispatch)));
    await sharing(batch, dispatches, work);
  } catch (error) {
    keepFailure(batch, new Set(own.flatMap((delivery) => batch.messageOf(delivery) ?? [])), error);
  }
}

/** Has one destination's deliveries admitted, attempted, recorded and settled, independently of the others. */
async function deliverTo(services: Services, batch: Batch, dispatch: ToDeliver): Promise<void> {
  try {
    const ownerOf = (delivery: LoadedDelivery) => batch.messageOf(delivery)?.owner;
    const answered = dispatch.stage === "due" ? admitDue(services, batch.connections, dispatch) : dispatch;
    const { dispositions } = await batch.pipeline.end(answered, { ownerOf });
    keepRetries(batch, dispositions);
  } catch (error) {
    const due = dispatch.stage === "due" ? dispatch.source.deliveries : [];
    const all = [...due, ...dispatch.dispositions.map(({ delivery }) => delivery)];
    keepFailure(batch, new Set(all.flatMap((delivery) => batch.messageOf(delivery) ?? [])), error);
  }
}

/** A batch's remaining work, and the knowledge of its messages so far. */
type Batch = {
  readonly messages: readonly MessageGroup[];
  readonly messageOf: (delivery: LoadedDelivery) => MessageGroup | undefined;
  readonly pipeline: Pipeline;
  /** Shared by the whole batch: attempts of a portion may still be awaited while the next one is attempted. */
  readonly connections: Connections;
  /** Destinations that share them at the moment. */
  readonly sharing: Set<string>;
  /** Deliveries of further databases that arrive late. */
  readonly later: Promise<void>[];
  /** The deliveries that a message must come again for. */
  readonly retries: Map<MessageGroup, Disposition[]>;
  /** Messages that must come again with everything that they hold. */
  readonly postponed: Set<MessageGroup>;
  /** Messages with deliveries that could not be loaded or recorded, and the first error. */
  readonly failed: { readonly messages: Set<MessageGroup>; error: unknown };
};

function newBatch(services: Services, shared: Connections, messages: readonly MessageGroup[]): Batch {
  return {
    messages,
    messageOf: messageGroupFinder(messages, services.now()),
    pipeline: new Pipeline(services, new Recorder(services)),
    connections: shared,
    sharing: new Set(),
    later: [],
    retries: new Map(),
    postponed: new Set(),
    failed: { messages: new Set(), error: undefined },
  };
}

/** Parts that are loaded together. */
type Portion = Readonly<{
  parts: readonly BundlePart[];
  /** A portion of which nothing was read yet. */
  lookedUpAt: number;
  load: () => Promise<Loaded>;
}>;

/** A portion that is to be loaded now. */
function portionOf(services: Services, { messages }: Batch, parts: readonly BundlePart[]): Portion {
  const lookedUpAt = services.now();
  const isTaking = messages.some((message) => message.takesWaiting);
  const options = {
    isDue: (row: DeliveryRow | undefined) =>
      row?.state === "waiting" ? isTaking : (row?.nextAttemptAt ?? 0) <= lookedUpAt,
    fewDueOf: redeliveredBundles(messages),
    patience: (over: AbortSignal) => services.sleep(DATABASE_PATIENCE_MS, over),
  };
  return { parts, lookedUpAt, load: () => loadDeliveries(services, parts, options) };
}

/** Loads a portion. A retry that another message owns is left to that message until it is overdue. */
async function load(services: Services, batch: Batch, portion: Portion) {
  const { messages, messageOf, postponed } = batch;
  const { missing, unknown, ...loaded } = await portion.load();
  const unreadable = unknown.map(({ bundle }) => bundle);
  const bundles = new Set([...logMissing(services, missing), ...unreadable]);
  for (const message of messages)
    if (message.parts.some(({ bundle }) => bundles.has(bundle))) postponed.add(message);
  const deliveries = distinct(loaded.deliveries, messages).filter(
    (delivery) => messageOf(delivery) !== undefined,
  );
  return { ...loaded, deliveries };
}

/** Whether the delivery waits and its message requests an attempt nevertheless. */
function takesWaiting(message: MessageGroup | undefined, { row }: LoadedDelivery): boolean {
  return row?.state === "waiting" && message?.takesWaiting === true;
}

function messagesOf({ messages }: Batch, parts: readonly BundlePart[]): Set<MessageGroup> {
  const some = new Set(parts);
  return new Set(messages.filter((message) => message.parts.some((part) => some.has(part))));
}

/** Bundles whose message has come before: little of them is due now. */
function redeliveredBundles(messages: readonly MessageGroup[]): ReadonlySet<number> {
  const redelivered = messages.filter(({ message }) => message.attempts > 1);
  return new Set(redelivered.flatMap(({ parts }) => parts.map(({ bundle }) => bundle)));
}

/**
 * Logs bundles and destinations that are not in D1, whose deliveries nothing can send. Returns the bundles of databases that
 * this isolate does not know yet: a newer version has just added them.
 */
function logMissing(services: Services, missing: readonly BundlePart[]): ReadonlySet<number> {
  const unbound = new Set<number>();
  for (const { bundle, destinations } of missing) {
    const isKnown = isBound(services, bundle);
    if (!isKnown) unbound.add(bundle);
    const what = isKnown ? "delivery_unknown" : "database_not_bound";
    services.log({ what, bundle, destination: destinations.join(" ") });
  }
  return unbound;
}

/** Deliveries of one destination that are processed together. */
type ToDeliver = Decided | (Due & Readonly<{ source: { kind: "loaded" } }>);

/** First attempts and retries apart, because they have lanes of their own; what is decided goes with either. */
function dispatchesOf(
  { due, dispositions }: Awaited<ReturnType<typeof triage>>,
  lookedUpAt: number,
  readAgain: (own: readonly LoadedDelivery[]) => Promise<LoadedAdmitted>,
): readonly ToDeliver[] {
  const decided = Map.groupBy(dispositions, ({ delivery }) => delivery.destination.id);
  const lanes = Map.groupBy(due, (delivery) => `${laneOf(delivery)} ${delivery.destination.id}`);
  const withDue = [...lanes.values()].flatMap((deliveries): ToDeliver[] => {
    const [first] = deliveries;
    if (!first) return [];
    const { destination } = first;
    const own = decided.get(destination.id) ?? [];
    decided.delete(destination.id);
    const numbers = deliveries.map(({ event }) => event.id);
    const load = (admitted: readonly number[]) => {
      const ids = new Set(admitted);
      return readAgain(deliveries.filter(({ event }) => ids.has(event.id)));
    };
    return [
      {
        ...{ stage: "due", destination, dispositions: own, patienceFor: consumerPatienceMs },
        request: { lane: laneOf(first), deliveries: numbers, startWithinMs: CONSUMER_STARTS_MS },
        source: { kind: "loaded", lookedUpAt, deliveries, load },
      },
    ];
  });
  const withoutDue = [...decided.values()].flatMap((own): ToDeliver[] => {
    const [first] = own;
    return first ? [{ stage: "decided", destination: first.delivery.destination, dispositions: own }] : [];
  });
  return [...withDue, ...withoutDue];
}

/** Reads what was admitted once more, because it may have ended since. The message comes again for the rest. */
async function loadAgain(
  services: Services,
  own: readonly LoadedDelivery[],
  sourceOf: (delivery: LoadedDelivery) => DeliverySource,
): Promise<LoadedAdmitted> {
  const keys = own.map(({ event, destination }) => ({ eventId: event.id, destinationId: destination.id }));
  const { deliveries } = await loadDeliveries(services, partsOf(keys));
  const { due, dispositions } = await triage(services, deliveries, sourceOf);
  const read = new Set(deliveries.map(({ event }) => event.id));
  const unread = own.filter(({ event }) => !read.has(event.id));
  const again = unread.map((delivery) => ({ delivery, retryAt: services.now() }));
  return { deliveries: due, dispositions: [...dispositions, ...again], left: 0 };
}

/** Has the destinations share the connections fairly while the task runs, whether they have attempts to make yet or not. */
async function sharing(batch: Batch, dispatches: readonly ToDeliver[], task: () => Promise<unknown>) {
  const ids = dispatches.flatMap(({ destination, stage }) => (stage === "due" ? destination.id : []));
  const own = new Set(ids.filter((id) => !batch.sharing.has(id)));
  for (const id of own) batch.sharing.add(id);
  batch.connections.shareAmong(batch.sharing.size);
  await task();
  for (const id of own) batch.sharing.delete(id);
}

function laneOf({ row }: LoadedDelivery): Lane {
  return row && row.attempts > 0 ? "retry" : "fresh";
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

/** Retries messages whose deliveries could not be loaded or recorded, because their state is unknown. */
function keepFailure({ failed }: Batch, messages: ReadonlySet<MessageGroup>, error: unknown): void {
  failed.error ??= error;
  for (const message of messages) failed.messages.add(message);
}

/** @param messages how many come again */
function logFailed({ log }: Services, messages: number, error: unknown): void {
  log({ what: "batch_failed", messages, error: faultOf(error) });
}

async function ackOrRetryAll(services: Services, batch: Batch): Promise<void> {
  const { messages, postponed, retries, failed } = batch;
  if (failed.messages.size > 0) logFailed(services, failed.messages.size, failed.error);
  for (const message of messages) {
    const isOpen = postponed.has(message) || failed.messages.has(message);
    if (isOpen) await postpone(services, message, pauseFor(message));
    else await ackOrRetry(services, message, openDeliveriesOf(retries.get(message) ?? []));
  }
}

/** In seconds. */
function pauseFor({ message }: MessageGroup): number {
  return Math.min(LONGEST_PAUSE_S, PAUSE_S * 2 ** Math.min(message.attempts - 1, 10));
}
