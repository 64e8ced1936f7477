/**
 * The model of the commit: the production's `commitEntries` and its SQL, run for a few requests in separate isolates, under
 * every order of their D1 calls, with answers that get lost, calls that are executed late, senders that repeat, and a
 * destination that is created meanwhile.
 */
import { destinationsOf, type Plan } from "../../src/core/bundle.ts";
import type { CommitOutcome, Entry } from "../../src/ingest/bundle.ts";
import { commitEntries } from "../../src/ingest/commit.ts";
import { PlacementCache } from "../../src/ingest/placement-cache.ts";
import { CATALOGUE, RoutingCache } from "../../src/ingest/routing-cache.ts";
import type { Services } from "../../src/services.ts";
import { testConfig } from "../support/config.ts";
import type { Model, Step } from "./explorer.ts";
import {
  type Answer,
  type Content,
  type Edit,
  type Program,
  type Sqlite,
  type Statement,
  sqlite,
  standingOf,
} from "./sqlite.ts";

const NOW = 1_000_000_000;
const TENANT = "acme";
const TABLES = ["bundles", "idempotency_keys", "destinations", "tenants"];

/** The posts: the same key means the same content. */
export type Sender = Readonly<{ name: string; key?: string }>;

export type CommitScenario = Readonly<{
  senders: readonly Sender[];
  /** The most calls that fail for their caller. */
  faults: number;
  /** Whether a destination is created at some time, and isolates have read the destinations before requests arrive. */
  creates: boolean;
  /** How often a sender posts at most; it posts again when the result was uncertain. */
  posts: number;
}>;

type Request = Readonly<{
  sender: number;
  post: number;
  answers: readonly Answer[];
}>;

type World = Readonly<{
  content: Content;
  faults: number;
  /** Whether the second destination is still to be created. */
  mayCreate: boolean;
  /** How often each sender has posted. */
  posts: readonly number[];
  requests: readonly Request[];
  /** The results that senders have got. */
  results: readonly (CommitOutcome | undefined)[];
  /** Calls whose callers have given up, and which may still be executed. */
  late: readonly (readonly Statement[])[];
  /** Whether each sender's first request came after the creation. */
  isAfter: readonly boolean[];
  wrong?: string;
}>;

export type CommitParts = Readonly<{ edit?: Edit; forgetsTries?: boolean }>;

