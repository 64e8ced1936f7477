/**
 * The destinations of tenants as routing needs them, cached in memory with the tenant's revision: a number that every
 * change of a destination raises, by trigger, so that an edit by hand counts too. The cache may be stale: a commit
 * compares the revisions, and where one has changed the tenant's destinations are read again.
 *
 * The schemas of validated event types belong to the whole deployment. They are cached in the same way, under the tenant
 * without a name: so a commit notices a change of them by the comparison that it makes anyway, and where no type is
 * validated nothing is read for them.
 */
import { bodyFormOf } from "../core/content.ts";
import { type JsonSchema, schemaFaults } from "../core/json-schema.ts";
import { channelsInEffect, type Route } from "../core/routing.ts";

export type Routes = Readonly<{
  revision: number;
  routes: readonly Route[];
  /** By event type; of the catalogue only. */
  schemas?: ReadonlyMap<string, JsonSchema>;
  /** The same, for those events alone that ask to be validated whether or not their type is. */
  asked?: ReadonlyMap<string, JsonSchema>;
}>;

/** The tenant whose revision is that of the validated event types. No tenant is called so. */
export const CATALOGUE = "";

/** Destinations kept over all tenants; the least recently used tenants are evicted first. */
const MOST_KEPT = 20_000;

const REVISIONS = `
  SELECT w.value AS tenant, coalesce(t.revision, 0) AS revision
  FROM json_each(?1) w LEFT JOIN tenants t ON t.id = w.value`;

const ROUTES = `
  SELECT d.tenant, d.id, d.event_types AS types, d.channels, d.filter, d.body FROM json_each(?1) w
  JOIN destinations d ON d.tenant = w.value AND d.deleted_at IS NULL ORDER BY d.tenant, d.id`;

/** Only if their revision is not the known one, `?1`: compared first, because as a condition on each type it reads them all. */
const VALIDATED = `
  SELECT name, schema
  FROM (SELECT 1 WHERE coalesce((SELECT revision FROM tenants WHERE id = '${CATALOGUE}'), 0) <> ?1)
  CROSS JOIN event_types INDEXED BY event_types_validating WHERE validates = 1`;

const HIGHEST = "SELECT max(id) AS id FROM bundles";

type Revision = Readonly<{ tenant: string; revision: number }>;

type ValidatedRow = Readonly<{ name: string; schema: string | null }>;

type RouteRow = Readonly<{
  tenant: string;
  id: string;
  types: string | null;
  channels: string | null;
  filter: string | null;
  body: string;
}>;

export class RoutingCache {
  readonly #known = new Map<string, Routes>();
  #size = 0;
  /** At first as where no type has ever been validated, which has no row that could be read. */
  #catalogue: Routes = { revision: 0, routes: [], schemas: new Map() };

  /** The highest bundle id known of each database. */
  readonly #floors: number[] = [];

  /** The highest bundle id known of a database: later commits get higher ones. */
  floor(database: number): number {
    return this.#floors[database] ?? 0;
  }

  hasFloor(database: number): boolean {
    return this.#floors[database] !== undefined;
  }

  raiseFloor(database: number, bundle: number): void {
    this.#floors[database] = Math.max(this.floor(database), bundle);
  }

  async readFloor(db: D1Database, database: number): Promise<void> {
    this.raiseFloor(database, (await db.prepare(HIGHEST).first<number>("id")) ?? 0);
  }

