/**
 * Commits entries: routes them, arranges them in bundles and writes these in one transaction.
 *
 * Every insert is guarded: it changes nothing where a tenant's destinations have changed since they were read, a key
 * is taken, or a token is stored already. Entries that were not inserted are looked up by key and token; those that
 * are not found are routed and committed again.
 */
import { capsOf } from "../config.ts";
import { bundleOf, destinationsOf, eventAt, indexOf, type Plan } from "../core/bundle.ts";
import type { JsonSchema } from "../core/json-schema.ts";
import { transientOf } from "../core/transient.ts";
import {
  commitUnits,
  findCommitted,
  findPlans,
  highestBefore,
  type KnownToken,
  type NewBundle,
  type StoredKey,
} from "../db/bundles.ts";
import { schemasOf } from "../db/event-types.ts";
import { databaseAt } from "../db/shards.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { repeatedly, within } from "../time.ts";
import {
  type AcceptedEvent,
  type CommitResult,
  type Draft,
  type DraftBundle,
  draftOf,
  draftsApart,
  draftsOf,
  type Entry,
  faultsOf,
  filterEntries,
  keyTenantOf,
  routedBy,
  routeOf,
  UNAVAILABLE,
  unitOf,
} from "./bundle.ts";
import { CATALOGUE, type Routes, schemaOf } from "./routing-cache.ts";

/** How long the sender of an entry waits for its commit. */
export const WAIT_MS = 10_000;

/** A bundle to enqueue. */
export type CommittedBundle = Readonly<{ id: number; plan: Plan; deliverAt?: number }>;

export type Committed = Readonly<{
  /** The results, in the order of the entries. */
  outcomes: readonly CommitResult[];
  bundles: readonly CommittedBundle[];
  /** Whose entries D1 refuses however often they are committed. */
  faultyTenants: readonly string[];
}>;

/** Rounds of commit and look-up: each further one needs a destination to have changed at that very moment. */
const ROUNDS = 5;
/** The timeout of a call of D1: within `WAIT_MS` there is time for a second one. */
const CALL_TIMEOUT_MS = 5_000;
/**
 * A commit tried at a time has an id above every bundle accepted so long before it: a margin for clocks that differ and
 * for slow commits.
 */
const CLOCK_MARGIN_MS = 60_000;
/** The pause before an uncertain commit is repeated, shortened by up to half. */
const PAUSE_MS = 100;

type Context = Readonly<{
  services: Services;
  database: number;
  acceptedAt: number;
  /** The tokens of all entries are looked for above this bundle, in every round: one known later could be too high. */
  floor: number;
  outcomes: Map<Entry, CommitResult>;
  bundles: Map<number, CommittedBundle>;
  faultyTenants: Set<string>;
}>;

/** Commits the entries to the database of that number. Never throws: on a failure, entries are `unavailable`. */
export async function commitEntries(
  services: Services,
  database: number,
  entries: readonly Entry[],
  acceptedAt: number,
): Promise<Committed> {
  const outcomes = new Map<Entry, CommitResult>();
  const bundles = new Map<number, CommittedBundle>();
  const faultyTenants = new Set<string>();
  try {
    const [floor] = await Promise.all([
      floorFor(services, database, entries),
      database === 0 && routesFor(services, database, routedBy(entries)),
    ]);
    await commitInTurn({ services, database, acceptedAt, floor, outcomes, bundles, faultyTenants }, entries);
  } catch (error) {
    services.log({ what: "commit_failed", entries: entries.length, error: faultOf(error) });
  }
  return {
    outcomes: entries.map((entry) => outcomes.get(entry) ?? UNAVAILABLE),
    bundles: [...bundles.values()],
    faultyTenants: [...faultyTenants],
  };
}

/** The lowest of the entries' floors. An entry that was tried before may be in any bundle since that time. */
async function floorFor(services: Services, database: number, entries: readonly Entry[]): Promise<number> {
  const { routing } = services;
  const db = databaseAt(services, database);
  if (!routing.hasFloor(database)) await withTimeout(services, routing.readFloor(db, database));
  const known = routing.floor(database);
  const least = entries.reduce((floor, entry) => Math.min(floor, entry.floor ?? known), known);
  const tried = entries.flatMap(({ triedAt }) => triedAt ?? []);
  if (tried.length === 0) return least;
  return Math.min(least, await highestBeforeTries(services, db, tried));
}

