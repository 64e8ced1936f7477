/**
 * The destinations of tenants as routing needs them, cached in memory with the tenant's revision: a number that every
 * change of a destination raises, by trigger, so that an edit by hand counts too.
 *
 * - It saves a commit the reading of its tenants' destinations, and the round trip for that.
 * - Cold it costs a commit one more round trip, and a row for each destination of those tenants that are missing; full, the
 * same for the tenants that were used least recently. Cached tenants are not read again. Old it costs a round of the
 * commit.
 * - It may be stale for any time without an effect: a commit to the first database compares the revisions in its
 *   transaction, and for one to another database they are read after the events arrived.
 * - Nothing invalidates it. Where a revision has changed, the destinations of that tenant are read again.
 *
 * The schemas of validated event types, and the newest versions of types that have several, belong to the whole deployment. They are cached in the same way, under the tenant
 * without a name: so a commit notices a change of them by the comparison that it makes anyway, and where no type is
 * validated or has versions nothing is read for them.
 */

import type { EventVersion } from "../core/bundle.ts";
import { bodyFormOf } from "../core/content.ts";
import { POLLED_TARGET } from "../core/inbox.ts";
import { type JsonSchema, schemaFaults } from "../core/json-schema.ts";
import type { OrderRule } from "../core/order.ts";
import type { RetrySpec } from "../core/retry/policy.ts";
import { channelsInEffect, type Route } from "../core/routing.ts";
import { highestId } from "../store/commit.ts";
import { type Destination, orderRuleOf } from "../store/destination.ts";

export type Routes = Readonly<{
  revision: number;
  routes: readonly Route[];
  /** The ordering rules of destinations that order their deliveries; absent: there are none. */
  orders?: ReadonlyMap<string, OrderRule>;
  /** The polled destinations; absent: there are none. */
  polled?: ReadonlySet<string>;
  /** By event type; of the catalogue only. */
  schemas?: ReadonlyMap<string, JsonSchema>;
  /** The newest versions of event types that have more than one; of the catalogue only. */
  versions?: ReadonlyMap<string, EventVersion>;
  /** The same, for those events alone that ask to be validated whether or not their type is. */
  asked?: ReadonlyMap<string, JsonSchema>;
}>;

/** The tenant whose revision is that of the validated event types. No tenant is called so. */
export const CATALOGUE = "";

/**
 * Limits over all tenants: each tenant counts one, and each of its destinations one for each started portion of
 * characters in its filters. So the cache needs at most about 20 MB. The least recently used tenants are evicted first.
 */
const MOST_KEPT = 40_000;
const CHARACTERS = 256;

const REVISIONS = `
  SELECT w.value AS tenant, coalesce(t.revision, 0) AS revision
  FROM json_each(?1) w LEFT JOIN tenants t ON t.id = w.value`;

/** Reads those tenants of an object whose revision is not the one there, which is compared before they are read. */
const ROUTES = `
  SELECT d.tenant, d.id, d.event_types AS types, d.channels, d.filter, d.body, d.url = '${POLLED_TARGET}' AS polled,
    d.expires_at AS expiresAt,
    d.ordering, d.ordering_path AS orderingPath, d.on_dead AS onDead, iif(d.ordering IS NULL, NULL, d.retry) AS retry
  FROM (SELECT w.key AS tenant FROM json_each(?1) w LEFT JOIN tenants t ON t.id = w.key
    WHERE coalesce(t.revision, 0) <> w.value) changed
  CROSS JOIN destinations d ON d.tenant = changed.tenant AND d.deleted_at IS NULL ORDER BY d.tenant, d.id`;

/** Only if their revision is not the known one, `?1`: compared first, because as a condition on each type it reads them all. */
const CATALOGUED = `
  SELECT name, iif(validates = 1, schema, NULL) AS schema, version, version_at AS since
  FROM (SELECT 1 WHERE coalesce((SELECT revision FROM tenants WHERE id = '${CATALOGUE}'), 0) <> ?1)
  CROSS JOIN event_types INDEXED BY event_types_posted WHERE validates = 1 OR version > 1`;

/** The revision of a tenant of which nothing is known. Real ones are not negative. */
const UNKNOWN = -1;

type Revision = Readonly<{ tenant: string; revision: number }>;

type CatalogueRow = EventVersion & Readonly<{ name: string; schema: string | null }>;

