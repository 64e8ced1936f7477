/** The same traffic again and again, on a database in which there is ever more. */

import { deliver } from "../cost/runs.ts";
import type { Stage } from "../cost/stage.ts";
import type { Units } from "../cost/units.ts";

/** What each delivery of one step has cost. */
export type Step = Readonly<{ size: number; units: Units; delivered: number; ms: number }>;
export type Growth = Readonly<{ what: string; steps: readonly Step[] }>;

const STORED = [1_000, 10_000, 100_000, 1_000_000];
const WAITING = [10, 100, 1_000, 10_000, 100_000];
const POSTED = 2_000;
const PER_STATEMENT = 100_000;

const NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)";
const LONG_AGO = 1;
const NEVER = 8_640_000_000_000;

/** Events that were delivered long ago. */
export async function grownStore(stage: Stage): Promise<Growth> {
  const [destination = ""] = await stage.destinations(1);
  const grow = async (count: number) => {
    await storeEvents(stage, count, destination);
    await stage.sql(
      `INSERT INTO deliveries (destination_id, event_id, state, attempts, give_up_at)
       SELECT ?1, id, 'delivered', 1, 0 FROM events ORDER BY id DESC LIMIT ?2`,
      destination,
      count,
    );
  };
  return { what: "events stored", steps: await stepsOf(stage, STORED, grow) };
}

/** Deliveries that wait for another destination, which is paused. */
export async function grownBacklog(stage: Stage): Promise<Growth> {
  const { id } = await stage.api.post<{ id: string }>("/v1/destinations", {
    url: `${stage.receiver.url}/paused`,
    event_types: ["nothing"],
  });
  await stage.api.post(`/v1/destinations/${id}/pause`, {});
  const grow = async (count: number) => {
    await storeEvents(stage, count, id);
    await stage.sql(
      `INSERT INTO deliveries (destination_id, event_id, state, because, attempts, give_up_at)
       SELECT ?1, id, 'waiting', 'paused', 0, ?3 FROM events ORDER BY id DESC LIMIT ?2`,
      id,
      count,
      NEVER,
    );
  };
  return { what: "deliveries waiting", steps: await stepsOf(stage, WAITING, grow) };
}

/** @param grow adds so many */
async function stepsOf(
  stage: Stage,
  sizes: readonly number[],
  grow: (count: number) => Promise<void>,
): Promise<Step[]> {
  const steps: Step[] = [];
  for (const [i, size] of sizes.entries()) {
    let missing = size - (sizes[i - 1] ?? 0);
    for (; missing > 0; missing -= PER_STATEMENT) await grow(Math.min(missing, PER_STATEMENT));
    // The sweep passes what has been added; from then on each sees what is new, as in production.
    await stage.tick();
    steps.push({ size, ...(await measured(stage)) });
    console.log(`${size.toLocaleString("en")} done`);
  }
  return steps;
}

async function measured(stage: Stage): Promise<Omit<Step, "size">> {
  const used = await stage.metered();
  const startedAt = performance.now();
  const delivered = await deliver(stage, { events: POSTED, perPost: 100 });
  return { delivered, units: (await used()).units, ms: performance.now() - startedAt };
}

function storeEvents(stage: Stage, count: number, destination: string): Promise<void> {
  return stage.sql(
    `${NUMBERS} INSERT INTO events (tenant, type, accepted_at, plan, body)
     SELECT 'default', 'old', ${LONG_AGO}, json_array(?2), '{"type":"old","data":{"number":' || i || '}}' FROM n`,
    count,
    destination,
  );
}