/** @param tried when entries were tried first, epoch ms */
function highestBeforeTries(services: Services, db: D1Database, tried: readonly number[]): Promise<number> {
  return withTimeout(services, highestBefore(db, Math.min(...tried) - CLOCK_MARGIN_MS));
}

/** Of entries with the same key or token the first is committed first: the others then find its result. */
async function commitInTurn(context: Context, entries: readonly Entry[]): Promise<void> {
  const { services, outcomes } = context;
  const firsts = new Map<string, Entry>();
  const repeats: { entry: Entry; first: Entry }[] = [];
  for (const entry of entries) {
    const names = namesOf(entry);
    const first = names.map((name) => firsts.get(name)).find((one) => one !== undefined);
    if (first) repeats.push({ entry, first });
    else for (const name of names) firsts.set(name, entry);
  }
  await commitTogether(context, draftsOf([...new Set(firsts.values())]));
  const settled = repeats.filter(({ first }) => outcomes.has(first)).map(({ entry }) => entry);
  if (settled.length === 0) return;
  try {
    await commitInTurn(context, await lookUp(context, settled));
  } catch (error) {
    services.log({ what: "commit_failed", entries: settled.length, error: faultOf(error) });
  }
}

function namesOf(entry: Entry): string[] {
  const token = `token ${entry.token}`;
  return entry.key ? [token, `key ${keyTenantOf(entry)} ${entry.key.key}`] : [token];
}

/**
 * Rounds of commit and look-up. A transient error ends them, after one repeat: entries without an outcome are
 * unavailable. A deterministic error is searched for by bisection, so that only the entry that causes it fails.
 */
async function commitTogether(context: Context, drafts: readonly Draft[]): Promise<void> {
  let open = drafts;
  try {
    for (let round = 1; open.length > 0 && round <= ROUNDS; round++) {
      const missed = await commitRound(context, beforeDeadline(context, open));
      open = missed.length > 0 ? draftsApart(await lookUp(context, missed)) : [];
    }
  } catch (error) {
    const entries = open.flatMap((draft) => draft.entries);
    context.services.log({ what: "commit_failed", entries: entries.length, error: faultOf(error) });
    if (!isDeterministic(error)) return;
    if (entries.length < 2) {
      for (const entry of entries) context.faultyTenants.add(keyTenantOf(entry));
      return;
    }
    const middle = Math.ceil(entries.length / 2);
    await commitTogether(context, draftsApart(entries.slice(0, middle)));
    await commitTogether(context, draftsApart(entries.slice(middle)));
  }
}

/** The drafts without the entries whose senders wait no longer. */
function beforeDeadline({ services }: Context, drafts: readonly Draft[]): readonly Draft[] {
  const now = services.now();
  return filterEntries(drafts, ({ deadlineAt }) => now <= deadlineAt);
}

/** Commits the drafts in one transaction; returns the entries of those that were not inserted. */
async function commitRound(context: Context, given: readonly Draft[]): Promise<readonly Entry[]> {
  if (given.length === 0) return [];
  const { services, database, acceptedAt, floor } = context;
  const { routes, valid } = await routedFor(context, given);
  const drafts = withinCap(context, valid, routes);
  if (drafts.length === 0) return [];
  const units = await Promise.all(drafts.map((draft) => unitOf(draft, database, routes)));
  const deadlineAt = Math.max(...drafts.flatMap(({ entries }) => entries.map((entry) => entry.deadlineAt)));
  const commit = { units, acceptedAt, floor };
  const committed = await repeatedOnce(services, deadlineAt, () =>
    commitUnits(databaseAt(services, database), database, commit),
  );
  return drafts.flatMap((draft, i) => {
    const ids = committed[i];
    if (!ids) return draft.entries;
    keepAccepted(context, draft, units[i]?.bundles ?? [], ids);
    return [];
  });
}

