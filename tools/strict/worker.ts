/**
 * The Worker under production's quotas, which the local runtime does not enforce: `npm run dev -- --strict`. Each invocation
 * is counted separately; its calls find their counters through AsyncLocalStorage. A breach fails the call as in production,
 * and is printed on the terminal.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { seededRandom } from "../../src/core/seeded-random.ts";
import worker, {
  DestinationGate as Gate,
  Events as RealEvents,
  ReceiverGroup as RealGroup,
  Intake as RealIntake,
  TenantFunctions,
} from "../../src/worker.ts";
import { withFunctions } from "../dev/functions.ts";
import { type Latency, randomLatency, strictBatch, strictEnv, strictFetch } from "./bindings.ts";
import { type Breach, Invocation } from "./invocation.ts";
import { QUOTAS, type Quotas } from "./quotas.ts";

type StrictEnv = Env & Readonly<{ STRICT_LATENCY?: string; STRICT_QUOTAS?: string }>;

/** Looked up at each call, because a Durable Object's counters are reset by each request. */
const invocations = new AsyncLocalStorage<() => Invocation>();
/** Used for calls outside of an invocation, such as a gate's own: they have no quotas. */
const unlimited = new Invocation({
  now: () => Date.now(),
  quotas: Object.fromEntries(Object.keys(QUOTAS).map((name) => [name, Number.POSITIVE_INFINITY])) as Quotas,
});
const current = () => invocations.getStore()?.() ?? unlimited;

const [log, error] = [console.log.bind(console), console.error.bind(console)];
const wait = scheduler.wait.bind(scheduler);
globalThis.fetch = strictFetch(globalThis.fetch.bind(globalThis), current);
console.log = (...args) => {
  const line = current().line(args.map(String).join(" "));
  if (line !== undefined) log(line);
};
Object.defineProperty(scheduler, "wait", {
  value: (ms: number, options?: SchedulerWaitOptions) => current().timer(() => wait(ms, options)),
});

function printBreach({ quota, limit, used, where }: Breach): void {
  error(`\n!!! QUOTA BREACH: ${quota}: ${used} used, ${limit} allowed; at ${where}\n`);
}

const envs = new WeakMap<Env, Env>();
const wrappedEnvs = new WeakSet<Env>();
let latency: Latency | undefined;
let quotas: Partial<Quotas> = {};

/** Wraps an environment, always with the same result, because the Worker caches by environment. */
function strict(env: StrictEnv): Env {
  const known = envs.get(env);
  if (known) return known;
  if (wrappedEnvs.has(env)) return env;
  if (env.STRICT_LATENCY)
    latency ??= randomLatency(seededRandom(Number(env.STRICT_LATENCY)), (ms) => wait(ms));
  if (env.STRICT_QUOTAS) quotas = JSON.parse(env.STRICT_QUOTAS);
  const wrapped = strictEnv<Env>(withFunctions(env), current, latency);
  envs.set(env, wrapped);
  wrappedEnvs.add(wrapped);
  return wrapped;
}

async function invoke<T>(
  env: Env,
  handle: (strictEnvironment: Env, invocation: Invocation) => T | Promise<T>,
): Promise<T> {
  const strictEnvironment = strict(env);
  const invocation = new Invocation({ now: () => Date.now(), onBreach: printBreach, quotas });
  try {
    return await invocations.run(
      () => invocation,
      () => handle(strictEnvironment, invocation),
    );
  } finally {
    invocation.handlerReturned();
  }
}

/** The same context; its background work is cut off after 30 seconds, as in production. */
function bounded(ctx: ExecutionContext, invocation: Invocation): ExecutionContext {
  return Object.assign(Object.create(ctx), {
    waitUntil: (work: Promise<unknown>) => ctx.waitUntil(invocation.untilCutOff(work)),
    passThroughOnException: () => ctx.passThroughOnException(),
  });
}

export class DestinationGate extends Gate {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, strict(env));
  }

  override alarm(): Promise<void> {
    return invoke(this.env, () => super.alarm());
  }
}

export { TenantFunctions };

export class ReceiverGroup extends RealGroup {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, strict(env));
  }

  override alarm(): Promise<void> {
    return invoke(this.env, () => super.alarm());
  }
}

/**
 * A Durable Object's counters are reset by each request, as the platform's limits are, and then count everything that
 * the object does. Its work is not cut off.
 * https://developers.cloudflare.com/durable-objects/platform/limits/
 */
export class Intake extends RealIntake {
  #invocation = unlimited;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, strict(env));
  }

  override accept(...args: Parameters<RealIntake["accept"]>): ReturnType<RealIntake["accept"]> {
    this.#invocation = new Invocation({ now: () => Date.now(), onBreach: printBreach, quotas });
    return invocations.run(
      () => this.#invocation,
      () => super.accept(...args),
    );
  }
}

/** Each call of a service binding is an invocation. */
export class Events extends RealEvents {
  constructor(ctx: ExecutionContext, env: Env) {
    super(ctx, strict(env));
  }

  override send(...args: Parameters<RealEvents["send"]>): ReturnType<RealEvents["send"]> {
    return invoke(this.env, () => super.send(...args));
  }

  override sendBatch(...args: Parameters<RealEvents["sendBatch"]>): ReturnType<RealEvents["sendBatch"]> {
    return invoke(this.env, () => super.sendBatch(...args));
  }

  override event(id: string): ReturnType<RealEvents["event"]> {
    return invoke(this.env, () => super.event(id));
  }

  override delivery(id: string): ReturnType<RealEvents["delivery"]> {
    return invoke(this.env, () => super.delivery(id));
  }
}

export default {
  fetch: (request, env, ctx) =>
    invoke(env, (strictEnvironment, invocation) =>
      worker.fetch(request, strictEnvironment, bounded(ctx, invocation)),
    ),
  queue: (batch, env, ctx) =>
    invoke(env, (strictEnvironment, invocation) =>
      worker.queue(strictBatch(batch, invocation), strictEnvironment, bounded(ctx, invocation)),
    ),
  scheduled: (controller, env, ctx) =>
    invoke(env, (strictEnvironment, invocation) =>
      worker.scheduled(controller, strictEnvironment, bounded(ctx, invocation)),
    ),
} satisfies ExportedHandler<Env>;
