/**
 * Everything the stages need from outside, named once. The worker's handlers make one of these from the
 * platform; tests make one with another clock, other randomness or a failing part.
 */
import { type Config, parseConfig } from "./config.ts";
import { furtherDatabases } from "./db/shards.ts";
import type { DestinationGate } from "./gate/durable-object.ts";
import type { IntakeRpc } from "./ingest/bundle.ts";
import { RoutingCache } from "./ingest/routing-cache.ts";
import { type Log, logToConsole } from "./log.ts";
import type { DeliveryMessage, DrainQueueMessage } from "./queue-messages.ts";
import { type Vault, vaultOf } from "./secrets/vault.ts";
import type { Sleep } from "./time.ts";

/** The attempts of one invocation, counted until they are logged. */
export type AttemptCounts = {
  readonly source: "queue" | "drain";
  readonly startedAt: number;
  delivered: number;
  failed: number;
  /** Of which Analytics Engine has taken no data point. */
  uncounted: number;
  slowestMs: number;
  readonly destinations: Set<string>;
};

export type Services = Readonly<{
  config: Config;
  /** Seals and opens signing secrets. */
  vault: Vault;
  /** The first database: everything that is neither an event nor a delivery is in it alone. */
  db: D1Database;
  /** More of them, for events and deliveries: see db/shards.ts before asking `db` for either. */
  further?: readonly D1Database[];
  deliveries: Queue<DeliveryMessage>;
  drains: Queue<DrainQueueMessage>;
  gates: DurableObjectNamespace<DestinationGate>;
  /** Commits single events for everybody; absent where each request commits its own. */
  intake?: DurableObjectNamespace<IntakeRpc> | undefined;
  /** What this isolate knows of tenants' destinations. */
  routing: RoutingCache;
  /** Counts what each API key posts; absent where nothing is limited. */
  ingestLimit?: RateLimit | undefined;
  /** The same of what each reads. */
  readLimit?: RateLimit | undefined;
  /** Where each attempt leaves a data point; absent where Analytics Engine is not bound. */
  attempts?: AnalyticsEngineDataset | undefined;
  /** Sends mails to the operator; absent where no e-mail is bound. */
  mailer?: SendEmail | undefined;
  fetch: typeof fetch;
  /** Epoch milliseconds. */
  now: () => number;
  /** Uniform in [0, 1). */
  random: () => number;
  sleep: Sleep;
  log: Log;
  /** The attempts of this invocation, to be logged together; absent where nobody counts them. */
  attemptCounts?: AttemptCounts;
  /** Keeps the invocation alive until the work is done. */
  background: (work: Promise<unknown>) => void;
}>;

type Settled = Readonly<{
  env: Env;
  config: Config;
  vault: Vault;
  further: readonly D1Database[];
  routing: RoutingCache;
}>;

let settled: Settled | undefined;

/** The configuration of this isolate: parsed once, because `env` does not change while it lives. */
function settledBy(env: Env): Settled {
  if (settled?.env === env) return settled;
  const config = parseConfig(env);
  const routing = new RoutingCache();
  settled = { env, config, vault: vaultOf(config.masterKeys), routing, ...furtherDatabases(env) };
  return settled;
}

export function servicesOf(env: Env, ctx: Pick<ExecutionContext, "waitUntil">): Services {
  const { config, vault, further, routing } = settledBy(env);
  return {
    config,
    vault,
    db: env.DB,
    further,
    deliveries: env.DELIVERIES,
    drains: env.DRAINS,
    gates: env.GATES,
    intake: env.INTAKE,
    routing,
    ingestLimit: env.INGEST_LIMIT,
    readLimit: env.READ_LIMIT,
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
