/**
 * Everything that the handlers need from the platform: bindings, configuration, clock, randomness, log. The Worker's
 * handlers make one for each invocation; tests make one with another clock, other randomness or a failing part.
 */
import {
  type Config,
  type DestinationBindings,
  destinationBindings,
  hostMisconfiguration,
  Misconfiguration,
  parseConfig,
} from "./config.ts";
import { furtherDatabases } from "./db/shards.ts";
import type { DestinationGate } from "./gate/durable-object.ts";
import type { IntakeRpc } from "./ingest/intake-protocol.ts";
import { RoutingCache } from "./ingest/routing-cache.ts";
import { type Log, logToConsole } from "./log.ts";
import type { DeliveryMessage, DrainQueueMessage } from "./queue-messages.ts";
import { type Vault, vaultOf } from "./secrets/vault.ts";
import type { Sleep } from "./time.ts";

/** The attempts of one invocation, counted for its log line. */
export type AttemptCounts = {
  readonly source: "queue" | "drain";
  readonly startedAt: number;
  delivered: number;
  failed: number;
  /** Those of which Analytics Engine took no data point. */
  uncounted: number;
  slowestMs: number;
  readonly destinations: Set<string>;
};

export type Services = Readonly<{
  config: Config;
  /** Encrypts and decrypts signing secrets. */
  vault: Vault;
  /** The first database: everything that is neither an event nor a delivery is in it alone. */
  db: D1Database;
  /** Further databases of events and deliveries; see db/shards.ts before you query `db` for either. */
  further?: readonly D1Database[];
  deliveries: Queue<DeliveryMessage>;
  drains: Queue<DrainQueueMessage>;
  gates: DurableObjectNamespace<DestinationGate>;
  /** Commits single events of concurrent requests together; absent where each request commits its own. */
  intake?: DurableObjectNamespace<IntakeRpc> | undefined;
  /** This isolate's cache of tenants' destinations. */
  routing: RoutingCache;
  /** Limits how often each API key posts; absent where nothing is limited. */
  ingestLimit?: RateLimit | undefined;
  /** Limits how often each API key reads. */
  readLimit?: RateLimit | undefined;
  /** Limits how often requests without a valid key come from an address. */
  anonymousLimit?: RateLimit | undefined;
  /** Takes a data point for each attempt; absent where Analytics Engine is not bound. */
  attempts?: AnalyticsEngineDataset | undefined;
  /** Sends mails to the operator; absent where `send_email` is not bound. */
  mailer?: SendEmail | undefined;
  /** Queues and services of this Worker that destinations may be; absent where there are none. */
  destinationBindings?: DestinationBindings;
  fetch: typeof fetch;
  /** Epoch milliseconds. */
  now: () => number;
  /** Uniform in [0, 1). */
  random: () => number;
  sleep: Sleep;
  log: Log;
  /** The attempts of this invocation, for one log line about all of them; absent where nothing attempts. */
  attemptCounts?: AttemptCounts;
  /** Keeps the invocation alive until the work is done. */
  background: (work: Promise<unknown>) => void;
}>;

/** The services of one invocation. */
export function servicesOf(env: Env, ctx: Pick<ExecutionContext, "waitUntil">): Services {
  const { config, vault, further, routing, bindings } = isolateStateOf(env);
  return {
    config,
    vault,
    destinationBindings: bindings,
    db: env.DB,
    further,
    deliveries: env.DELIVERIES,
    drains: env.DRAINS,
    gates: env.GATES,
    intake: env.INTAKE,
    routing,
    ingestLimit: env.INGEST_LIMIT,
    readLimit: env.READ_LIMIT,
    anonymousLimit: env.ANONYMOUS_LIMIT,
    attempts: (env as { ATTEMPTS?: AnalyticsEngineDataset }).ATTEMPTS,
    mailer: (env as { EMAIL?: SendEmail }).EMAIL,
    fetch: (input, init) => fetch(input, init),
    now: () => Date.now(),
    random: () => Math.random(),
    sleep: (ms, signal) => scheduler.wait(ms, signal && { signal }),
    log: logToConsole,
    background: (work) => ctx.waitUntil(work),
  };
}

/** Why the handlers cannot work, or cannot answer requests to this host; undefined when they can. */
export function misconfigurationOf(env: Env, hostname?: string): Misconfiguration | undefined {
  try {
    const { config } = isolateStateOf(env);
    return hostname === undefined ? undefined : hostMisconfiguration(config, hostname);
  } catch (error) {
    if (error instanceof Misconfiguration) return error;
    throw error;
  }
}

/** What all invocations of an isolate share. */
type IsolateState = Readonly<{
  env: Env;
  config: Config;
  vault: Vault;
  further: readonly D1Database[];
  routing: RoutingCache;
  bindings: DestinationBindings;
}>;

let isolateState: IsolateState | undefined;

/** The configuration is parsed once, because `env` does not change while an isolate lives. */
function isolateStateOf(env: Env): IsolateState {
  if (isolateState?.env === env) return isolateState;
  const config = parseConfig(env);
  const routing = new RoutingCache();
  const { bindings } = destinationBindings(env);
  const vault = vaultOf(config.masterKeys);
  isolateState = { env, config, vault, routing, bindings, ...furtherDatabases(env) };
  return isolateState;
}
