/** Measures the same traffic again and again, on a database that grows from step to step. */

import { until } from "../../test/scenario/until.ts";
import { repeatedBundle } from "../../test/support/bundle-rows.ts";
import type { MeteredStack } from "../cost/metered-stack.ts";
import { deliver } from "../cost/runs.ts";
import type { Units } from "../cost/units.ts";
import { post } from "../throughput/load.ts";

/** The use of one step, and its number of deliveries. */
export type Step = Readonly<{ size: number; units: Units; delivered: number; ms: number }>;
export type Growth = Readonly<{
  /** The name by which pages refer to its figures. */
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
/** Old to the sweep, and too young for retention. */
const LONG_AGO = Date.now() - 24 * 60 * 60_000;
const NEVER = 8_640_000_000_000;

/** Grows by events that were delivered long ago. */
export async function grownStore(stack: MeteredStack): Promise<Growth> {
  const [destination = ""] = await stack.destinations(1);
  const grow = (count: number) => storeDelivered(stack, count, destination);
  return { id: "stored", what: "events stored", steps: await stepsOf(stack, STORED, grow) };
}

/** Works off a backlog at a destination to which more and more has been delivered. */
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

/** Grows by destinations of the tenant, one of which takes the posted events. */
export async function grownDestinations(stack: MeteredStack): Promise<Growth> {
  await stack.destinations(1);
  const grow = async (count: number) => {
    for (let i = 0; i < count; i++) await createUnrelated(stack);
  };
  const [first = 0] = DESTINATIONS;
  const steps = await stepsOf(stack, DESTINATIONS, (count) => grow(count === first ? count - 1 : count));
  return { id: "destinations", what: "destinations of the tenant", steps };
}

async function createUnrelated(stack: MeteredStack): Promise<void> {
  await stack.api.post("/v1/destinations", { url: `${stack.receiver.url}/other`, event_types: ["nothing"] });
}

/** Grows by waiting deliveries of another destination, which is paused. */
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

/** @param grow adds this many */
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
    // This sweep passes the added rows; later ones see only what is new, as in production.
    await stack.tick();
    steps.push({ size, ...(await measure()) });
    console.log(`${size.toLocaleString("en")} done`);
  }
  return steps;
}

/**
 * Measures after a warm-up: the first post reads again what SQL has changed, the tenant's destinations and the bundles
 * inserted since the Worker itself last committed one.
 */
async function measured(stack: MeteredStack): Promise<Measured> {
  await deliver(stack, { events: WARM_UP, perPost: PER_BUNDLE });
  const used = await stack.metered();
  const startedAt = performance.now();
  const delivered = await deliver(stack, { events: POSTED, perPost: 100 });
  return { delivered, units: (await used()).units, ms: performance.now() - startedAt };
}

/** Posts a backlog to the paused destination, and counts from its resumption until all is delivered. */
async function workedOff(stack: MeteredStack, destination: string): Promise<Measured> {
  const path = `/v1/destinations/${destination}`;
  const waiting = async () => {
    const health = await stack.api.get<{ waiting: Record<string, number> }>(`${path}/health`);
    return Object.values(health.waiting).reduce((sum, count) => sum + count, 0);
  };
  await stack.api.post(`${path}/pause`, {});
  await post(stack.running, { name: "", events: BACKLOG, perPost: 100, connections: 4 }, 1);
  const otherwise = () => `fewer than ${BACKLOG} deliveries wait`;
  await until(async () => (await waiting()) === BACKLOG, { otherwise });
  await stack.delivered(0);
  const used = await stack.metered();
  const startedAt = performance.now();
  await stack.api.post(`${path}/resume`, {});
  await stack.delivered(BACKLOG);
  return { delivered: BACKLOG, units: (await used()).units, ms: performance.now() - startedAt };
}

/** Inserts bundles of a hundred events that were accepted long ago, and all delivered. */
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

/** Half of a mask with every bit set, for bundles of a hundred events. */
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