type Routed = Readonly<{ routes: ReadonlyMap<string, Routes>; valid: readonly Draft[] }>;

/**
 * What the drafts are routed by, and the drafts without the entries that do not agree with it. Before one is refused, the
 * destinations and schemas are read again, if they may be out of date; and what may be a repeat is looked up: of what is
 * stored already it gets the first result, whatever has changed since.
 */
async function routedFor(context: Context, drafts: readonly Draft[]): Promise<Routed> {
  const { services, database, outcomes } = context;
  const entries = drafts.flatMap((draft) => draft.entries);
  const tenants = routedBy(entries);
  const asked = await askedSchemas(context, entries);
  const withAsked = (found: ReadonlyMap<string, Routes>) => withSchemas(found, asked);
  let routes = withAsked(await routesFor(services, database, tenants));
  const isFaulty = (entry: Entry) => faultsOf(entry, routes).length > 0;
  if (!entries.some(isFaulty)) return { routes, valid: drafts };
  if (database === 0)
    routes = withAsked(await withTimeout(services, services.routing.read(services.db, tenants)));
  const faulty = entries.filter(isFaulty);
  const repeats = faulty.filter(({ key, triedAt }) => key !== undefined || triedAt !== undefined);
  if (repeats.length > 0) await lookUp(context, repeats);
  for (const entry of faulty)
    if (!outcomes.has(entry)) outcomes.set(entry, { kind: "invalid", faults: faultsOf(entry, routes) });
  return { routes, valid: filterEntries(drafts, (entry) => !outcomes.has(entry)) };
}

type Schemas = ReadonlyMap<string, JsonSchema>;

/** The schemas of types whose events ask to be validated. Costs a query, and only those. */
async function askedSchemas({ services }: Context, entries: readonly Entry[]): Promise<Schemas | undefined> {
  const types = entries.flatMap(({ events }) =>
    events.flatMap(({ type, options }) => (options?.validate ? [type] : [])),
  );
  if (types.length === 0) return undefined;
  const found = await withTimeout(services, schemasOf(services.db, types));
  return new Map(
    found.flatMap(({ name, schema }) => {
      const parsed = schemaOf(schema);
      return parsed === undefined ? [] : [[name, parsed] as const];
    }),
  );
}

/** The same with these schemas in the catalogue, for the events that ask to be validated. */
function withSchemas(
  routes: ReadonlyMap<string, Routes>,
  asked: Schemas | undefined,
): ReadonlyMap<string, Routes> {
  const catalogue = routes.get(CATALOGUE);
  if (!asked || !catalogue) return routes;
  return new Map([...routes, [CATALOGUE, { ...catalogue, asked }]]);
}

/** The drafts without the entries that would plan more deliveries than a request may. */
function withinCap(
  { services, outcomes }: Context,
  drafts: readonly Draft[],
  routes: ReadonlyMap<string, Routes>,
): readonly Draft[] {
  const most = capsOf(services.config).deliveries;
  for (const entry of drafts.flatMap((draft) => draft.entries)) {
    const possible = entry.events.reduce(
      (sum, { tenant }) => sum + (routes.get(tenant)?.routes.length ?? 0),
      0,
    );
    const planned =
      possible > most ? entry.events.reduce((sum, event) => sum + routeOf(event, routes).length, 0) : 0;
    if (planned > most) outcomes.set(entry, { kind: "too_many", planned });
  }
  return filterEntries(drafts, (entry) => !outcomes.has(entry));
}

/** Keeps the ids of an inserted draft as the outcomes of its entries. */
function keepAccepted(
  { services, database, outcomes, bundles }: Context,
  draft: Draft,
  planned: readonly NewBundle[],
  ids: readonly number[],
): void {
  const accepted = new Map<Entry, AcceptedEvent[]>(draft.entries.map((entry) => [entry, []]));
  for (const [i, id] of ids.entries()) {
    const { plan = {}, deliverAt } = planned[i] ?? {};
    services.routing.raiseFloor(database, id);
    bundles.set(id, { id, plan, ...(deliverAt !== undefined && { deliverAt }) });
    for (const [index, { entry, place }] of (draft.bundles[i]?.items ?? []).entries()) {
      const events = accepted.get(entry);
      if (events) events[place] = eventOf(id, index, plan, deliverAt);
    }
  }
  for (const [entry, events] of accepted) outcomes.set(entry, { kind: "accepted", events });
}

