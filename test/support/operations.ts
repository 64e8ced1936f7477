/**
 * Every operation of the API's own document, and requests to it made from the document's examples: so a new route is
 * tested as soon as it is registered. `makers` has what a route needs beyond its schema.
 */
import { env } from "cloudflare:workers";
import { createApp } from "../../src/http/app.ts";
import { type Document, documentOf, type Method, type Operation } from "../../src/http/openapi/document.ts";
import { eventNumber, newAgentActionId } from "../../src/ids.ts";
import { insertRow, NOW, type testApi } from "./api.ts";
import { unlessWritten } from "./databases.ts";

type Call = ReturnType<typeof testApi>["call"];

export type Described = Readonly<{ method: Uppercase<Method>; path: string; operation: Operation }>;

export const document: Document = documentOf(createApp());

export const operations: readonly Described[] = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    method: method.toUpperCase() as Uppercase<Method>,
    path,
    operation,
  })),
);

/** Objects that belong to no tenant: the operator creates them, and every key reads them. */
export const shared: Readonly<Record<string, string>> = { "event-types": "shared.by-all", groups: "shared" };

export const isShared = ({ path }: Pick<Described, "path">) =>
  Object.keys(shared).some((plural) => path.split("/").includes(plural));

/** The objects of a tenant, by the plural before their ids in paths. */
export type Things = Readonly<{ tenant: string; ids: Readonly<Record<string, string>> }>;

async function created(call: Call, path: string, body: object) {
  const { status, json, text } = await call("POST", path, body);
  if (status >= 300) throw new Error(`POST ${path} must work for the fixtures: ${status} ${text}`);
  return json;
}

/** Creates one of everything that belongs to a tenant, as a caller who may do everything. */
export async function thingsOf(call: Call, tenant: string): Promise<Things> {
  const destination = await created(call, "/v1/destinations", { url: "https://example.com/hook", tenant });
  const notices = { kind: "slack", url: `https://chat.example/${tenant}` };
  await call("PUT", `/v1/destinations/${destination.id}/notices`, notices);
  const event = await created(call, "/v1/events", { type: "order.paid", data: { of: tenant }, tenant });
  await env.DB.prepare("UPDATE destinations SET certification = ?1 WHERE id = ?2")
    .bind(JSON.stringify({ at: NOW, checks: [] }), destination.id)
    .run();
  // Created after the event, which therefore has one delivery.
  const inbox = await created(call, "/v1/destinations", { kind: "poll", tenant });
  // Unique to this tenant, because tests search other tenants' answers for it.
  const attemptedAt = NOW - 3_600_000 - ((eventNumber(event.id) ?? 0) % 1_000_000);
  await insertRow("deliveries", {
    destination_id: destination.id,
    event_id: eventNumber(event.id),
    state: "dead",
    reason: "exhausted",
    attempts: 1,
    give_up_at: NOW + 1000,
    ended_at: NOW,
    log: [{ at: attemptedAt, latencyMs: 1, status: 500 }],
  });
  for (const [plural, name] of Object.entries(shared)) await call("PUT", `/v1/${plural}/${name}`, {});
  const key = await created(call, "/v1/keys", { scopes: ["read"], tenant });
  const pollKey = await created(call, "/v1/keys", { scopes: ["poll"], destination_id: inbox.id });
  await env.DB.prepare("UPDATE api_keys SET made_in = 'portal' WHERE id = ?1").bind(pollKey.id).run();
  const time = { since: new Date(NOW - 1000).toISOString(), until: new Date(NOW).toISOString() };
  const replay = await created(call, "/v1/replays", { destination_id: destination.id, ...time });
  const erasure = await created(call, "/v1/erasures", { event_id: event.id, tenant });
  const action = newAgentActionId();
  await insertRow("agent_actions", {
    ...{ id: action, tenant, key_id: key.id, tool: "pause_destination", state: "pending" },
    ...{ input: { destination_id: destination.id }, created_at: NOW, expires_at: NOW + 60_000 },
  });
  const ids = {
    actions: action,
    erasures: erasure.id,
    destinations: destination.id,
    inboxes: inbox.id,
    events: event.id,
    deliveries: event.deliveries[0].id,
    keys: key.id,
    pollKeys: pollKey.id,
    replays: replay.id,
    attempts: new Date(attemptedAt).toISOString(),
  };
  return { tenant, ids };
}

