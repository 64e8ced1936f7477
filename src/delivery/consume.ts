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
import { faultOf } from "../log.ts";
import type { Lane } from "../policy/lease.ts";
import type { Services } from "../services.ts";
import { homeOfBundle } from "../store/shards.ts";
import { loadWork, type Work } from "../store/work.ts";
import { attemptGroups } from "./attempt-groups.ts";
import { logCounts, withCounts } from "./attempt-log.ts";
import { type Carrier, carrierFinder, carriersOf, dispose, distinct, openOf, postpone } from "./carry.ts";
import { connections } from "./connections.ts";
import { type GroupRun, startGroup } from "./group.ts";
import { Recorder } from "./report.ts";
import { sortOut } from "./sort-out.ts";
import { refusedVerdicts, type Verdict } from "./verdicts.ts";

/** How long a batch goes on starting attempts, as long as answers come. */
const STARTS_MS = 5_000;
/** How long it waits for one answer: of a quick receiver twenty times as long as that usually takes, within bounds. */
const LONGEST_PATIENCE_MS = 1_000;
const SHORTEST_PATIENCE_MS = 200;
const PATIENCE_PER_MS = 20;
/** When the batch cannot be worked on at all (D1 is away): the first pause, doubled each time. */
const PAUSE_S = 5;
const LONGEST_PAUSE_S = 300;

export async function consume(given: Services, batch: MessageBatch): Promise<void> {
  const services = withCounts(given, "queue");
  const carriers = carriersOf(services, batch);
  try {
    await deliverAll(services, carriers);
  } catch (error) {
    logFailed(services, carriers.length, error);
    for (const carrier of carriers) await postpone(services, carrier, pauseFor(carrier));
  } finally {
    logCounts(services);
  }
}

/** In portions, where all bodies together would be too much. */
async function deliverAll(services: Services, carriers: readonly Carrier[]): Promise<void> {
  const carrierOf = carrierFinder(carriers, services.now());
  const again = new Map<Carrier | undefined, Verdict[]>();
  const later = new Set<Carrier>();
  const recorder = new Recorder(services);
  let parts: readonly BundlePart[] = carriers.flatMap((carrier) => carrier.parts);
  while (parts.length > 0) {
    const delivered = await deliver(services, recorder, carriers, parts, carrierOf);
    for (const verdict of delivered.verdicts) {
      if (verdict.againAt === undefined) continue;
      const carrier = carrierOf(verdict.work);
      const some = again.get(carrier);
      if (some) some.push(verdict);
      else again.set(carrier, [verdict]);
    }
    for (const carrier of delivered.later) later.add(carrier);
    parts = delivered.rest;
  }
  for (const carrier of carriers) {
    if (later.has(carrier)) await postpone(services, carrier, pauseFor(carrier));
    else await dispose(services, carrier, openOf(again.get(carrier) ?? []));
  }
}

type Delivered = Readonly<{
  verdicts: readonly Verdict[];
  /** Those that must come again with all that they bring. */
  later: readonly Carrier[];
  /** To be delivered next. */
  rest: readonly BundlePart[];
}>;

async function deliver(
  services: Services,
  recorder: Recorder,
  carriers: readonly Carrier[],
  parts: readonly BundlePart[],
  carrierOf: (work: Work) => Carrier | undefined,
): Promise<Delivered> {
  const lookedUpAt = services.now();
  const { works, missing, unknown, rest } = await loadWork(services, parts, {
    isDue: (row) => (row?.nextAttemptAt ?? 0) <= lookedUpAt,
    fewDueOf: broughtBefore(carriers),
  });
  // A retry that has got a message of its own is left to that until it is due.
  const own = distinct(works, carriers).filter((work) => carrierOf(work) !== undefined);
  const { due, verdicts: sorted } = sortOut(services, own, "queue");
  const groups = [...Map.groupBy(due, groupKey).values()];
  const runs = await startGroups(services, groups, lookedUpAt);
  const refused = runs.flatMap((run, i) => refusedVerdicts(services, run, groups[i] ?? []));
  const also = [...sorted, ...refused];
  const { verdicts, failures } = await attemptGroups(services, recorder, runs, {
    also,
    ownerOf: (work) => carrierOf(work)?.owner,
    continues: () => false,
  });
  const unrecorded = failures.flatMap(({ groupRun }) =>
    groupRun ? (groups[runs.indexOf(groupRun)] ?? []) : also.map(({ work }) => work),
  );
  const failed = new Set(unrecorded.map(carrierOf));
  if (failures[0]) logFailed(services, failed.size, failures[0].error);
  const others = new Set([...logMissing(services, missing), ...unknown.map(({ bundle }) => bundle)]);
  const later = carriers.filter(
    (carrier) => failed.has(carrier) || carrier.parts.some(({ bundle }) => others.has(bundle)),
  );
  return { verdicts, later, rest };
}

/** So many messages come again, because nothing is known of what they brought. */
function logFailed({ log }: Services, messages: number, error: unknown): void {
  log({ what: "batch_failed", messages, error: faultOf(error) });
}

/** Bundles whose message has come before: it has come for what is due now. */
function broughtBefore(carriers: readonly Carrier[]): ReadonlySet<number> {
  const again = carriers.filter(({ message }) => message.attempts > 1);
  return new Set(again.flatMap(({ parts }) => parts.map(({ bundle }) => bundle)));
}

/** All destinations at once, over connections that they share fairly. */
function startGroups(
  services: Services,
  groups: readonly (readonly Work[])[],
  lookedUpAt: number,
): Promise<GroupRun[]> {
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
      return startGroup(services, shared, {
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

function groupKey(work: Work): string {
  return `${laneOf(work)} ${work.destination.id}`;
}

function laneOf({ row }: Work): Lane {
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
function pauseFor({ message }: Carrier): number {
  return Math.min(LONGEST_PAUSE_S, PAUSE_S * 2 ** Math.min(message.attempts - 1, 10));
}
