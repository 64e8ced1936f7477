/**
 * What becomes of events after they were delivered, and costs too: the sweep looks at each of their bundles once,
 * and after 30 days retention removes them. Here that time passes at once: the rows are made older.
 */
import type { Stage } from "./stage.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** Longer than the grace period. */
const OUT_OF_GRACE_MS = 10 * MINUTE_MS;
const OUT_OF_DATE_MS = 40 * DAY_MS;
/** Minutes until everything is gone, at most. */
const TICKS = 200;

/** The newest bundle always stays: so that all of those delivered go, a last one comes after them, for nobody. */
const LAST = `
  INSERT INTO bundles (tokens, accepted_at, count, planned, plan, header, body)
  VALUES ('["last"]', 0, 0, 0, '{}', '{"version":1,"encoding":"plain","tenants":[],"types":[],"events":[]}', x'')`;

/** Resolves with the minutes that were played when everything that was delivered is gone. */
export async function passTime(stage: Stage): Promise<number> {
  await stage.sql(LAST);
  await age(stage, OUT_OF_GRACE_MS);
  await tick(stage);
  await age(stage, OUT_OF_DATE_MS);
  let ticks = 1;
  for (; (await left(stage)) > 1; ticks++) {
    if (ticks === TICKS) throw new Error(`${await left(stage)} bundles are left after ${TICKS} minutes`);
    await tick(stage);
  }
  return ticks;
}

export async function tick(stage: Stage): Promise<void> {
  await stage.tick();
  await stage.quiet();
}

async function left(stage: Stage): Promise<number> {
  const [row] = await stage.sql("SELECT count(*) AS count FROM bundles");
  return Number(row?.count);
}

async function age(stage: Stage, ms: number): Promise<void> {
  await stage.sql("UPDATE bundles SET accepted_at = accepted_at - ?1, deliver_at = deliver_at - ?1", ms);
  await stage.sql("UPDATE deliveries SET ended_at = ended_at - ?1", ms);
  await stage.sql("UPDATE packs SET ended_at = ended_at - ?1", ms);
}
