/** Puts the scene on: the Worker that stands still, with the rows that are written for it. */
import { startBreakwater } from "../support/breakwater-runtime.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import type { Runtime } from "../support/runtime.ts";
import { MASTER_KEYS, vault } from "../support/vault.ts";
import { parts } from "./cast.ts";
import { NOW } from "./doors.ts";
import { scenes } from "./plot.ts";

export const SCENE_KEY = "scene-admin-key-0123456789";

const DAY_MS = 24 * 60 * 60_000;

export async function startScene(): Promise<Runtime> {
  const main = new URL("worker.ts", import.meta.url).pathname;
  const vars = { ADMIN_KEY: SCENE_KEY, MASTER_KEYS, ALLOW_PRIVATE_DESTINATIONS: "false" };
  const runtime = await startBreakwater({ vars, main });
  for (const { row } of parts) await insert(runtime, "destinations", { ...(await usual(row.id)), ...row });
  for (const { bundles, deliveries, replays } of scenes) {
    await insertBundles(runtime.db, bundles);
    for (const row of deliveries) await insert(runtime, "deliveries", row);
    for (const row of replays) await insert(runtime, "replays", row);
  }
  return runtime;
}

async function usual(id: string) {
  const secret = await vault.seal(id, "whsec_dGhpcyBpcyBubyBzZWNyZXQgYXQgYWxsLCBpcyBpdD8=");
  return { secret, created_at: NOW - 40 * DAY_MS, updated_at: NOW - 2 * DAY_MS };
}

async function insert({ db }: Runtime, table: string, row: Readonly<Record<string, unknown>>): Promise<void> {
  const values = Object.values(row).map((value) =>
    typeof value === "object" && value !== null ? JSON.stringify(value) : value,
  );
  const places = values.map((_, i) => `?${i + 1}`);
  await db
    .prepare(`INSERT INTO ${table} (${Object.keys(row)}) VALUES (${places})`)
    .bind(...values)
    .run();
}
