/**
 * Committing what was posted: routed, bundled and written in one transaction by whoever has gathered it.
 *
 * What is missed, because a tenant's destinations have changed, a key is taken or a token is known, is looked up, and
 * what is not found is committed again.
 */
import { capsOf } from "../config.ts";
import { bundleOf, destinationsOf, eventAt, indexOf, type Plan } from "../core/bundle.ts";
import {
  commitUnits,
  findCommitted,
  findPlans,
  highestBefore,
  type KnownToken,
  type NewBundle,
  type StoredKey,
} from "../db/bundles.ts";
import { databaseAt } from "../db/shards.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { within } from "../time.ts";
import {
  type AcceptedEvent,
  apart,
  type CommitResult,
  type Draft,
  type DraftBundle,
  draftOf,
  draftsOf,
  type Entry,
  kept,
  ownerOf,
  routeOf,
  tenantsOf,
  unitOf,
} from "./bundle.ts";
import type { Routes } from "./routing-cache.ts";

/** How long whoever posts something waits for its commit. */
export const WAIT_MS = 10_000;

/** A bundle that is to be sent on its way. */
export type CommittedBundle = Readonly<{ id: number; plan: Plan; deliverAt?: number }>;

export type Committed = Readonly<{
  /** In the order of the entries. */
  outcomes: readonly CommitResult[];
  bundles: readonly CommittedBundle[];
}>;

/** Misses one after the other before it counts as trouble: each needs a destination changed at that very moment. */
const ROUNDS = 5;
/** A call that has not been answered for so long is not waited for: there is time for another one. */
const PATIENCE_MS = 5_000;
/**
 * What is committed has a number above everything that was accepted so long before it was handed in: clocks may
 * differ, and the commits of others may be slow.
 */
const EARLIER_MS = 60_000;
/** Before an uncertain commit is repeated, spread over as much again. */
const PAUSE_MS = 50;

type Context = Readonly<{
  services: Services;
  database: number;
  acceptedAt: number;
  /** The tokens of all entries are looked for above it, in every round: what is known by then is too late. */
  floor: number;
  outcomes: Map<Entry, CommitResult>;
  bundles: Map<number, CommittedBundle>;
}>;

/** Commits the entries to the database of that number. Never throws: where there is trouble, entries are unavailable. */
export async function commitEntries(
  services: Services,
  database: number,
  entries: readonly Entry[],
  acceptedAt: number,
): Promise<Committed> {
  const outcomes = new Map<Entry, CommitResult>();
  const bundles = new Map<number, CommittedBundle>();
  try {
    const [floor] = await Promise.all([
      floorFor(services, database, entries),
      database === 0 && routesFor(services, database, tenantsOf(entries)),
    ]);
    await commitInTurn({ services, database, acceptedAt, floor, outcomes, bundles }, entries);
  } catch (error) {
    services.log({ what: "commit_failed", entries: entries.length, error: faultOf(error) });
  }
  const unavailable: CommitResult = { kind: "unavailable" };
  return {
    outcomes: entries.map((entry) => outcomes.get(entry) ?? unavailable),
    bundles: [...bundles.values()],
  };
}

/** The lowest of the entries' floors. What was handed in before may be anywhere since then. */
async function floorFor(services: Services, database: number, entries: readonly Entry[]): Promise<number> {
  const { routing } = services;
  const db = databaseAt(services, database);
  if (!routing.hasFloor(database)) await answered(services, routing.readFloor(db, database));
  const known = routing.floor(database);
  const least = entries.reduce((floor, entry) => Math.min(floor, entry.floor ?? known), known);
  const tried = entries.flatMap(({ triedAt }) => triedAt ?? []);
  if (tried.length === 0) return least;
  return Math.min(least, await answered(services, highestBefore(db, Math.min(...tried) - EARLIER_MS)));
}

/** Of entries with the same key or token the first goes first: the others then find what became of it. */
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
  return entry.key ? [token, `key ${ownerOf(entry)} ${entry.key.key}`] : [token];
}

/**
 * Rounds of committing and looking up what was missed. Trouble that passes ends them, after one repeat: what has no
 * outcome is unavailable. An error that lies in the content is looked for by halves, so that it takes only its own.
 */
async function commitTogether(context: Context, drafts: readonly Draft[]): Promise<void> {
  let open = drafts;
  try {
    for (let round = 1; open.length > 0 && round <= ROUNDS; round++) {
      const missed = await commitRound(context, inTime(context, open));
      open = missed.length > 0 ? apart(await lookUp(context, missed)) : [];
    }
  } catch (error) {
    const entries = open.flatMap((draft) => draft.entries);
    context.services.log({ what: "commit_failed", entries: entries.length, error: faultOf(error) });
    if (!isOfContent(error) || entries.length < 2) return;
    const middle = Math.ceil(entries.length / 2);
    await commitTogether(context, apart(entries.slice(0, middle)));
    await commitTogether(context, apart(entries.slice(middle)));
  }
}

/** Without the entries that nobody waits for any more. */
function inTime({ services }: Context, drafts: readonly Draft[]): readonly Draft[] {
  const now = services.now();
  return kept(drafts, ({ deadlineAt }) => now <= deadlineAt);
}

/** Answers the entries of the drafts that changed nothing. */
async function commitRound(context: Context, given: readonly Draft[]): Promise<readonly Entry[]> {
  if (given.length === 0) return [];
  const { services, database, acceptedAt, floor } = context;
  const routes = await routesFor(services, database, tenantsOf(given.flatMap((draft) => draft.entries)));
  const drafts = withinCap(context, given, routes);
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
    accept(context, draft, units[i]?.bundles ?? [], ids);
    return [];
  });
}

