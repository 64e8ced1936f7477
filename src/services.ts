/**
 * Everything that the handlers need from the platform: bindings, configuration, clock, randomness, log. The Worker's
 * handlers make one for each invocation; tests make one with another clock, other randomness or a failing part.
 */

import { type Config, Misconfiguration, parseConfig } from "./config.ts";
import type { SettleResult } from "./core/settle.ts";
import { type DestinationBindings, destinationBindings } from "./destination-bindings.ts";
import type { DestinationGate } from "./gate/durable-object.ts";
import type { FunctionLoader, TenantFunctions } from "./gate/functions-object.ts";
import type { ReceiverGroup } from "./gate/group-object.ts";
import type { IntakeRpc } from "./ingest/intake-protocol.ts";
import { PlacementCache } from "./ingest/placement-cache.ts";
import { RoutingCache } from "./ingest/routing-cache.ts";
import { boundedLog, faultOf, type Log } from "./log.ts";
import { type Memory, newMemory } from "./memory.ts";
import type { DeliveryMessage, DrainQueueMessage, UpkeepQueueMessage } from "./queue-messages.ts";
import { type Vault, vaultOf } from "./secrets/vault.ts";
import { furtherDatabases, repeatingDatabases } from "./store/databases.ts";
import type { LoadedDelivery } from "./store/deliveries.ts";
import type { Destination } from "./store/destination.ts";
import type { StatusChange } from "./store/status-changes.ts";
import { type Sleep, sleepByTimer } from "./time.ts";

/** The attempts of one invocation, counted for its log line. */
export type AttemptCounts = {
  readonly source: "queue" | "drain";
  readonly startedAt: number;
  delivered: number;
  failed: number;
  /** Attempts of which Analytics Engine took no data point. */
  uncounted: number;
  slowestMs: number;
  readonly destinations: Set<string>;
};

/** The result of an attempt, for the archive (delivery/archiver.ts). */
export type ArchivableResult = Readonly<{
  /** Epoch ms. */
  startedAt: number;
  /** Secrets that a receiver may repeat, and nobody may see. */
  secrets: () => readonly string[];
  /** Absent where there was none. */
  answer?: Readonly<{
    response: Pick<Response, "ok" | "status" | "headers">;
    /** The part that D1 stores. */
    excerpt: string | undefined;
    /** The part of the body that has been read. */
    chunks: readonly Uint8Array[];
    /** The part of the body that has not been read yet: the taker reads it, or cancels it. Absent if the body has ended. */
    rest?: ReadableStreamDefaultReader<Uint8Array> | undefined;
  }>;
}>;

/** Archives the exchange, if it is to be archived; returns whether it does. Takes no time. */
type ArchiveExchange = (delivery: LoadedDelivery, contentType: string, arrived: ArchivableResult) => boolean;

/** The result of a settlement, with its destination. */
export type DestinationResult = Readonly<{ destination: Destination; result: SettleResult }>;

/** Findings of the engine that operators or customers may want to know of. */
export type News = Readonly<{
  /** Changes of status, on record and not published yet. */
  changes?: readonly StatusChange[];
  /** Results of settlements whose alerts are to be published. */
  alerts?: readonly DestinationResult[];
  /** Destinations whose dead-letter digest is due. */
  digestsDue?: readonly Pick<Destination, "id" | "tenant">[];
  /** Deliveries that have ended dead and hold their lines. */
  held?: readonly Readonly<{ event: number; destination: Destination }>[];
}>;

/** Publishes news. A failure is logged, not thrown, because the reported work is done. */
export type Notify = (services: Services, news: News) => Promise<void>;