type OrderColumns = Readonly<
  Pick<Destination, "ordering" | "orderingPath" | "onDead"> & { retry: string | null }
>;

type RouteRow = Readonly<{
  tenant: string;
  id: string;
  types: string | null;
  channels: string | null;
  filter: string | null;
  body: string;
  polled: number;
  expiresAt: number | null;
}> &
  OrderColumns;

/** Cached routes, and what they count in the cache. */
type Kept = Readonly<{ routes: Routes; weight: number }>;

export class RoutingCache {
  readonly #known = new Map<string, Kept>();
  #size = 0;
  #catalogue: Kept | undefined;

  /**
   * The highest bundle id known of each database, above which a commit looks for its tokens.
   *
   * - It saves a commit the round trip to read it.
   * - Cold it costs that round trip, beside the one for destinations. Old it costs up to two hundred rows of bundles, or where
   *   there are more, one refused commit, which returns the highest id.
   * - However old, it causes no wrong answer: it is only ever too low.
   * - Every commit raises it, also a refused one.
   */
  readonly #floors: number[] = [];
  /**
   * Readings under way, by the invocation's own database object. A reading must not outlive the invocation that began
   * it: one that was killed never settles, so others would wait for it for ever.
   */
  readonly #readings = new WeakMap<D1Database, Promise<void>>();

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

  /** Reads the highest bundle id of a database; once for all of an invocation, or an object, that wait for it. */
  readFloor(db: D1Database, database: number): Promise<void> {
    const underWay = this.#readings.get(db);
    if (underWay) return underWay;
    const reading = highestId(db, database)
      .then((id) => this.raiseFloor(database, id))
      .finally(() => this.#readings.delete(db));
    this.#readings.set(db, reading);
    return reading;
  }

  /** The cached destinations of the tenants; undefined when one of the tenants is not cached. */
  known(tenants: readonly string[]): ReadonlyMap<string, Routes> | undefined {
    const known = this.#use(tenants);
    return tenants.every((tenant) => known.has(tenant)) ? routesOf(known) : undefined;
  }

  /** The tenants' destinations as they are cached; reads those that are not. */
  async cached(db: D1Database, tenants: readonly string[]): Promise<ReadonlyMap<string, Routes>> {
    const known = this.#use(tenants);
    const missing = tenants.filter((tenant) => !known.has(tenant));
    if (missing.length === 0) return routesOf(known);
    const read = await this.read(db, missing);
    return new Map([...routesOf(known), ...read]);
  }

  /** The tenants' current destinations; where all are cached and none has changed, by a query of their revisions alone. */
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

  /**
   * The tenants' current destinations in one round trip: reads the revisions, and in one transaction with them, so that the
   * two agree, the destinations of those tenants that are not cached or have changed.
   */
  async read(db: D1Database, tenants: readonly string[]): Promise<ReadonlyMap<string, Routes>> {
    // Another read may replace the cached routes before this one is answered.
    const known = this.#use(tenants);
    const revisionOf = (tenant: string) => known.get(tenant)?.routes.revision ?? UNKNOWN;
    const named = tenants.filter((tenant) => tenant !== CATALOGUE);
    const wanted = Object.fromEntries(named.map((tenant) => [tenant, revisionOf(tenant)]));
    const [revisions, rows, catalogued] = await db.batch<Record<string, unknown>>([
      db.prepare(REVISIONS).bind(JSON.stringify(tenants)),
      db.prepare(ROUTES).bind(JSON.stringify(wanted)),
      ...(tenants.includes(CATALOGUE) ? [db.prepare(CATALOGUED).bind(revisionOf(CATALOGUE))] : []),
    ]);
    const found = Map.groupBy((rows?.results ?? []) as RouteRow[], ({ tenant }) => tenant);
    const read = ((revisions?.results ?? []) as Revision[]).map(({ tenant, revision }): [string, Kept] => {
      const cached = known.get(tenant);
      if (cached?.routes.revision === revision) return [tenant, cached];
      if (tenant === CATALOGUE) {
        const types = (catalogued?.results ?? []) as CatalogueRow[];
        return [
          tenant,
          keptOf({ revision, routes: [], schemas: schemasIn(types), ...versionsIn(types) }, []),
        ];
      }
      const own = found.get(tenant) ?? [];
      return [
        tenant,
        keptOf({ revision, routes: own.map(routeOf), ...ordersOf(own), ...polledOf(own) }, own),
      ];
    });
    for (const [tenant, kept] of read) this.#keep(tenant, kept);
    this.#evict(new Set(tenants));
    return routesOf(new Map(read));
  }

  /** Returns the cached tenants, which are the most recently used then. */
  #use(tenants: readonly string[]): ReadonlyMap<string, Kept> {
    const used = new Map<string, Kept>();
    for (const tenant of tenants) {
      const kept = tenant === CATALOGUE ? this.#catalogue : this.#known.get(tenant);
      if (!kept) continue;
      this.#keep(tenant, kept);
      used.set(tenant, kept);
    }
    return used;
  }

