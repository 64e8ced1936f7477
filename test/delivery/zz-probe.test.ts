import { env } from "cloudflare:workers";
import { test } from "vitest";
import { newDestination, newWorld } from "../support/world.ts";
test("probe", async () => {
  const world = await newWorld();
  const db = env.DB;
  const id = await newDestination();
  const show = async (name: string, sql: string, ...v: unknown[]) => {
    try {
    const r = await db.prepare(sql).bind(...v).all();
    console.log(name, r.meta.rows_read, r.meta.rows_written, r.results.length);
    } catch (e) { console.log(name, String(e)); }
  };
  const plan = "(SELECT json_group_array(d.id) FROM destinations d WHERE d.tenant='acme' AND d.deleted_at IS NULL)";
  const PL = "(SELECT json_group_array(d.id) FROM destinations d WHERE d.tenant = e.value ->> 'tenant' AND d.deleted_at IS NULL AND (d.event_types IS NULL OR EXISTS (SELECT 1 FROM json_each(d.event_types) p WHERE p.value = e.value ->> 'type')))";
  for (const n of [1, 10]) {
  const J = JSON.stringify(Array.from({length: n}, () => ({type:"a", tenant: "acme", body: "b"})));
  await show(n+" each", "INSERT INTO events (tenant,type,accepted_at,plan,body) SELECT 'acme',e.value->>'type',1,'[]','b' FROM json_each(?1) e", J);
  await show(n+" each returning", "INSERT INTO events (tenant,type,accepted_at,plan,body) SELECT 'acme',e.value->>'type',1,'[]','b' FROM json_each(?1) e RETURNING id", J);
  await show(n+" each plan returning", `INSERT INTO events (tenant,type,accepted_at,plan,body) SELECT 'acme',e.value->>'type',1,${PL},'b' FROM json_each(?1) e RETURNING id`, J);
  await show(n+" each plan order returning", `INSERT INTO events (tenant,type,accepted_at,plan,body) SELECT 'acme',e.value->>'type',1,${PL},'b' FROM json_each(?1) e ORDER BY e.key RETURNING id`, J);
  await show(n+" each plan order returning plan", `INSERT INTO events (tenant,type,accepted_at,plan,body) SELECT 'acme',e.value->>'type',1,${PL},'b' FROM json_each(?1) e ORDER BY e.key RETURNING id, plan`, J);
  await show(n+" select plan", `SELECT ${PL} FROM json_each(?1) e`, J);
  }
  await show("values plan returning", `INSERT INTO events (tenant,type,accepted_at,plan,body) VALUES ('acme','a',1,${plan},'b') RETURNING id`);
  await show("values plan", `INSERT INTO events (tenant,type,accepted_at,plan,body) VALUES ('acme','a',1,${plan},'b')`);
  for (const n of [1, 10]) {
  const m = JSON.stringify(Array.from({length: n}, (_, i) => ({ event: i + 1, destination: id })));
  const one = JSON.stringify([id]);
  await show(n+" EVENTS", "SELECT id, type, body, accepted_at AS acceptedAt FROM events WHERE id IN (SELECT value ->> 'event' FROM json_each(?1))", m);
  await show(n+" EVENTS join", "SELECT e.id, e.type, body, accepted_at AS acceptedAt FROM json_each(?1) m CROSS JOIN events e ON e.id = m.value ->> 'event'", m);
  await show(n+" DEST", "SELECT * FROM destinations WHERE id IN (SELECT value ->> 'destination' FROM json_each(?1))", m);
  await show(n+" DEST distinct", "SELECT * FROM destinations WHERE id IN (SELECT value FROM json_each(?1))", one);
  await show(n+" DEST distinct join", "SELECT d.* FROM json_each(?1) m CROSS JOIN destinations d ON d.id = m.value", one);
  await show(n+" ROWS none", "SELECT d.* FROM json_each(?1) m JOIN deliveries d ON d.destination_id = m.value ->> 'destination' AND d.event_id = m.value ->> 'event'", m);
  await show(n+" EVENTS + ROWS", "SELECT e.*, d.* FROM json_each(?1) m CROSS JOIN events e ON e.id = m.value ->> 'event' LEFT JOIN deliveries d ON d.destination_id = m.value ->> 'destination' AND d.event_id = e.id", m);
  await show(n+" record", "INSERT INTO deliveries (destination_id, event_id, state, give_up_at) SELECT value->>'destination', value->>'event', 'delivered', 1 FROM json_each(?1) WHERE true ON CONFLICT (destination_id, event_id) DO UPDATE SET state = excluded.state WHERE deliveries.state IN ('waiting')", m);
  await show(n+" record again", "INSERT INTO deliveries (destination_id, event_id, state, give_up_at) SELECT value->>'destination', value->>'event', 'delivered', 1 FROM json_each(?1) WHERE true ON CONFLICT (destination_id, event_id) DO UPDATE SET state = excluded.state WHERE deliveries.state IN ('waiting')", m);
  await show(n+" record plain", "INSERT INTO deliveries (destination_id, event_id, state, give_up_at) SELECT value->>'destination', 100 + (value->>'event'), 'delivered', 1 FROM json_each(?1)", m);
  await show("delete", "DELETE FROM deliveries");
  }
});
