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
import { randomText } from "../ids.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import {
  commitUnits,
  findCommitted,
  findPlans,
  type KnownToken,
  type NewBundle,
  type NumberSpan,
  type PlannedBundle,
  type StoredIdempotencyKey,
} from "../store/commit.ts";
import { databaseAt } from "../store/databases.ts";
import { schemasOf } from "../store/event-types.ts";
import { idBefore } from "../store/time-ranges.ts";
import { repeatedly, within } from "../time.ts";
import {
  type AcceptedEvent,
  type CommitOutcome,
  type CommitResult,
  type Draft,
  type DraftBundle,
  draftOf,
  draftsApart,
  draftsOf,
  type Entry,
  eventFaultsOf,
  filterEntries,
  keyTenantOf,
  pinnedBy,
  routedBy,
  routeOf,
  tenantsOf,
  UNAVAILABLE,
  unitOf,
} from "./bundle.ts";
import { SECOND_CALL_MS } from "./intake-protocol.ts";
import { CATALOGUE, type Routes, schemaOf } from "./routing-cache.ts";

/** How long the sender of an entry waits for its commit. */
export const WAIT_MS = 10_000;

/** A bundle to enqueue. */
export type CommittedBundle = Readonly<{
  id: number;
  plan: Plan;
  deliverAt?: number;
  /** Polled destinations: their deliveries have ended with the commit, and their consumers may wait for it. */
  polled?: readonly string[];
}>;

export type Committed = Readonly<{
  /** The results, in the order of the entries. */
  outcomes: readonly CommitOutcome[];
  bundles: readonly CommittedBundle[];
  /** Tenants whose entries D1 refuses however often they are committed. */
  faultyTenants: readonly string[];
}>;

/** Rounds of commit and look-up: each further one needs a destination to have changed at that very moment. */
const ROUNDS = 5;
/** The timeout of a call of D1: within `WAIT_MS` there is time for a second one. */
const CALL_TIMEOUT_MS = 5_000;
/**
 * Bundles of others in which a commit looks for its tokens. Objects that commit equally often have as many between two
 * commits as there are objects. Where there are more, nothing is inserted, and the floor is read again.
 */
const FAR = 200;
/** Like `FAR`, if the floor has just been read. */
const UNBOUNDED = 2 ** 50;
/** Characters of five random bits each, which distinguish the tries of a commit. */
const NONCE_LENGTH = 16;
/** The pause before an uncertain commit is repeated, shortened by up to half. */
const PAUSE_MS = 100;

/**
 * Tokens are looked for above the floor: a bundle that existed before any try to store the entries. A later one could
 * be too high.
 */
type Bound = Readonly<{
  floor: number;
  /** Nothing is committed if there are more bundles above the floor. */
  far: number;
}>;

type Context = Readonly<{
  services: Services;
  database: number;
  acceptedAt: number;
  /** Routes of the entries beyond the first database, read after they arrived; absent: it is read. */
  routes?: ReadonlyMap<string, Routes> | undefined;
  outcomes: Map<Entry, CommitOutcome>;
  /** Entries that a call without an answer may still store. */
  uncertain: Set<Entry>;
  bundles: Map<number, CommittedBundle>;
  faultyTenants: Set<string>;
}>;

/**
 * Commits the entries to the database of that number. Never throws: on a failure, entries are `unavailable`.
 * @param routes what the entries are routed by beyond the first database, read after they arrived; absent: it is read
 */
export async function commitEntries(
  services: Services,
  database: number,
  entries: readonly Entry[],
  acceptedAt: number,
  routes?: ReadonlyMap<string, Routes>,
): Promise<Committed> {
  const outcomes = new Map<Entry, CommitOutcome>();
  const bundles = new Map<number, CommittedBundle>();
  const faultyTenants = new Set<string>();
  const uncertain = new Set(entries.filter(({ triedAt }) => triedAt !== undefined));
  try {
    const [bound] = await Promise.all([
      boundFor(services, database, entries),
      database === 0 && routesFor(services, database, routedBy(entries)),
    ]);
    const context = { services, database, acceptedAt, outcomes, uncertain, bundles, faultyTenants };
    await commitInTurn(database > 0 ? { ...context, routes } : context, bound, entries);
  } catch (error) {
    services.log({ what: "commit_failed", entries: entries.length, error: faultOf(error) });
  }
  return {
    outcomes: entries.map((entry) => outcomes.get(entry) ?? UNAVAILABLE),
    bundles: [...bundles.values()],
    faultyTenants: [...faultyTenants],
  };
}