function eventOf(bundle: number, index: number, plan: Plan, deliverAt: number | undefined): AcceptedEvent {
  const id = eventAt(bundle, index);
  return { id, plan: destinationsOf(plan, index), ...(deliverAt !== undefined && { deliverAt }) };
}

/**
 * Looks up entries that were not inserted, keeps the outcomes of those that are stored, and returns the others. Their
 * tenants' destinations are read again.
 */
async function lookUp(context: Context, missed: readonly Entry[]): Promise<readonly Entry[]> {
  const { services, database, floor, outcomes } = context;
  const db = databaseAt(services, database);
  const [found] = await withTimeout(
    services,
    Promise.all([
      findStored(db, floor, missed, () => true),
      database === 0 && services.routing.read(services.db, routedBy(missed)),
    ]),
  );
  await keepFound(services, db, found, context);
  return missed.filter((entry) => !outcomes.has(entry));
}

/** Keeps the results of entries that are stored, and the bundles to enqueue of those that an earlier try has stored. */
async function keepFound(
  services: Services,
  db: D1Database,
  found: readonly Found[],
  { outcomes, bundles }: Pick<Context, "outcomes" | "bundles">,
): Promise<void> {
  const numbers = found.flatMap((one) => one.numbers);
  const plans = await withTimeout(services, plansOf(db, numbers));
  for (const { entry, own, stored, numbers } of found) {
    const events = storedEvents(plans, numbers);
    if (own) keepCommittedBefore({ outcomes, bundles }, entry, events, plans);
    else if (stored) outcomes.set(entry, keyResult(entry, stored, events));
  }
}

/** What is stored of an entry: `own` under its token, by an earlier try; `stored` under its key, by another request. */
type Found = Readonly<{
  entry: Entry;
  own: readonly number[] | undefined;
  stored: StoredKey | undefined;
  /** Of the events of either. */
  numbers: readonly number[];
}>;

/** @param isTried whether an entry's tokens may be stored above the floor */
async function findStored(
  db: D1Database,
  floor: number,
  entries: readonly Entry[],
  isTried: (entry: Entry) => boolean,
): Promise<readonly Found[]> {
  const keys = entries.flatMap((entry) =>
    entry.key ? [{ tenant: keyTenantOf(entry), key: entry.key.key }] : [],
  );
  const drafts = entries.map((entry) => ({ entry, bundles: draftOf([entry]).bundles }));
  const tokens = drafts.flatMap(({ entry, bundles }) =>
    isTried(entry) ? bundles.flatMap((bundle) => bundle.tokens) : [],
  );
  const known = await findCommitted(db, floor, tokens, keys);
  const byToken = new Map(known.tokens.map((found) => [found.token, found]));
  const byKey = new Map(known.keys.map((stored) => [`${stored.tenant} ${stored.key}`, stored]));
  return drafts.map(({ entry, bundles }) => {
    const own = numbersByToken(bundles, byToken);
    const stored = entry.key && byKey.get(`${keyTenantOf(entry)} ${entry.key.key}`);
    return { entry, own, stored, numbers: own ?? (stored ? numbersOf(stored) : []) };
  });
}

/** An earlier try of the entry was committed, and its result got lost. Its bundles are enqueued again, which is harmless. */
function keepCommittedBefore(
  { outcomes, bundles }: Pick<Context, "outcomes" | "bundles">,
  entry: Entry,
  events: readonly AcceptedEvent[],
  plans: Plans,
): void {
  for (const { id } of events) {
    const bundle = plans.get(bundleOf(id));
    if (bundle && !bundles.has(bundle.id)) bundles.set(bundle.id, bundle);
  }
  outcomes.set(entry, { kind: "accepted", events });
}

type Plans = ReadonlyMap<number, CommittedBundle>;

