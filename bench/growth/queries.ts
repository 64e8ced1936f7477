/** The same traffic again and again, on a database in which there is ever more. */

import { until } from "../../test/scenario/until.ts";
import { repeatedBundle } from "../../test/support/bundle-rows.ts";
import type { MeteredStack } from "../cost/metered-stack.ts";
import { deliver } from "../cost/runs.ts";
import type { Units } from "../cost/units.ts";
import { post } from "../throughput/load.ts";

/** What each delivery of one step has cost. */
export type Step = Readonly<{ size: number; units: Units; delivered: number; ms: number }>;
export type Growth = Readonly<{
  /** What pages call it by that show its figures. */
  id: string;
  what: string;
  steps: readonly Step[];
}>;

const STORED = [1_000, 10_000, 100_000, 1_000_000];
const WAITING = [100, 1_000, 10_000, 100_000];
const DESTINATIONS = [1, 10, 100, 1_000];
const PAST = [100, 1_000, 10_000, 100_000];
const POSTED = 2_000;
const BACKLOG = 900;
const PER_STATEMENT = 100_000;

const PER_BUNDLE = 100;
const WARM_UP = 400;
/** Long ago to the sweep, and young to retention. */
const LONG_AGO = Date.now() - 24 * 60 * 60_000;
const NEVER = 8_640_000_000_000;

/** Events that were delivered long ago. */
export async function grownStore(stack: MeteredStack): Promise<Growth> {
  const [destination = ""] = await stack.destinations(1);
  const grow = (count: number) => storeDelivered(stack, count, destination);
  return { id: "stored", what: "events stored", steps: await stepsOf(stack, STORED, grow) };
}

/** What waits is worked off at a destination to which ever more has been delivered. */
export async function grownPast(stack: MeteredStack): Promise<Growth> {
  const [destination = ""] = await stack.destinations(1);
  const grow = (count: number) => storeDelivered(stack, count, destination);
  const measure = () => workedOff(stack, destination);
  return {
    id: "past",
    what: "delivered before, a drain's cost",
    steps: await stepsOf(stack, PAST, grow, measure),
  };
}

/** The tenant has ever more destinations, of which one takes what is posted. */
export async function grownDestinations(stack: MeteredStack): Promise<Growth> {
  await stack.destinations(1);
  const grow = async (count: number) => {
    for (let i = 0; i < count; i++) await createUnconcerned(stack);
  };
  const [first = 0] = DESTINATIONS;
  const steps = await stepsOf(stack, DESTINATIONS, (count) => grow(count === first ? count - 1 : count));
  return { id: "destinations", what: "destinations of the tenant", steps };
}

async function createUnconcerned(stack: MeteredStack): Promise<void> {
  await stack.api.post("/v1/destinations", { url: `${stack.receiver.url}/other`, event_types: ["nothing"] });
}

/** Deliveries that wait for another destination, which is paused. */
export async function grownBacklog(stack: MeteredStack): Promise<Growth> {
  const { id } = await stack.api.post<{ id: string }>("/v1/destinations", {
    url: `${stack.receiver.url}/paused`,
    event_types: ["nothing"],
  });
  await stack.api.post(`/v1/destinations/${id}/pause`, {});
  const grow = async (count: number) => {
    const { first, last } = await storeBundles(stack, count, id);
    await stack.sql(
      `INSERT INTO packs (destination_id, bundle_id, waiting0, waiting1, reason, give_up_at)
       SELECT ?1, id, ${ALL}, ${ALL}, 'paused', ${NEVER} FROM bundles WHERE id BETWEEN ?2 AND ?3`,
      id,
      first,
      last,
    );
  };
  return { id: "waiting", what: "deliveries waiting", steps: await stepsOf(stack, WAITING, grow) };
}

type Measured = Omit<Step, "size">;

/** @param grow adds so many */
async function stepsOf(
  stack: MeteredStack,
  sizes: readonly number[],
  grow: (count: number) => Promise<void>,
  measure: () => Promise<Measured> = () => measured(stack),
): Promise<Step[]> {
  const steps: Step[] = [];
  for (const [i, size] of sizes.entries()) {
    let missing = size - (sizes[i - 1] ?? 0);
    for (; missing > 0; missing -= PER_STATEMENT) await grow(Math.min(missing, PER_STATEMENT));
    // The sweep passes what has been added; from then on each sees what is new, as in production.
    await stack.tick();
    steps.push({ size, ...(await measure()) });
    console.log(`${size.toLocaleString("en")} done`);
  }
  return steps;
}

/**
 * From the second post on: the first reads anew what was changed by hand, the tenant's destinations and the bundles
 * that came since the Worker itself has committed one.
 */
async function measured(stack: MeteredStack): Promise<Measured> {
  await deliver(stack, { events: WARM_UP, perPost: PER_BUNDLE });
  const used = await stack.metered();
  const startedAt = performance.now();
  const delivered = await deliver(stack, { events: POSTED, perPost: 100 });
  return { delivered, units: (await used()).units, ms: performance.now() - startedAt };
}

/** What was posted while the destination was paused. Counted from its resumption on. */
async function workedOff(stack: MeteredStack, destination: string): Promise<Measured> {
  const path = `/v1/destinations/${destination}`;
  const waiting = async () => {
    const health = await stack.api.get<{ waiting: Record<string, number> }>(`${path}/health`);
    return Object.values(health.waiting).reduce((sum, count) => sum + count, 0);
  };
  await stack.api.post(`${path}/pause`, {});
  await post(stack.running, { name: "", events: BACKLOG, perPost: 100, connections: 4 }, 1);
  const otherwise = () => `${BACKLOG} do not wait`;
  await until(async () => (await waiting()) === BACKLOG, { otherwise });
  await stack.delivered(0);
  const used = await stack.metered();
  const startedAt = performance.now();
  await stack.api.post(`${path}/resume`, {});
  await stack.delivered(BACKLOG);
  return { delivered: BACKLOG, units: (await used()).units, ms: performance.now() - startedAt };
}

/** Bundles of a hundred that were accepted long ago, and their deliveries, which have all succeeded. */
async function storeDelivered(stack: MeteredStack, count: number, destination: string): Promise<void> {
  const { first, last } = await storeBundles(stack, count, destination);
  await stack.sql(
    `INSERT INTO packs (destination_id, bundle_id, delivered0, delivered1, ended_at)
     SELECT ?1, id, ${ALL}, ${ALL}, 1 FROM bundles WHERE id BETWEEN ?2 AND ?3`,
    destination,
    first,
    last,
  );
}

/** Half of a mask in which every bit is set: bundles here have a hundred events. */
const ALL = 2 ** 50 - 1;

async function storeBundles(stack: MeteredStack, events: number, destination: string) {
  const [newest] = await stack.sql("SELECT coalesce(max(id), 0) AS id FROM bundles");
  const first = Number(newest?.id) + 1;
  const count = Math.ceil(events / PER_BUNDLE);
  const old = Array.from({ length: PER_BUNDLE }, (_, number) => ({
    tenant: "default",
    type: "old",
    data: { number },
    destinations: [destination],
  }));
  const { sql, values } = repeatedBundle(old, { first, count, acceptedAt: LONG_AGO });
  await stack.sql(sql, ...values);
  return { first, last: first + count - 1 };
}
