/** The receiver of `npm run verify`: what its endpoints keep, of whom. */
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { expect, test } from "vitest";
import { Endpoint } from "../../tools/verify/receiver/worker.ts";

/** An endpoint over a database in memory. */
function newEndpoint() {
  const db = new DatabaseSync(":memory:");
  const exec = (sql: string, ...values: SQLInputValue[]) => {
    if (sql.includes("CREATE TABLE")) db.exec(sql);
    const rows = sql.includes("CREATE TABLE") ? [] : db.prepare(sql).all(...values);
    return { toArray: () => rows, one: () => rows[0] };
  };
  const endpoint = new Endpoint({ storage: { sql: { exec } } } as unknown as DurableObjectState);
  const send = async (method: string, path: string, body?: string) =>
    endpoint.fetch(new Request(`https://receiver.example${path}`, { method, ...(body && { body }) }));
  return { send, tables: () => db.prepare("SELECT name FROM sqlite_schema").all().length };
}

test("under a name that has no script nothing is stored, whoever sends there", async () => {
  const { send, tables } = newEndpoint();
  expect((await send("POST", "/hooks/invented", "{}")).status).toBe(404);
  expect(await (await send("GET", "/control/invented")).json()).toEqual({ hits: [] });
  expect(tables()).toBe(0);
});

test("with a script it answers as that says, and keeps what has come", async () => {
  const { send } = newEndpoint();
  const script = { per: "request", replies: [{ status: 503 }, { status: 204 }] };
  expect((await send("PUT", "/control/orders", JSON.stringify(script))).status).toBe(204);
  const statuses = [await send("POST", "/hooks/orders", "a"), await send("POST", "/hooks/orders", "b")];
  expect(statuses.map(({ status }) => status)).toEqual([503, 204]);
  const { hits } = (await (await send("GET", "/control/orders?from=2")).json()) as { hits: unknown[] };
  expect(hits).toMatchObject([{ n: 2, body: "b", status: 204, inFlight: 1 }]);
});
