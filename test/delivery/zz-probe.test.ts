import { env } from "cloudflare:workers";
import { test } from "vitest";
import { newDestination, newWorld } from "../support/world.ts";
test("probe", async () => {
  await newWorld();
  const db = env.DB;
  const id = await newDestination();
  await newDestination({tenant: "zeta"}); await newDestination({tenant: "aaaa"});
  const show = async (name: string, sql: string, ...v: unknown[]) => {
    try {
    const r = await db.prepare(sql).bind(...v).all();
    const p = await db.prepare("EXPLAIN QUERY PLAN " + sql).bind(...v).all();
    console.log(name, r.meta.rows_read, r.meta.rows_written, r.results.length, p.results.map((x: any) => x.detail).join(" | "));
    } catch (e) { console.log(name, String(e)); }
  };
  await show("dest by tenant", "SELECT id FROM destinations WHERE tenant = ?1 AND deleted_at IS NULL", "acme");
  await db.prepare("INSERT INTO events (tenant,type,accepted_at,plan,body) SELECT 'acme','a',1,'[]','b' FROM json_each('[1,2,3,4,5,6,7,8,9,10]')").run();
  for (const n of [1, 10]) {
    const ns = Array.from({length: n}, (_, i) => i + 1);
    await show(n + " events in", `SELECT id, type, body, accepted_at FROM events WHERE id IN (${ns})`);
    await show(n + " rows values in", `SELECT * FROM deliveries WHERE (destination_id, event_id) IN (VALUES ${ns.map((i) => `(?1,${i})`)})`, id);
    await show(n + " rows values join", `WITH m (d, e) AS (VALUES ${ns.map((i) => `(?1,${i})`)}) SELECT x.* FROM m CROSS JOIN deliveries x ON x.destination_id = m.d AND x.event_id = m.e`, id);
    await show(n + " rows or", `SELECT * FROM deliveries WHERE ${ns.map((i) => `(destination_id = ?1 AND event_id = ${i})`).join(" OR ")}`, id);
    await show(n + " rows grouped", `SELECT * FROM deliveries WHERE (destination_id = ?1 AND event_id IN (${ns}))`, id);
    await show(n + " rows grouped or", `SELECT * FROM deliveries WHERE (destination_id = ?1 AND event_id IN (${ns})) OR (destination_id = ?2 AND event_id IN (${ns}))`, id, "x");
  }
});