export type Services = Readonly<{
  config: Config;
  /** Encrypts and decrypts the secrets of destinations. */
  vault: Vault;
  /** The first database: it alone has everything except events and deliveries. */
  db: D1Database;
  /** Further databases of events and deliveries; see store/databases.ts before you query `db` for either. */
  further?: readonly D1Database[];
  deliveries: Queue<DeliveryMessage>;
  drains: Queue<DrainQueueMessage>;
  upkeep: Queue<UpkeepQueueMessage>;
  gates: DurableObjectNamespace<DestinationGate>;
  groups: DurableObjectNamespace<ReceiverGroup>;
  /** Runs transformations in code; absent where they are not switched on. */
  functions?: DurableObjectNamespace<TenantFunctions> | undefined;
  /** Why there are none, and how to change that. */
  functionsFault?: string | undefined;
  /** The location in which gates are created; absent: near their first caller. */
  gateLocation?: Config["gateLocation"];
  /** Commits single events of concurrent requests together; absent where each request commits its own. */
  intake?: DurableObjectNamespace<IntakeRpc> | undefined;
  /** This isolate's cache of tenants' destinations. */
  routing: RoutingCache;
  /** The other caches of this isolate. */
  memory: Memory;
  /** This isolate's placement of new events. */
  placement: PlacementCache;
  /** Limits how often each API key posts; absent where nothing is limited. */
  ingestLimit?: RateLimit | undefined;
  /** Limits how often each API key reads. */
  readLimit?: RateLimit | undefined;
  /** Limits how often each API key, or visit of the portal, changes something. */
  writeLimit?: RateLimit | undefined;
  /** Limits how often requests without a valid key come from an address. */
  anonymousLimit?: RateLimit | undefined;
  /** Limits how often a tenant's subscriptions over MCP request a host's consent. */
  challengeLimit?: RateLimit | undefined;
  /** Takes a data point for each attempt; absent where Analytics Engine is not bound. */
  attempts?: AnalyticsEngineDataset | undefined;
  /** Sends mails to the operator; absent where `send_email` is not bound. */
  mailer?: SendEmail | undefined;
  /** The bucket of exchanges (core/archive.ts); absent if R2 is not bound. */
  bodies?: R2Bucket | undefined;
  /** Archives exchanges of this invocation; absent if nothing attempts, or nothing is archived. */
  archiveExchange?: ArchiveExchange;
  /** Queues and services of this Worker that destinations may use; absent if there are none. */
  destinationBindings?: DestinationBindings;
  fetch: typeof fetch;
  /** Epoch milliseconds. */
  now: () => number;
  /** Uniform in [0, 1). */
  random: () => number;
  sleep: Sleep;
  /** Bounded for each invocation. */
  log: Log;
  /** Logs how many lines have been left out; for handlers that log much, when they end. */
  logOmitted?: () => void;
  /** The attempts of this invocation, for one log line about all of them; absent where nothing attempts. */
  attemptCounts?: AttemptCounts;
  /** Publishes what the engine reports: the engine itself knows no notifications. */
  notify: Notify;
  /** Keeps the invocation alive until the work is done. */
  background: (work: Promise<unknown>) => void;
}>;

/**
 * The services of one invocation.
 * @param notify only handlers of queues and of the cron report news
 */
export function servicesOf(
  env: Env,
  ctx: Pick<ExecutionContext, "waitUntil">,
  notify: Notify = notifyNobody,
): Services {
  const { config, vault, further, routing, placement, memory, bindings } = isolateStateOf(env);
  const timing = { now: () => Date.now(), random: () => Math.random(), sleep: sleepByTimer };
  const { log, logOmitted } = boundedLog(timing.now);
  const onRepeat = (error: unknown, statement: string) =>
    log({ what: "query_repeated", statement: statement.slice(0, 80), error: faultOf(error) });
  return {
    config,
    vault,
    destinationBindings: bindings,
    ...repeatingDatabases({ db: env.DB, further }, { ...timing, onRepeat }),
    deliveries: env.DELIVERIES,
    drains: env.DRAINS,
    upkeep: env.UPKEEP,
    gates: inJurisdiction(config, env.GATES),
    groups: inJurisdiction(config, env.GROUPS),
    ...functionsIn(env, config),
    gateLocation: config.gateLocation,
    intake: inJurisdiction(config, env.INTAKE),
    routing,
    memory,
    placement,
    ingestLimit: env.INGEST_LIMIT,
    readLimit: env.READ_LIMIT,
    writeLimit: env.WRITE_LIMIT,
    anonymousLimit: env.ANONYMOUS_LIMIT,
    challengeLimit: env.CHALLENGE_LIMIT,
    attempts: (env as { ATTEMPTS?: AnalyticsEngineDataset }).ATTEMPTS,
    mailer: (env as { EMAIL?: SendEmail }).EMAIL,
    bodies: (env as { BODIES?: R2Bucket }).BODIES,
    fetch: (input, init) => fetch(input, init),
    ...timing,
    log,
    logOmitted,
    notify,
    background: (work) => ctx.waitUntil(work.finally(logOmitted)),
  };
}