  /** The cached destinations of the tenants; undefined when one of the tenants is not cached. */
  known(tenants: readonly string[]): ReadonlyMap<string, Routes> | undefined {
    const found = tenants.map((tenant) => [tenant, this.#of(tenant)] as const);
    if (found.some(([, routes]) => routes === undefined)) return undefined;
    for (const [tenant, routes] of found) if (routes) this.#keep(tenant, routes);
    return new Map(found as [string, Routes][]);
  }

  /** The tenants' current destinations: reads the revisions, and the destinations only where a revision has changed. */
  async fresh(db: D1Database, tenants: readonly string[]): Promise<ReadonlyMap<string, Routes>> {
    const known = this.known(tenants);
    if (!known) return this.read(db, tenants);
    const { results } = await db.prepare(REVISIONS).bind(JSON.stringify(tenants)).all<Revision>();
    const changed = results.filter(({ tenant, revision }) => known.get(tenant)?.revision !== revision);
    if (changed.length === 0) return known;
    const read = await this.read(
      db,
      changed.map(({ tenant }) => tenant),
    );
    return new Map([...known, ...read]);
  }

  /** Reads the tenants' destinations; in one transaction with their revisions, so that the two agree. */
  async read(db: D1Database, tenants: readonly string[]): Promise<ReadonlyMap<string, Routes>> {
    const wanted = JSON.stringify(tenants);
    // Another read may replace it before this one is answered.
    const catalogue = this.#catalogue;
    const [revisions, rows, validated] = await db.batch<Record<string, unknown>>([
      db.prepare(REVISIONS).bind(wanted),
      db.prepare(ROUTES).bind(wanted),
      ...(tenants.includes(CATALOGUE) ? [db.prepare(VALIDATED).bind(catalogue.revision)] : []),
    ]);
    const routes = Map.groupBy((rows?.results ?? []) as RouteRow[], ({ tenant }) => tenant);
    const read = ((revisions?.results ?? []) as Revision[]).map(({ tenant, revision }): [string, Routes] =>
      tenant === CATALOGUE
        ? [tenant, catalogueAfter(catalogue, revision, (validated?.results ?? []) as ValidatedRow[])]
        : [tenant, { revision, routes: (routes.get(tenant) ?? []).map(routeOf) }],
    );
    for (const [tenant, found] of read) this.#keep(tenant, found);
    this.#evict(tenants);
    return new Map(read);
  }

  #of(tenant: string): Routes | undefined {
    return tenant === CATALOGUE ? this.#catalogue : this.#known.get(tenant);
  }

  #keep(tenant: string, routes: Routes): void {
    if (tenant === CATALOGUE) {
      this.#catalogue = routes;
      return;
    }
    this.#size += weightOf(routes) - weightOf(this.#known.get(tenant));
    this.#known.delete(tenant);
    this.#known.set(tenant, routes);
  }

  /** @param but tenants to keep, because they are needed now */
  #evict(but: readonly string[]): void {
    for (const [tenant, routes] of this.#known) {
      if (this.#size <= MOST_KEPT) return;
      if (but.includes(tenant)) continue;
      this.#known.delete(tenant);
      this.#size -= weightOf(routes);
    }
  }
}

/** @param rows the validated types, where the revision is not the known one */
function catalogueAfter(known: Routes, revision: number, rows: readonly ValidatedRow[]): Routes {
  if (revision === known.revision) return known;
  const schemas = rows.flatMap(({ name, schema }): [string, JsonSchema][] => {
    const parsed = schemaOf(schema);
    return parsed === undefined ? [] : [[name, parsed]];
  });
  return { revision, routes: [], schemas: new Map(schemas) };
}

/** The schema of a type; undefined where an edit by hand has made it unusable: such a type takes everything. */
export function schemaOf(text: string | null): JsonSchema | undefined {
  const parsed = jsonOr(text, undefined);
  return parsed !== undefined && schemaFaults(parsed).length === 0 ? (parsed as JsonSchema) : undefined;
}

/** A tenant without destinations counts too. */
function weightOf(routes: Routes | undefined): number {
  return routes ? routes.routes.length + 1 : 0;
}

function routeOf({ id, types, channels, filter, body }: RouteRow): Route {
  const parsed = jsonOr(types, null);
  return {
    destination: id,
    types: Array.isArray(parsed) ? parsed : null,
    channels: channelsInEffect(jsonOr(channels, null)),
    filter: jsonOr(filter, null),
    ...(bodyFormOf(body) === "data" && { takesContent: true }),
  };
}

/** Text that an edit by hand has made invalid JSON reads as `fallback`. */
function jsonOr(text: string | null, fallback: unknown): unknown {
  try {
    return text === null ? fallback : JSON.parse(text);
  } catch {
    return fallback;
  }
}