export function commitModel(
  scenario: CommitScenario,
  { edit, forgetsTries = false }: CommitParts = {},
): Model<World> {
  const db = sqlite(TABLES, edit);
  const { senders } = scenario;
  const initial: World = {
    content: beginning(db),
    faults: scenario.faults,
    mayCreate: scenario.creates,
    posts: senders.map(() => 0),
    requests: [],
    results: senders.map(() => undefined),
    late: [],
    isAfter: senders.map(() => false),
  };

  const programOf = ({ sender, post }: Request) => commitProgram(scenario, sender, post, forgetsTries);

  async function steps(world: World): Promise<Step<World>[]> {
    const found: Step<World>[] = [];
    const add = (says: string, to: World, isFault = false) =>
      found.push({ says, to, ...(isFault && { isFault }) });
    for (const [i, { name }] of senders.entries()) {
      const mayPost = world.posts[i] === 0 || isUncertain(world, i);
      if (mayPost && (world.posts[i] ?? 0) < scenario.posts)
        add(postText(name, world.posts[i], scenario), posted(world, i, scenario));
    }
    for (const [i, request] of world.requests.entries()) {
      const name = nameOf(senders, request);
      const standing = await standingOf(programOf(request), request.answers);
      if (standing.kind !== "calls") {
        const result: CommitOutcome = standing.kind === "ended" ? standing.value : { kind: "unavailable" };
        add(`${name} is answered: ${textOf(result)}.`, answered(world, i, result));
        continue;
      }
      const { statements } = standing;
      if (statements[0]?.sql === ARRIVES) {
        add(`${name} arrives.`, arrived(world, i));
        continue;
      }
      const { content, answer } = db.execute(world.content, statements);
      const what = callText(statements);
      const goesOn = (given: Answer, others: Partial<World>) => ({
        ...world,
        ...others,
        requests: world.requests.with(i, { ...request, answers: [...request.answers, given] }),
      });
      add(`${name} ${what}.`, goesOn(answer, { content }));
      if (world.faults === 0 || !isCommit(statements)) continue;
      const faults = world.faults - 1;
      add(`${name} ${what}; the answer is lost.`, goesOn("lost", { content, faults }), true);
      add(
        `${name} gives up a call that ${what}: it may still be executed.`,
        goesOn("lost", { faults, late: [...world.late, statements] }),
        true,
      );
    }
    for (const [i, statements] of world.late.entries()) {
      const { content } = db.execute(world.content, statements);
      add(
        "The call that was given up is executed.",
        { ...world, content, late: world.late.toSpliced(i, 1) },
        true,
      );
    }
    if (world.mayCreate)
      add("A second destination is created.", {
        ...world,
        content: created(db, world.content),
        mayCreate: false,
      });
    return found.map((step) => ({ ...step, to: judged(db, senders, step.to) }));
  }

  return {
    initial,
    steps,
    broken: ({ wrong }) => wrong,
    keyOf: (world) =>
      JSON.stringify({ ...world, requests: world.requests.map((one) => JSON.stringify(one)).sort() }),
    calmed: (world) => ({ ...world, faults: 0, late: [] }),
    calm: async (world) => {
      const [next] = await steps({ ...world, faults: 0, mayCreate: false });
      if (next) return next;
      const uncertain = senders.findIndex((_, i) => isUncertain(world, i));
      return uncertain < 0
        ? undefined
        : { says: `${senders[uncertain]?.name} posts again.`, to: posted(world, uncertain, scenario) };
    },
  };
}

/** A bundle of former times, and one destination. */
function beginning(db: Sqlite): Content {
  const bundle = `INSERT INTO bundles (id, tokens, accepted_at, count, planned, plan, header, body)
    VALUES (5, '["old"]', 1, 1, 0, '{}', '{"version":1,"tenants":[],"types":[],"events":[]}', x'')`;
  return [bundle, destinationSql("first")].reduce(
    (content, sql) => db.execute(content, [{ sql, values: [] }]).content,
    db.empty,
  );
}

const destinationSql = (
  id: string,
) => `INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at)
  VALUES ('${id}', '${TENANT}', 'https://${id}.example', 's', 1, 1)`;

function created(db: Sqlite, content: Content): Content {
  return db.execute(content, [{ sql: destinationSql("second"), values: [] }]).content;
}

/** Stands for the arrival of a request at its isolate. */
const ARRIVES = "-- arrives";

function commitProgram(
  { senders, creates }: CommitScenario,
  sender: number,
  post: number,
  forgetsTries: boolean,
): Program<CommitOutcome> {
  const { key } = senders[sender] ?? {};
  return {
    name: `${sender} ${post} ${key} ${creates} ${forgetsTries}`,
    run: async (db) => {
      const services = servicesWith(db);
      if (creates) {
        await services.routing.read(db, [TENANT, CATALOGUE]);
        await db.prepare(ARRIVES).run();
      }
      const entry: Entry = {
        token: `token-${sender}`,
        events: [{ tenant: TENANT, type: "t", body: new Uint8Array([123, 125]) }],
        ...(key !== undefined && { key: { key, fingerprint: "f" } }),
        deadlineAt: NOW + 10_000,
        ...(post > 1 && !forgetsTries && { triedAt: NOW }),
      };
      const { outcomes } = await commitEntries(services, 0, [entry], NOW);
      return outcomes[0] ?? { kind: "unavailable" };
    },
  };
}

function servicesWith(db: D1Database): Services {
  const services: Partial<Services> = {
    config: testConfig(),
    db,
    routing: new RoutingCache(),
    placement: new PlacementCache(),
    now: () => NOW,
    random: () => 0,
    // A timeout never fires: calls fail without one.
    sleep: (_, signal) => (signal ? new Promise(() => {}) : Promise.resolve()),
    log: () => {},
  };
  return services as Services;
}