function notifyNobody(): Promise<void> {
  throw new Error("This handler has nobody to notify");
}

/** Why the handlers cannot work; undefined when they can. */
export function misconfigurationOf(env: Env): Misconfiguration | undefined {
  try {
    isolateStateOf(env);
    return undefined;
  } catch (error) {
    if (error instanceof Misconfiguration) return error;
    throw error;
  }
}

/** The objects that run and store within the deployment's jurisdiction: others than those outside of it. */
function inJurisdiction<N extends Pick<DurableObjectNamespace, "jurisdiction"> | undefined>(
  { jurisdiction }: Config,
  namespace: N,
): N {
  return jurisdiction === undefined ? namespace : (namespace?.jurisdiction(jurisdiction) as N);
}

export type FunctionBindings = Readonly<{
  FUNCTIONS?: DurableObjectNamespace<TenantFunctions>;
  LOADER?: FunctionLoader;
}>;

/**
 * Why code does not run here, and how to change that; undefined if it runs. Both bindings switch it on; not in the
 * local runtime, which stops no endless loop, unless with a loader that ends them for it.
 */
export function functionsFault(env: FunctionBindings, config: Config): string | undefined {
  const { FUNCTIONS, LOADER } = env;
  if (FUNCTIONS === undefined && LOADER === undefined)
    return "an operator switches code on by FUNCTIONS and [[worker_loaders]] in wrangler.toml";
  if (LOADER === undefined)
    return 'FUNCTIONS is bound and LOADER is not: add [[worker_loaders]] with binding = "LOADER" to wrangler.toml';
  if (FUNCTIONS === undefined)
    return 'LOADER is bound and FUNCTIONS is not: add { name = "FUNCTIONS", class_name = "TenantFunctions" } to durable_objects.bindings in wrangler.toml';
  return config.allowPrivateDestinations && !LOADER.endsLoops
    ? "the local runtime stops no endless loop (ALLOW_PRIVATE_DESTINATIONS is true); `npm run dev` runs code"
    : undefined;
}

function functionsIn(env: Env, config: Config) {
  const bound = env as FunctionBindings;
  const fault = functionsFault(bound, config);
  return fault === undefined
    ? { functions: inJurisdiction(config, bound.FUNCTIONS) }
    : { functionsFault: fault };
}

/** State that all invocations of an isolate share. */
type IsolateState = Readonly<{
  config: Config;
  vault: Vault;
  further: readonly D1Database[];
  routing: RoutingCache;
  memory: Memory;
  placement: PlacementCache;
  bindings: DestinationBindings;
}>;

/** By its `env`, which does not change while an isolate lives: a second one is another isolate's. */
const isolateStates = new WeakMap<Env, IsolateState>();

/** The configuration is parsed once. */
function isolateStateOf(env: Env): IsolateState {
  const known = isolateStates.get(env);
  if (known) return known;
  const { bindings, faults } = destinationBindings(env);
  const config = parseConfig(env, faults);
  const caches = { routing: new RoutingCache(), placement: new PlacementCache(), memory: newMemory() };
  const vault = vaultOf(config.masterKeys);
  const state = { config, vault, ...caches, bindings, further: furtherDatabases(env) };
  isolateStates.set(env, state);
  return state;
}