/** The lowest of the entries' floors. One that was tried before may be in any bundle since that time. */
async function boundFor(services: Services, database: number, entries: readonly Entry[]): Promise<Bound> {
  const { routing } = services;
  const db = databaseAt(services, database);
  if (!routing.hasFloor(database)) await withTimeout(services, routing.readFloor(db, database));
  const known = routing.floor(database);
  const isUncertain = (entry: Entry) =>
    entry.triedAt !== undefined || (entry.floor === undefined && mayBeElsewhere(services, entry));
  if (entries.some(isUncertain)) {
    return { floor: await floorOfTime(services, db, entries, services.now()), far: UNBOUNDED };
  }
  const floor = entries.reduce((least, entry) => Math.min(least, entry.floor ?? known), known);
  return { floor, far: entries.some(({ triedWithin }) => triedWithin) ? UNBOUNDED : FAR };
}

/** Whether another object may have tried the entry by now. */
function mayBeElsewhere(services: Services, { arrivedAt }: Entry): boolean {
  return arrivedAt !== undefined && services.now() - arrivedAt >= SECOND_CALL_MS;
}

/** A bundle id that is certainly below those of all tries of the entries, the first of which here was at `triedHere`. */
function floorOfTime(
  services: Services,
  db: D1Database,
  entries: readonly Entry[],
  triedHere: number,
): Promise<number> {
  const times = entries.map(({ triedAt, arrivedAt }) => triedAt ?? arrivedAt ?? triedHere);
  return withTimeout(services, idBefore(db, Math.min(...times)));
}

/** The bound of a round in which nothing was inserted because the floor was too far below the highest id. */
async function nearerBound(
  { services, database, acceptedAt }: Context,
  floor: number,
  { missed, highest, isUncertain }: Round,
): Promise<Bound> {
  if (!isUncertain && !missed.some((entry) => mayBeElsewhere(services, entry)))
    return { floor: highest, far: UNBOUNDED };
  const byTime = await floorOfTime(services, databaseAt(services, database), missed, acceptedAt);
  return { floor: Math.max(floor, byTime), far: UNBOUNDED };
}