function postText(name: string, posts = 0, { creates }: CommitScenario): string {
  const again = posts > 0 ? " again" : "";
  return creates ? `${name} is about to post${again}.` : `${name} posts${again}.`;
}

function posted(world: World, i: number, { creates }: CommitScenario): World {
  const post = (world.posts[i] ?? 0) + 1;
  const requests = [...world.requests, { sender: i, post, answers: [] }];
  const next = {
    ...world,
    posts: world.posts.with(i, post),
    results: world.results.with(i, undefined),
    requests,
  };
  return creates ? next : { ...next, isAfter: next.isAfter.with(i, false) };
}

/** A destination created before the first arrival has to get the event. */
function arrived(world: World, i: number): World {
  const request = world.requests[i];
  if (!request) return world;
  const requests = world.requests.with(i, { ...request, answers: [...request.answers, []] });
  const isAfter = request.post === 1 ? world.isAfter.with(request.sender, !world.mayCreate) : world.isAfter;
  return { ...world, requests, isAfter };
}

function isUncertain({ results }: World, i: number): boolean {
  return results[i]?.kind === "unavailable";
}

function answered(world: World, i: number, result: CommitOutcome): World {
  const { sender = 0 } = world.requests[i] ?? {};
  return { ...world, requests: world.requests.toSpliced(i, 1), results: world.results.with(sender, result) };
}

function isCommit(statements: readonly Statement[]): boolean {
  return statements.some(({ sql }) => sql.includes("INSERT INTO bundles"));
}

function callText(statements: readonly Statement[]): string {
  const text = statements.map(({ sql }) => sql).join(" ");
  if (text.includes("INSERT INTO bundles")) return "commits";
  if (text.includes("idempotency_keys")) return "looks up what is stored";
  if (text.includes("accepted_at <")) return "reads the highest bundle of before its first try";
  if (text.includes("d.event_types")) return "reads the destinations";
  if (text.includes("max(id)")) return "reads the highest bundle";
  return "reads the plans of bundles";
}

function textOf(result: CommitOutcome): string {
  if (result.kind !== "accepted" && result.kind !== "replayed") return result.kind;
  return `${result.kind} as event ${result.events.map(({ id }) => id).join(", ")}`;
}

function nameOf(senders: readonly Sender[], { sender, post }: Request): string {
  return `The ${post > 1 ? "repeated " : ""}request of ${senders[sender]?.name}`;
}

type Stored = Readonly<{ id: number; tokens: string; plan: string }>;

/** With the fault, if there is one. */
function judged(db: Sqlite, senders: readonly Sender[], world: World): World {
  const bundles = db.query<Stored>(world.content, "SELECT id, tokens, plan FROM bundles WHERE id > 5");
  const events = bundles.flatMap(({ id, tokens, plan }) =>
    (JSON.parse(tokens) as string[]).map((token, index) => ({
      token,
      id: id * 128 + index,
      plan: JSON.parse(plan) as Plan,
      index,
    })),
  );
  const contents = Map.groupBy(events, ({ token }) => {
    const { name = "", key } = senders[Number(token.slice("token-".length))] ?? {};
    return key ? `the key ${key}` : `the event of ${name}`;
  });
  for (const [what, some] of contents)
    if (some.length > 1)
      return {
        ...world,
        wrong: `${what} is stored as the events ${some.map(({ id }) => id).join(" and ")}.`,
      };
  for (const [i, result] of world.results.entries()) {
    if (result?.kind !== "accepted" && result?.kind !== "replayed") continue;
    const [event] = result.events;
    const stored = events.find(({ id }) => id === event?.id);
    const name = senders[i]?.name;
    if (!stored)
      return { ...world, wrong: `${name} got the answer that its event is stored, and it is not.` };
    const misses =
      world.isAfter[i] &&
      result.kind === "accepted" &&
      !destinationsOf(stored.plan, stored.index).includes("second");
    if (misses)
      return {
        ...world,
        wrong: `The event of ${name} misses a destination that was there when it was posted.`,
      };
  }
  return world;
}
