/**
 * The cost of events after their delivery: the sweep reads each bundle once, and after 30 days retention deletes it.
 * The time is simulated by making the rows older.
 */
import type { MeteredStack } from "./metered-stack.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** Longer than the grace period. */
const OUT_OF_GRACE_MS = 10 * MINUTE_MS;
const OUT_OF_DATE_MS = 40 * DAY_MS;
/** The most minutes until everything is gone. */
const TICKS = 200;

/** An empty bundle after all others: retention never deletes the newest one. */
const LAST = `
  INSERT INTO bundles (tokens, accepted_at, count, planned, plan, header, body)
  VALUES ('["last"]', 0, 0, 0, '{}', '{"version":1,"encoding":"plain","tenants":[],"types":[],"events":[]}', x'')`;

/** Resolves with the number of minutes that were played, when everything that was delivered is gone. */
export async function passTime(stack: MeteredStack): Promise<number> {
  await stack.sql(LAST);
  await age(stack, OUT_OF_GRACE_MS);
  await tick(stack);
  await age(stack, OUT_OF_DATE_MS);
  let ticks = 1;
  for (; (await left(stack)) > 1; ticks++) {
    if (ticks === TICKS) throw new Error(`${await left(stack)} bundles are left after ${TICKS} minutes`);
    await tick(stack);
  }
  return ticks;
}

export async function tick(stack: MeteredStack): Promise<void> {
  await stack.tick();
  await stack.quiet();
}

async function left(stack: MeteredStack): Promise<number> {
  const [row] = await stack.sql("SELECT count(*) AS count FROM bundles");
  return Number(row?.count);
}

async function age(stack: MeteredStack, ms: number): Promise<void> {
  await stack.sql("UPDATE bundles SET accepted_at = accepted_at - ?1, deliver_at = deliver_at - ?1", ms);
  await stack.sql("UPDATE deliveries SET ended_at = ended_at - ?1", ms);
  await stack.sql("UPDATE packs SET ended_at = ended_at - ?1", ms);
}
