/**
 * Everything the stages need from outside, named once. The worker's handlers make one of these from the
 * platform; tests make one with another clock, other randomness or a failing part.
 */
import { type Config, parseConfig } from "./config.ts";
import type { DeliveryMessage, DrainMessage } from "./delivery/message.ts";
import type { DestinationGate } from "./gate/destination-gate.ts";
import { type Log, logToConsole } from "./log.ts";

export type Services = Readonly<{
  config: Config;
  db: D1Database;
  deliveries: Queue<DeliveryMessage>;
  drains: Queue<DrainMessage>;
  gates: DurableObjectNamespace<DestinationGate>;
  fetch: typeof fetch;
  /** Epoch milliseconds. */
  now: () => number;
  /** Uniform in [0, 1). */
  random: () => number;
  /** Resolves after so many milliseconds. */
  sleep: (ms: number) => Promise<void>;
  log: Log;
  /** Keeps the invocation alive until the work is done. */
  background: (work: Promise<unknown>) => void;
}>;

let parsed: { env: unknown; config: Config } | undefined;

/** The configuration of this isolate: parsed once, because `env` does not change while it lives. */
function configOf(env: Env): Config {
  if (parsed?.env !== env) parsed = { env, config: parseConfig(env) };
  return parsed.config;
}

export function servicesOf(env: Env, ctx: Pick<ExecutionContext, "waitUntil">): Services {
  return {
    config: configOf(env),
    db: env.DB,
    deliveries: env.DELIVERIES,
    drains: env.DRAINS,
    gates: env.GATES,
    fetch: (input, init) => fetch(input, init),
    now: () => Date.now(),
    random: () => Math.random(),
    sleep: (ms) => scheduler.wait(ms),
    log: logToConsole,
    background: (work) => ctx.waitUntil(work),
  };
}
