/**
 * The consumer: a batch of messages becomes attempts, outcomes and the next times.
 *
 * load → sort out → through the gate, all destinations at once → record → settle → acknowledge or retry.
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
import { type Carrier, carrierFinder, carriersOf, dispose, postpone } from "./carry.ts";
import { connections } from "./connections.ts";
import { type GroupRun, startGroup } from "./group.ts";
import { sortOut } from "./sort-out.ts";
import { refusedVerdicts } from "./verdicts.ts";

/** How long a batch goes on starting attempts, as long as answers come. */
const STARTS_MS = 5_000;
/** How long it waits for one answer. */
const PATIENCE_MS = 1_000;
/** When the batch cannot be worked on at all (D1 is away): the first pause, doubled each time. */
const PAUSE_S = 5;
const LONGEST_PAUSE_S = 300;

export async function consume(given: Services, batch: MessageBatch): Promise<void> {
  const services = withCounts(given, "queue");
  const carriers = carriersOf(services, batch);
  try {
    await deliver(services, carriers);
  } catch (error) {
    services.log({ what: "batch_failed", messages: carriers.length, error: faultOf(error) });
    for (const carrier of carriers) postpone(carrier, pauseFor(carrier));
  } finally {
    logCounts(services);
  }
}

async function deliver(services: Services, carriers: readonly Carrier[]): Promise<void> {
  const lookedUpAt = services.now();
  const { works, missing, unknown } = await loadWork(
    services,
    carriers.flatMap(({ parts }) => parts),
  );
  const { due, verdicts: sorted } = sortOut(services, works, "queue");
  const groups = [...Map.groupBy(due, groupKey).values()];
  const runs = await startGroups(services, groups, lookedUpAt);
  const refused = runs.flatMap((run, i) => refusedVerdicts(services, run, groups[i] ?? []));
  const also = [...sorted, ...refused];
  const { verdicts } = await attemptGroups(services, runs, { also, continues: false });
  const later = new Set([...logMissing(services, missing), ...unknown.map(({ bundle }) => bundle)]);
  const carrierOf = carrierFinder(carriers);
  const open = Map.groupBy(
    verdicts.flatMap(({ work, againAt: at }) => (at === undefined ? [] : [{ work, at }])),
    ({ work }) => carrierOf(work),
  );
  for (const carrier of carriers) {
    if (carrier.parts.some(({ bundle }) => later.has(bundle))) postpone(carrier, pauseFor(carrier));
    else await dispose(services, carrier, open.get(carrier));
  }
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
        return works.filter(({ event }) => wanted.has(event.id));
      };
      return startGroup(services, shared, {
        destination: first.destination,
        ask,
        lookedUpAt,
        patienceMs: PATIENCE_MS,
        load,
      });
    }),
  );
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
  const unbound = missing.filter(({ bundle }) => homeOfBundle(services, bundle) === undefined);
  for (const part of missing) {
    const what = unbound.includes(part) ? "database_not_bound" : "delivery_unknown";
    services.log({ what, bundle: part.bundle, destination: part.destinations.join(" ") });
  }
  return new Set(unbound.map(({ bundle }) => bundle));
}

/** In seconds. */
function pauseFor({ message }: Carrier): number {
  return Math.min(LONGEST_PAUSE_S, PAUSE_S * 2 ** Math.min(message.attempts - 1, 10));
}