/** The path with ids of the tenant's objects. */
export function pathFor(path: string, { tenant, ids }: Things): string {
  const isPolled = /\/(destinations|endpoints)\/[^/]+\/poll(\/|$)/.test(path);
  return path.replaceAll(/([^/]+)\/\{(\w+)\}/g, (_, plural: string) => {
    const id =
      plural === "tenants"
        ? tenant
        : plural === "versions"
          ? "1"
          : (ids[isPolled && plural !== "keys" ? "inboxes" : plural] ?? shared[plural]);
    if (id === undefined) {
      throw new Error(`Teach thingsOf in test/support/operations.ts to make one of ${plural}, for ${path}`);
    }
    return `${plural}/${id}`;
  });
}

/** The same, with a query where one is required. */
export function pathWithQuery(path: string, things: Things): string {
  return path === "/v1/search" ? `${path}?q=${things.ids.events}` : pathFor(path, things);
}

/** The document's example of the body, with the tenant's name and ids wherever a field takes one. */
export function bodyFor({ method, path, operation }: Described, things: Things): unknown {
  const media = operation.requestBody?.content["application/json"];
  if (operation.requestBody === undefined) return undefined;
  if (media?.example === undefined) throw new Error(`${method} ${path} has no JSON body with an example`);
  return ofTenant(media.example, things);
}

function ofTenant(value: unknown, things: Things): unknown {
  if (Array.isArray(value)) return value.map((entry) => ofTenant(entry, things));
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).map(([name, field]) => [
    name,
    fieldFor(name, things) ?? listFor(name, things) ?? ofTenant(field, things),
  ]);
  return Object.fromEntries(fields);
}

/** The value for a field of this name instead of the example's: times are soon, by the test's clock. */
function fieldFor(name: string, things: Things): string | undefined {
  if (name === "tenant") return things.tenant;
  return name.endsWith("_at") ? new Date(NOW + 60_000).toISOString() : idNamed(name, things);
}

/** The list that a field called `delivery_ids` takes. */
function listFor(name: string, things: Things): string[] | undefined {
  const id = name.endsWith("_ids") ? idNamed(name.slice(0, -1), things) : undefined;
  return id === undefined ? undefined : [id];
}

/** The id that a field called `destination_id` takes. */
export function idNamed(name: string, { ids }: Things): string | undefined {
  const thing = /^(\w+)_id$/.exec(name)?.[1];
  return thing && (ids[`${thing}s`] ?? ids[thing.replace(/y$/, "ies")]);
}

type Table = Readonly<{ name: string; rows: readonly Readonly<Record<string, unknown>>[] }>;

/** Tables whose rows write to others by triggers. */
const TRIGGERING = ["destinations", "event_types", "bundles", "packs", "deliveries", "api_keys"];

async function tablesStored(): Promise<Table[]> {
  const tables = await env.DB.prepare(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*' AND name NOT GLOB '_cf_*' AND name NOT GLOB 'd1_*'",
  ).all<{ name: string }>();
  const names = tables.results.map(({ name }) => name);
  const rows = await env.DB.batch<Record<string, unknown>>(
    names.map((name) => env.DB.prepare(`SELECT * FROM "${name}"`)),
  );
  return rows.map(({ results }, i) => ({ name: names[i] ?? "", rows: results }));
}

/** Everything that is stored, as text: if it is equal before and after, nothing was touched. */
export const everythingStored = unlessWritten(async () => JSON.stringify(await tablesStored()));

/** Saves everything that is stored; the returned function restores it. */
export async function saved(): Promise<() => Promise<void>> {
  const tables = await tablesStored();
  const place = ({ name }: Table) =>
    TRIGGERING.includes(name) ? TRIGGERING.indexOf(name) : Number.POSITIVE_INFINITY;
  const statements = tables
    .toSorted((a, b) => (place(a) < place(b) ? -1 : 1))
    .flatMap(({ name, rows }) => [
      env.DB.prepare(`DELETE FROM "${name}"`),
      ...rows.map((row) => {
        const columns = Object.keys(row).map((column) => `"${column}"`);
        const values = Object.values(row).map((value) =>
          Array.isArray(value) ? new Uint8Array(value) : value,
        );
        return env.DB.prepare(
          `INSERT INTO "${name}" (${columns}) VALUES (${columns.map((_, i) => `?${i + 1}`)})`,
        ).bind(...values);
      }),
    ]);
  return async () => void (await env.DB.batch(statements));
}
