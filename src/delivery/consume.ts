/**
 * The consumer: a batch of messages becomes attempts, outcomes and the next times.
 *
 * load → sort out → through the gate, all destinations at once → record → settle → acknowledge or retry.
 *
 * A batch must not last as long as its slowest receiver, because the platform adds consumers only after
 * whole batches have ended: a receiver that does not answer soon is awaited in the background.
 */
import { faultOf } from "../log.ts";
import type { Lane } from "../policy/lease.ts";
import type { Services } from "../services.ts";
import { homeOf } from "../store/shards.ts";
import { loadWork, type Work } from "../store/work.ts";
import { attemptGroups } from "./attempt-groups.ts";
import { type Carrier, carriersOf, dispose } from "./carry.ts";
import { connections } from "./connections.ts";
import { type GroupRun, startGroup } from "./group.ts";
import { sortOut } from "./sort-out.ts";
import { refusedVerdicts } from "./verdicts.ts";

/** How long a batch goes on starting attempts, as long as answers come. */
const STARTS_MS = 5_000;
/** How long it waits for one answer. */
const PATIENCE_MS = 1_000;
/** When the batch cannot be worked on at all (D1 is away): the first pause, doubled each time. */
const PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 300_000;

export async function consume(services: Services, batch: MessageBatch): Promise<void> {
  const carriers = carriersOf(services, batch);
  try {
    await deliver(services, carriers);
  } catch (error) {
    services.log({ what: "batch_failed", deliveries: carriers.length, error: faultOf(error) });
    for (const carrier of carriers) await dispose(services, carrier, services.now() + pauseFor(carrier));
  }
}

async function deliver(services: Services, carriers: readonly Carrier[]): Promise<void> {
  const lookedUpAt = services.now();
  const works = await loadWork(
    services,
    carriers.map(({ named }) => named),
  );
  const carrierOf = new Map<Work | undefined, Carrier>(carriers.map((carrier, i) => [works[i], carrier]));
  for (const [i, carrier] of carriers.entries()) if (!works[i]) await setAside(services, carrier);
  const { due, verdicts: sorted } = sortOut(
    services,
    works.filter((work) => work !== undefined),
    "queue",
  );
  const groups = [...Map.groupBy(due, groupKey).values()];
  const runs = await startGroups(services, groups, lookedUpAt);
  const refused = runs.flatMap((run, i) => refusedVerdicts(services, run, groups[i] ?? []));
  const also = [...sorted, ...refused];
  const { verdicts } = await attemptGroups(services, runs, { also, continues: () => false });
  for (const { work, againAt } of verdicts) {
    const carrier = carrierOf.get(work);
    if (carrier) await dispose(services, carrier, againAt);
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
      const load = (granted: readonly number[]) => works.filter(({ event }) => granted.includes(event.id));
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
 * The event or the destination is not in D1: there is nothing to deliver. Or not yet: of a database that has
 * just been added, an isolate that is not of the newest version knows nothing.
 */
async function setAside(services: Services, carrier: Carrier): Promise<void> {
  const { event, destination } = carrier.named;
  const isBound = homeOf(services, event) !== undefined;
  const what = isBound ? "delivery_unknown" : "database_not_bound";
  services.log({ what, event_row: event, destination });
  await dispose(services, carrier, isBound ? undefined : services.now() + pauseFor(carrier));
}

function pauseFor({ messages: [first] }: Carrier): number {
  return Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** Math.min((first?.attempts ?? 1) - 1, 10));
}
