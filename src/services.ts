/**
 * Everything the stages need from outside, named once. The worker's handlers make one of these from the
 * platform; tests make one with another clock, other randomness or a failing part.
 */
import { type Config, parseConfig } from "./config.ts";
import { MOST_DATABASES } from "./core/placement.ts";
import type { AttemptCounts } from "./delivery/attempt-log.ts";
import type { DestinationGate } from "./gate/durable-object.ts";
import type { Intake } from "./ingest/intake.ts";
import { RoutingCache } from "./ingest/routing-cache.ts";
import { type Log, logToConsole } from "./log.ts";
import type { DeliveryMessage, DrainQueueMessage } from "./queue-messages.ts";
import { type Vault, vaultOf } from "./secrets/vault.ts";

// §§ The D1 databases that a deployment binds: `DB` is number 0, and events go to `DB_1`, `DB_2` and so on as
// well where they are bound. The numbers are part of the events' ids, so there is no gap in them.

/** Those beyond the first, in the order of their numbers, and what is wrong with their names. */
export function furtherDatabases(env: object): { further: D1Database[]; faults: string[] } {
  const named = Object.entries(env).flatMap(([name, binding]) => {
    const number = /^DB_(\d+)$/.exec(name)?.[1];
    return number === undefined ? [] : [{ name, number: Number(number), binding: binding as D1Database }];
  });
  const sorted = named.toSorted((a, b) => a.number - b.number);
  const misplaced = sorted.find(({ name }, i) => name !== `DB_${i + 1}`);
  const expected = `expected DB, DB_1, DB_2 and so on, ${MOST_DATABASES} at most`;
  const isTooMany = sorted.length >= MOST_DATABASES;
  const fault = misplaced
    ? `${misplaced.name} is bound out of turn`
    : isTooMany && `${sorted.length + 1} databases are bound`;
  return { further: sorted.map(({ binding }) => binding), faults: fault ? [`${fault}; ${expected}`] : [] };
}

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
  intake?: DurableObjectNamespace<Intake> | undefined;
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
  /** Resolves after so many milliseconds; rejects when the signal aborts it. */
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
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