/** The drafts without the entries that would make more deliveries than a request may. */
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
  return kept(drafts, (entry) => !outcomes.has(entry));
}

function accept(
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
 * Answers missed entries as far as they are known, and returns the others: their tenants are read anew. An entry whose
 * token is known was committed by a try whose answer got lost; it is sent on its way once more, which is harmless.
 */
async function lookUp(context: Context, missed: readonly Entry[]): Promise<readonly Entry[]> {
  const { services, database, floor, outcomes, bundles } = context;
  const db = databaseAt(services, database);
  const keys = missed.flatMap((entry) => (entry.key ? [{ tenant: ownerOf(entry), key: entry.key.key }] : []));
  const asked = missed.map((entry) => ({ entry, bundles: draftOf([entry]).bundles }));
  const tokens = asked.flatMap(({ bundles }) => bundles.flatMap((bundle) => bundle.tokens));
  const [known] = await answered(
    services,
    Promise.all([
      findCommitted(db, floor, tokens, keys),
      database === 0 && services.routing.read(services.db, tenantsOf(missed)),
    ]),
  );
  const byToken = new Map(known.tokens.map((found) => [found.token, found]));
  const byKey = new Map(known.keys.map((stored) => [`${stored.tenant} ${stored.key}`, stored]));
  const found = asked.map(({ entry, bundles }) => {
    const own = numbersByToken(bundles, byToken);
    const stored = entry.key && byKey.get(`${ownerOf(entry)} ${entry.key.key}`);
    return { entry, own, stored, numbers: own ?? (stored ? numbersOf(stored) : []) };
  });
  const plans = await answered(
    services,
    plansOf(
      db,
      found.flatMap(({ numbers }) => numbers),
    ),
  );
  for (const { entry, own, stored, numbers } of found) {
    const events = storedEvents(plans, numbers);
    if (own) {
      for (const number of own) {
        const bundle = plans.get(bundleOf(number));
        if (bundle && !bundles.has(bundle.id)) bundles.set(bundle.id, bundle);
      }
      outcomes.set(entry, { kind: "accepted", events });
    } else if (stored) outcomes.set(entry, answerTo(entry, stored, events));
  }
  return missed.filter((entry) => !outcomes.has(entry));
}

type Plans = ReadonlyMap<number, CommittedBundle>;

async function plansOf(db: D1Database, numbers: readonly number[]): Promise<Plans> {
  const found = await findPlans(db, [...new Set(numbers.map(bundleOf))]);
  return new Map(found.map((bundle) => [bundle.id, bundle]));
}

/** What was answered under the entry's key in one of the databases; undefined where it is not known. */
export async function answerByKey(
  services: Services,
  db: D1Database,
  entry: Entry,
): Promise<CommitResult | undefined> {
  if (!entry.key) return undefined;
  const names = [{ tenant: ownerOf(entry), key: entry.key.key }];
  const { keys } = await answered(services, findCommitted(db, 0, [], names));
  const [stored] = keys;
  if (!stored) return undefined;
  const numbers = numbersOf(stored);
  return answerTo(entry, stored, storedEvents(await answered(services, plansOf(db, numbers)), numbers));
}

function numbersOf({ bundles, places }: StoredKey): number[] {
  return places.map(([bundle, index]) => eventAt(bundles[bundle] ?? 0, index));
}

/** @param events those that stand under the key */
function answerTo({ key }: Entry, stored: StoredKey, events: readonly AcceptedEvent[]): CommitResult {
  return stored.fingerprint === key?.fingerprint ? { kind: "replayed", events } : { kind: "conflict" };
}

/** Events by their numbers. Of one that is there no more, its plan is over. */
function storedEvents(plans: Plans, numbers: readonly number[]): AcceptedEvent[] {
  return numbers.map((number) => {
    const bundle = plans.get(bundleOf(number));
    if (!bundle) return { id: number, plan: [], isRemoved: true };
    return eventOf(bundle.id, indexOf(number), bundle.plan, bundle.deliverAt);
  });
}

/** The numbers of an entry's events where its tokens are known; undefined where they are not. */
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

/** In the first database revisions are compared at the commit; for another they are read once the request is there. */
async function routesFor(
  services: Services,
  database: number,
  tenants: readonly string[],
): Promise<ReadonlyMap<string, Routes>> {
  if (database > 0) return answered(services, services.routing.fresh(services.db, tenants));
  return (
    services.routing.known(tenants) ?? (await answered(services, services.routing.read(services.db, tenants)))
  );
}

/** An uncertain answer is followed by the same commit: the tokens keep it from being stored twice. */
async function repeatedOnce<T>(services: Services, deadlineAt: number, commit: () => Promise<T>): Promise<T> {
  try {
    return await answered(services, commit());
  } catch (error) {
    if (isOfContent(error)) throw error;
    services.log({ what: "commit_repeated", error: faultOf(error) });
    await services.sleep(PAUSE_MS * (1 + services.random()));
    if (services.now() > deadlineAt) throw error;
    return answered(services, commit());
  }
}

/** What the database answers, if it does in time. */
function answered<T>(services: Services, call: Promise<T>): Promise<T> {
  return within(services, PATIENCE_MS, call);
}

/** What SQLite refuses for what is in it comes back however often it is repeated; everything else may pass. */
function isOfContent(error: unknown): boolean {
  return (
    error instanceof Error && /SQLITE_(CONSTRAINT|TOOBIG|MISMATCH|RANGE)|too (big|large)/i.test(error.message)
  );
}