  #keep(tenant: string, kept: Kept): void {
    if (tenant === CATALOGUE) {
      this.#catalogue = kept;
      return;
    }
    this.#size += kept.weight - (this.#known.get(tenant)?.weight ?? 0);
    this.#known.delete(tenant);
    this.#known.set(tenant, kept);
  }

  /** @param but tenants to keep, because they are needed now */
  #evict(but: ReadonlySet<string>): void {
    for (const [tenant, { weight }] of this.#known) {
      if (this.#size <= MOST_KEPT) return;
      if (but.has(tenant)) continue;
      this.#known.delete(tenant);
      this.#size -= weight;
    }
  }
}

function routesOf(kept: ReadonlyMap<string, Kept>): ReadonlyMap<string, Routes> {
  return new Map([...kept].map(([tenant, { routes }]) => [tenant, routes]));
}

function versionsIn(rows: readonly CatalogueRow[]): Pick<Routes, "versions"> {
  const some = rows.filter(({ version }) => version > 1);
  if (some.length === 0) return {};
  return { versions: new Map(some.map(({ name, version, since }) => [name, { version, since }])) };
}

function schemasIn(rows: readonly CatalogueRow[]): ReadonlyMap<string, JsonSchema> {
  return new Map(
    rows.flatMap(({ name, schema }): [string, JsonSchema][] => {
      const parsed = schemaOf(schema);
      return parsed === undefined ? [] : [[name, parsed]];
    }),
  );
}

/** The schema of a type; undefined if an edit by hand has made it unusable: such a type takes everything. */
export function schemaOf(text: string | null): JsonSchema | undefined {
  const parsed = jsonOr(text, undefined);
  return parsed !== undefined && schemaFaults(parsed).length === 0 ? (parsed as JsonSchema) : undefined;
}

/** @param rows those that the routes were read from. A tenant without destinations counts too. */
function keptOf(routes: Routes, rows: readonly RouteRow[]): Kept {
  const weights = rows.map(({ types, channels, filter }) => {
    const characters = (types?.length ?? 0) + (channels?.length ?? 0) + (filter?.length ?? 0);
    return 1 + Math.floor(characters / CHARACTERS);
  });
  return { routes, weight: weights.reduce((sum, one) => sum + one, 1) };
}

function routeOf({ id, types, channels, filter, body, expiresAt }: RouteRow): Route {
  const parsed = jsonOr(types, null);
  return {
    destination: id,
    types: Array.isArray(parsed) ? parsed : null,
    channels: channelsInEffect(jsonOr(channels, null)),
    filter: jsonOr(filter, null),
    ...(bodyFormOf(body) === "data" && { takesContent: true }),
    ...(expiresAt !== null && { expiresAt }),
  };
}

/** The rules of those of the destinations that order their deliveries, if any does. */
function ordersOf(rows: readonly RouteRow[]): Pick<Routes, "orders"> {
  const orders = rows.flatMap(({ id, retry, ...row }) => {
    const rule = orderRuleOf({ ...row, retry: jsonOr(retry, null) as RetrySpec | null });
    return rule ? [[id, rule] as const] : [];
  });
  return orders.length > 0 ? { orders: new Map(orders) } : {};
}

function polledOf(rows: readonly RouteRow[]): Pick<Routes, "polled"> {
  const polled = rows.flatMap((row) => (row.polled === 1 ? [row.id] : []));
  return polled.length > 0 ? { polled: new Set(polled) } : {};
}

/** Text that an edit by hand has made invalid JSON reads as `fallback`. */
function jsonOr(text: string | null, fallback: unknown): unknown {
  try {
    return text === null ? fallback : JSON.parse(text);
  } catch {
    return fallback;
  }
}