/** Among entries with the same key or token, the first is committed first: the others then find its result. */
async function commitInTurn(context: Context, bound: Bound, entries: readonly Entry[]): Promise<void> {
  const { services, outcomes } = context;
  const firsts = new Map<string, Entry>();
  const repeats: { entry: Entry; first: Entry }[] = [];
  for (const entry of entries) {
    const names = namesOf(entry);
    const first = names.map((name) => firsts.get(name)).find((one) => one !== undefined);
    if (first) repeats.push({ entry, first });
    else for (const name of names) firsts.set(name, entry);
  }
  const floor = await commitTogether(context, bound, draftsOf([...new Set(firsts.values())]));
  const settled = repeats.filter(({ first }) => outcomes.has(first)).map(({ entry }) => entry);
  if (settled.length === 0) return;
  try {
    const { missed, highest } = await lookUp(context, floor, settled);
    await commitInTurn(context, { floor: highest, far: UNBOUNDED }, missed);
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
 * Returns a floor that the entries' tokens are above.
 */
async function commitTogether(context: Context, first: Bound, drafts: readonly Draft[]): Promise<number> {
  let open = drafts;
  let bound = first;
  let floor = first.floor;
  try {
    for (let round = 1; open.length > 0 && round <= ROUNDS; round++) {
      const done = await commitRound(context, bound, beforeDeadline(context, open));
      const { missed, highest } = done;
      if (missed.length > 0 && highest - bound.floor > bound.far) {
        bound = await nearerBound(context, bound.floor, done);
        floor = bound.floor;
        open = draftsOf(missed);
      } else if (missed.length > 0) {
        const found = await lookUp(context, bound.floor, missed);
        // An entry that is not found is above the highest bundle of that time, if it is stored at all.
        bound = { floor: found.highest, far: UNBOUNDED };
        open = round + 1 < ROUNDS ? draftsOf(found.missed) : draftsApart(found.missed);
      } else open = [];
    }
  } catch (error) {
    const entries = open.flatMap((draft) => draft.entries);
    context.services.log({ what: "commit_failed", entries: entries.length, error: faultOf(error) });
    if (!isDeterministic(error)) return floor;
    if (entries.length < 2) {
      for (const entry of entries) context.faultyTenants.add(keyTenantOf(entry));
      return floor;
    }
    const middle = Math.ceil(entries.length / 2);
    const before = await commitTogether(context, bound, draftsOf(entries.slice(0, middle)));
    const after = await commitTogether(context, bound, draftsOf(entries.slice(middle)));
    return Math.min(before, after);
  }
  return floor;
}

/** The drafts without the entries whose senders wait no longer. */
function beforeDeadline({ services }: Context, drafts: readonly Draft[]): readonly Draft[] {
  const now = services.now();
  return filterEntries(drafts, ({ deadlineAt }) => now <= deadlineAt);
}

type Round = Readonly<{
  /** The entries that were not inserted. */
  missed: readonly Entry[];
  /** The highest bundle id before it. */
  highest: number;
  /** Whether an earlier try had no answer. */
  isUncertain: boolean;
}>;

/** Commits the drafts in one transaction. */
async function commitRound(context: Context, { floor, far }: Bound, given: readonly Draft[]): Promise<Round> {
  const { services, database, acceptedAt } = context;
  const { routes, valid } = await routedFor(context, floor, given);
  const drafts = withinCap(context, valid, routes);
  if (drafts.length === 0) return { missed: [], highest: floor, isUncertain: false };
  const units = await Promise.all(drafts.map((draft) => unitOf(draft, database, routes, acceptedAt)));
  const deadlineAt = Math.max(...drafts.flatMap(({ entries }) => entries.map((entry) => entry.deadlineAt)));
  const commit = { units, acceptedAt, floor, far, nonce: () => randomText(NONCE_LENGTH) };
  let tries = 0;
  const { ids, highest } = await repeatedOnce(services, deadlineAt, () => {
    tries += 1;
    return commitUnits(databaseAt(services, database), database, commit);
  });
  services.routing.raiseFloor(database, highest);
  if (tries > 1) for (const { entries } of drafts) for (const entry of entries) context.uncertain.add(entry);
  const missed = drafts.flatMap((draft, i) => {
    const own = ids[i];
    if (!own) return draft.entries;
    keepAccepted(context, draft, units[i]?.bundles ?? [], own);
    return [];
  });
  return { missed, highest, isUncertain: tries > 1 };
}

type Routed = Readonly<{ routes: ReadonlyMap<string, Routes>; valid: readonly Draft[] }>;

/**
 * The routes of the drafts, and the drafts without the entries that do not agree with them. Before one is refused, the
 * destinations and schemas are read again, if they may be out of date; and possible repeats are looked up: an entry
 * that is stored already gets the first result, whatever has changed since.
 */
async function routedFor(context: Context, floor: number, drafts: readonly Draft[]): Promise<Routed> {
  const { services, database, outcomes } = context;
  const given = drafts.flatMap((draft) => draft.entries);
  const tenants = routedBy(given);
  const asked = await askedSchemas(context, given);
  const withAsked = (found: ReadonlyMap<string, Routes>) => withSchemas(found, asked);
  let routes = withAsked(context.routes ?? (await routesFor(services, database, tenants)));
  const placed = database === 0 ? drafts : await withoutMisplaced(context, floor, drafts, routes);
  const entries = placed === drafts ? given : placed.flatMap((draft) => draft.entries);
  const isFaulty = (entry: Entry) => eventFaultsOf(entry, routes).length > 0;
  if (!entries.some(isFaulty)) return { routes, valid: placed };
  if (database === 0)
    routes = withAsked(await withTimeout(services, services.routing.read(services.db, tenants)));
  const faulty = entries.filter(isFaulty);
  const repeats = faulty.filter(({ key, triedAt }) => key !== undefined || triedAt !== undefined);
  if (repeats.length > 0) await lookUp(context, floor, repeats, ({ triedAt }) => triedAt !== undefined);
  for (const entry of faulty)
    if (!outcomes.has(entry)) outcomes.set(entry, { kind: "invalid", faults: eventFaultsOf(entry, routes) });
  return { routes, valid: filterEntries(placed, (entry) => !outcomes.has(entry)) };
}

/**
 * The drafts without the entries of tenants that are pinned to the first database. Their routes were read after they
 * arrived, so no isolate stores an event here that was posted after the tenant was pinned, whatever it has cached. One
 * that may be stored already is looked up, and is unavailable if it is not found.
 */
async function withoutMisplaced(
  context: Context,
  floor: number,
  drafts: readonly Draft[],
  routes: ReadonlyMap<string, Routes>,
): Promise<readonly Draft[]> {
  const entries = drafts.flatMap((draft) => draft.entries);
  const misplaced = new Map(
    entries.flatMap((entry) => {
      const tenants = pinnedBy(entry, routes);
      return tenants.length > 0 ? [[entry, tenants] as const] : [];
    }),
  );
  if (misplaced.size === 0) return drafts;
  const repeats = [...misplaced.keys()].filter((entry) => context.uncertain.has(entry));
  if (repeats.length > 0) await lookUp(context, floor, repeats);
  for (const [entry, tenants] of misplaced) keepMisplaced(context, entry, tenants);
  return filterEntries(drafts, (entry) => !misplaced.has(entry));
}

/** Has the caller place the entry again, unless it may be stored here. */
function keepMisplaced({ outcomes, uncertain }: Context, entry: Entry, tenants: readonly string[]): void {
  if (!outcomes.has(entry) && !uncertain.has(entry)) outcomes.set(entry, { kind: "misplaced", tenants });
}

type Schemas = ReadonlyMap<string, JsonSchema>;

/** The schemas of types whose events ask to be validated. Costs a query, only for those events. */
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
  { services, database, acceptedAt, outcomes, bundles }: Context,
  draft: Draft,
  planned: readonly NewBundle[],
  ids: readonly number[],
): void {
  const accepted = new Map<Entry, AcceptedEvent[]>(draft.entries.map((entry) => [entry, []]));
  for (const [i, id] of ids.entries()) {
    const { plan = {}, deliverAt, placed = [] } = planned[i] ?? {};
    services.routing.raiseFloor(database, id);
    const bundle = {
      id,
      plan,
      ...(deliverAt !== undefined && { deliverAt }),
      ...(placed.length > 0 && { polled: placed.map(({ destination }) => destination) }),
    };
    bundles.set(id, bundle);
    for (const [index, { entry, place }] of (draft.bundles[i]?.items ?? []).entries()) {
      const events = accepted.get(entry);
      if (events) events[place] = eventOf({ ...bundle, acceptedAt }, index);
    }
  }
  for (const [entry, events] of accepted) outcomes.set(entry, { kind: "accepted", events });
}

type StoredBundle = CommittedBundle & Readonly<{ acceptedAt: number }>;

function eventOf({ id, plan, acceptedAt, deliverAt }: StoredBundle, index: number): AcceptedEvent {
  const planned = destinationsOf(plan, index);
  return { id: eventAt(id, index), plan: planned, acceptedAt, ...(deliverAt !== undefined && { deliverAt }) };
}

type LookedUp = Readonly<{
  /** The entries that are not stored. */
  missed: readonly Entry[];
  /** The highest bundle id at that time. */
  highest: number;
}>;

/**
 * Looks up entries that were not inserted, and keeps the outcomes of those that are stored. Their tenants' destinations
 * are read again.
 * @param isTried whether an entry's tokens may be stored above the floor
 */
async function lookUp(
  context: Context,
  floor: number,
  missed: readonly Entry[],
  isTried: (entry: Entry) => boolean = () => true,
): Promise<LookedUp> {
  const { services, database, outcomes } = context;
  const db = databaseAt(services, database);
  const [{ found, highest, pinned }] = await withTimeout(
    services,
    Promise.all([
      findStored(services, database, floor, missed, isTried),
      database === 0 && services.routing.read(services.db, routedBy(missed)),
    ]),
  );
  await keepFound(services, db, found, context);
  if (pinned.size > 0)
    for (const entry of missed) {
      const tenants = tenantsOf([entry]).filter((tenant) => pinned.has(tenant));
      if (tenants.length > 0) keepMisplaced(context, entry, tenants);
    }
  return { missed: missed.filter((entry) => !outcomes.has(entry)), highest };
}

type Kept = Readonly<{ outcomes: Map<Entry, CommitOutcome>; bundles: Map<number, CommittedBundle> }>;

/** Keeps the results of entries that are stored, and the bundles to enqueue of those that an earlier try has stored. */
async function keepFound(
  services: Services,
  db: D1Database,
  found: readonly Found[],
  { outcomes, bundles }: Kept,
): Promise<void> {
  const numbers = found.flatMap((one) => one.numbers);
  const plans = await withTimeout(services, plansOf(db, numbers));
  const polled = polledBy(
    services,
    found.map(({ entry }) => entry),
  );
  for (const { entry, own, stored, numbers } of found) {
    const events = storedEvents(plans, numbers);
    if (own || (stored && isOwn(entry, plans, numbers)))
      keepCommittedBefore({ outcomes, bundles }, { entry, events }, plans, polled);
    else if (stored) outcomes.set(entry, keyResult(entry, stored, events));
  }
}

/** Whether an earlier try of the same entry stored what its key names. */
function isOwn({ token, events }: Entry, plans: Plans, [first = 0]: readonly number[]): boolean {
  const name = events.length > 1 ? `${token}.0` : token;
  return plans.get(bundleOf(first))?.tokens.includes(name) ?? false;
}

/** The stored part of an entry: `own` under its token, by an earlier try; `stored` under its key. */
type Found = Readonly<{
  entry: Entry;
  own: readonly number[] | undefined;
  stored: StoredIdempotencyKey | undefined;
  /** Numbers of the events of `own` or `stored`. */
  numbers: readonly number[];
}>;

/**
 * @param within where tokens are looked for
 * @param isTried whether an entry's tokens may be stored there
 */
async function findStored(
  services: Services,
  database: number,
  within: number | readonly NumberSpan[],
  entries: readonly Entry[],
  isTried: (entry: Entry) => boolean,
  pin?: Parameters<typeof findCommitted>[2]["pin"],
): Promise<Readonly<{ found: readonly Found[]; highest: number; pinned: ReadonlyMap<string, number> }>> {
  const keys = entries.flatMap((entry) =>
    entry.key ? [{ tenant: keyTenantOf(entry), key: entry.key.key }] : [],
  );
  const drafts = entries.map((entry) => ({ entry, bundles: draftOf([entry]).bundles }));
  const tokens = drafts.flatMap(({ entry, bundles }) =>
    isTried(entry) ? bundles.flatMap((bundle) => bundle.tokens) : [],
  );
  const tenants = tenantsOf(entries);
  const sought = { tokens, keys, within, tenants, pin };
  const known = await findCommitted(databaseAt(services, database), database, sought);
  const byToken = new Map(known.tokens.map((found) => [found.token, found]));
  const byKey = new Map(known.keys.map((stored) => [`${stored.tenant} ${stored.key}`, stored]));
  const found = drafts.map(({ entry, bundles }) => {
    const own = numbersByToken(bundles, byToken);
    const stored = entry.key && byKey.get(`${keyTenantOf(entry)} ${entry.key.key}`);
    return { entry, own, stored, numbers: own ?? (stored ? numbersOf(stored) : []) };
  });
  return { found, highest: known.highest, pinned: known.pinned };
}

/**
 * An earlier try of the entry was committed, and its result was lost. Its bundles are enqueued again, which is
 * harmless.
 */
function keepCommittedBefore(
  { outcomes, bundles }: Kept,
  { entry, events }: Readonly<{ entry: Entry; events: readonly AcceptedEvent[] }>,
  plans: Plans,
  polled: ReadonlySet<string>,
): void {
  for (const { id } of events) {
    const bundle = plans.get(bundleOf(id));
    if (bundle && !bundles.has(bundle.id)) bundles.set(bundle.id, committed(bundle, polled));
  }
  outcomes.set(entry, { kind: "accepted", events });
}

/** The polled destinations of the entries' tenants, as far as they are cached. A bundle may have events of several. */
function polledBy({ routing }: Services, entries: readonly Entry[]): ReadonlySet<string> {
  const routes = tenantsOf(entries).flatMap((tenant) => [...(routing.known([tenant])?.values() ?? [])]);
  return new Set(routes.flatMap(({ polled = [] }) => [...polled]));
}

function committed({ id, plan, deliverAt }: PlannedBundle, polled: ReadonlySet<string>): CommittedBundle {
  if (deliverAt !== undefined) return { id, plan, deliverAt };
  const own = Object.keys(plan).filter((destination) => polled.has(destination));
  return { id, plan, ...(own.length > 0 && { polled: own }) };
}

type Plans = ReadonlyMap<number, PlannedBundle>;

async function plansOf(db: D1Database, numbers: readonly number[]): Promise<Plans> {
  const found = await findPlans(db, [...new Set(numbers.map(bundleOf))]);
  return new Map(found.map((bundle) => [bundle.id, bundle]));
}

type StoredResults = Readonly<{
  outcomes: ReadonlyMap<Entry, CommitOutcome>;
  bundles: readonly CommittedBundle[];
  /** The highest bundle id at that time: what is not among the outcomes is in no bundle up to this one. */
  highest: number;
  /** Since when the database refuses those of the entries' tenants that are pinned to the first one, epoch ms. */
  pinned: ReadonlyMap<string, number>;
}>;

/**
 * The results of those entries that a database has already, and the bundles to enqueue again: stored under their keys
 * by another request, or by an earlier try of their own.
 * @param pinned tenants that this database refuses from now on: an entry that it does not have now, it never gets
 */
export async function storedResults(
  services: Services,
  database: number,
  entries: readonly Entry[],
  pinned: readonly string[],
): Promise<StoredResults> {
  const results = { outcomes: new Map<Entry, CommitOutcome>(), bundles: new Map<number, CommittedBundle>() };
  const spans = entries.flatMap(({ triedWithin }) => (triedWithin ? [triedWithin] : []));
  const isTried = ({ triedWithin }: Entry) => triedWithin !== undefined;
  const pin = database > 0 && pinned.length > 0 ? { tenants: pinned, at: services.now() } : undefined;
  const stored = await withTimeout(services, findStored(services, database, spans, entries, isTried, pin));
  await keepFound(services, databaseAt(services, database), stored.found, results);
  const { highest } = stored;
  const bundles = [...results.bundles.values()];
  return { outcomes: results.outcomes, bundles, highest, pinned: stored.pinned };
}

function numbersOf({ bundles, places }: StoredIdempotencyKey): number[] {
  return places.map(([bundle, index]) => eventAt(bundles[bundle] ?? 0, index));
}

/** @param events those stored under the key */
function keyResult(
  { key }: Entry,
  stored: StoredIdempotencyKey,
  events: readonly AcceptedEvent[],
): CommitResult {
  return stored.fingerprint === key?.fingerprint ? { kind: "replayed", events } : { kind: "conflict" };
}

/** Events by their numbers. One that has been removed has no plan any more. */
function storedEvents(plans: Plans, numbers: readonly number[]): AcceptedEvent[] {
  return numbers.map((number) => {
    const bundle = plans.get(bundleOf(number));
    if (!bundle) return { id: number, plan: [], isRemoved: true };
    return eventOf(bundle, indexOf(number));
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
  const { routing, db } = services;
  return withTimeout(services, database > 0 ? routing.fresh(db, tenants) : routing.cached(db, tenants));
}

/**
 * Repeats the commit once after an uncertain result: the tokens keep it from being stored twice. An overloaded database
 * is not called again: the sender gets Retry-After.
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