async function plansOf(db: D1Database, numbers: readonly number[]): Promise<Plans> {
  const found = await findPlans(db, [...new Set(numbers.map(bundleOf))]);
  return new Map(found.map((bundle) => [bundle.id, bundle]));
}

/**
 * The results of those entries that a database has already, and the bundles to enqueue again: stored under their keys by
 * another request, or by an earlier try of their own.
 */
export async function storedResults(
  services: Services,
  database: number,
  entries: readonly Entry[],
): Promise<Readonly<{ outcomes: ReadonlyMap<Entry, CommitResult>; bundles: readonly CommittedBundle[] }>> {
  const db = databaseAt(services, database);
  const results = { outcomes: new Map<Entry, CommitResult>(), bundles: new Map<number, CommittedBundle>() };
  const tried = entries.flatMap(({ triedAt }) => triedAt ?? []);
  const floor = tried.length > 0 ? await highestBeforeTries(services, db, tried) : 0;
  const isTried = ({ triedAt }: Entry) => triedAt !== undefined;
  const found = await withTimeout(services, findStored(db, floor, entries, isTried));
  await keepFound(services, db, found, results);
  return { outcomes: results.outcomes, bundles: [...results.bundles.values()] };
}

function numbersOf({ bundles, places }: StoredKey): number[] {
  return places.map(([bundle, index]) => eventAt(bundles[bundle] ?? 0, index));
}

/** @param events those stored under the key */
function keyResult({ key }: Entry, stored: StoredKey, events: readonly AcceptedEvent[]): CommitResult {
  return stored.fingerprint === key?.fingerprint ? { kind: "replayed", events } : { kind: "conflict" };
}

/** Events by their numbers. One that has been removed has no plan any more. */
function storedEvents(plans: Plans, numbers: readonly number[]): AcceptedEvent[] {
  return numbers.map((number) => {
    const bundle = plans.get(bundleOf(number));
    if (!bundle) return { id: number, plan: [], isRemoved: true };
    return eventOf(bundle.id, indexOf(number), bundle.plan, bundle.deliverAt);
  });
}

/** The numbers of an entry's events, if its tokens are stored. */
function numbersByToken(
  bundles: readonly DraftBundle[],
  known: ReadonlyMap<string, KnownToken>,
): number[] | undefined {
  const numbers: number[] = [];
  for (const { tokens, items } of bundles) {
    const found = known.get(tokens[0] ?? "");
    if (!found) return undefined;
    for (const [index, { place }] of items.entries()) numbers[place] = eventAt(found.id, found.place + index);
  }
  return numbers;
}

/**
 * In the first database the commit compares the revisions. In another it cannot, so they are read after the request's
 * arrival.
 */
async function routesFor(
  services: Services,
  database: number,
  tenants: readonly string[],
): Promise<ReadonlyMap<string, Routes>> {
  if (database > 0) return withTimeout(services, services.routing.fresh(services.db, tenants));
  return (
    services.routing.known(tenants) ??
    (await withTimeout(services, services.routing.read(services.db, tenants)))
  );
}

/**
 * Repeats the commit once after an uncertain result: the tokens keep it from being stored twice. An overloaded database
 * is not asked again: the sender is told when to come again.
 */
function repeatedOnce<T>(services: Services, until: number, commit: () => Promise<T>): Promise<T> {
  const isWorthwhile = (error: unknown) => {
    if (isDeterministic(error) || transientOf(error) === "overloaded") return false;
    services.log({ what: "commit_repeated", error: faultOf(error) });
    return true;
  };
  const repeats = { most: 1, until, pauseMs: PAUSE_MS, isWorthwhile };
  return repeatedly(services, repeats, () => withTimeout(services, commit()));
}

function withTimeout<T>(services: Services, call: Promise<T>): Promise<T> {
  return within(services, CALL_TIMEOUT_MS, call);
}

/** SQLite refuses the content of a statement however often it is repeated; every other error may be transient. */
function isDeterministic(error: unknown): boolean {
  return (
    error instanceof Error && /SQLITE_(CONSTRAINT|TOOBIG|MISMATCH|RANGE)|too (big|large)/i.test(error.message)
  );
}
