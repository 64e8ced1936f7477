/**
 * The Worker as it is deployed, under production's quotas: `npm run dev -- --strict`. Each invocation has an
 * account of its own, which its calls find again through AsyncLocalStorage. A breach fails the call as it would in
 * production, and is a loud line on the terminal.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import worker, { DestinationGate as Gate, Intake as RealIntake } from "../../worker.ts";
import { seededRandom } from "../seeded-random.ts";
import { type Slowly, slowlyBy, strictBatch, strictEnv, strictFetch } from "./bindings.ts";
import { type Breach, Invocation } from "./invocation.ts";
import { QUOTAS, type Quotas } from "./quotas.ts";

type StrictEnv = Env & Readonly<{ STRICT_LATENCY?: string; STRICT_QUOTAS?: string }>;

/** Whose account it is, asked for at each call: an object's is another one after each request. */
const invocations = new AsyncLocalStorage<() => Invocation>();
/** For what belongs to no invocation, such as a gate's own calls: it has no quotas. */
const nobody = new Invocation({
  now: () => Date.now(),
  quotas: Object.fromEntries(Object.keys(QUOTAS).map((name) => [name, Number.POSITIVE_INFINITY])) as Quotas,
});
const current = () => invocations.getStore()?.() ?? nobody;

const [log, error] = [console.log.bind(console), console.error.bind(console)];
const wait = scheduler.wait.bind(scheduler);
globalThis.fetch = strictFetch(globalThis.fetch.bind(globalThis), current);
console.log = (...said) => {
  const line = current().line(said.map(String).join(" "));
  if (line !== undefined) log(line);
};
Object.defineProperty(scheduler, "wait", {
  value: (ms: number, options?: SchedulerWaitOptions) => current().timer(() => wait(ms, options)),
});

function shout({ quota, limit, asked, where }: Breach): void {
  error(`\n!!! QUOTA BREACH: ${quota}: ${asked} asked for, ${limit} granted; at ${where}\n`);
}

const envs = new WeakMap<Env, Env>();
const strictOnes = new WeakSet<Env>();
let slowly: Slowly | undefined;
let quotas: Partial<Quotas> = {};

/** The same environment for the same one: the Worker keeps what it has made of it. */
function strict(env: StrictEnv): Env {
  const known = envs.get(env);
  if (known) return known;
  if (strictOnes.has(env)) return env;
  if (env.STRICT_LATENCY) slowly ??= slowlyBy(seededRandom(Number(env.STRICT_LATENCY)), (ms) => wait(ms));
  if (env.STRICT_QUOTAS) quotas = JSON.parse(env.STRICT_QUOTAS);
  const made = strictEnv<Env>(env, current, slowly);
  envs.set(env, made);
  strictOnes.add(made);
  return made;
}

async function invoke<T>(
  env: Env,
  handle: (strictly: Env, invocation: Invocation) => T | Promise<T>,
): Promise<T> {
  const strictly = strict(env);
  const invocation = new Invocation({ now: () => Date.now(), onBreach: shout, quotas });
  try {
    return await invocations.run(
      () => invocation,
      () => handle(strictly, invocation),
    );
  } finally {
    invocation.handlerReturned();
  }
}

/** The same context, whose background work is cut off when its time is over. */
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

/**
 * The account of an object starts anew with each request that comes in, for all that the object does from then on,
 * as the platform's limits do. Nothing cuts off its work while it goes on.
 * https://developers.cloudflare.com/durable-objects/platform/limits/
 */
export class Intake extends RealIntake {
  #invocation = nobody;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, strict(env));
  }

  override accept(...given: Parameters<RealIntake["accept"]>): ReturnType<RealIntake["accept"]> {
    this.#invocation = new Invocation({ now: () => Date.now(), onBreach: shout, quotas });
    return invocations.run(
      () => this.#invocation,
      () => super.accept(...given),
    );
  }
}

export default {
  fetch: (request, env, ctx) =>
    invoke(env, (strictly, invocation) => worker.fetch(request, strictly, bounded(ctx, invocation))),
  queue: (batch, env, ctx) =>
    invoke(env, (strictly, invocation) =>
      worker.queue(strictBatch(batch, invocation), strictly, bounded(ctx, invocation)),
    ),
  scheduled: (controller, env, ctx) =>
    invoke(env, (strictly, invocation) => worker.scheduled(controller, strictly, bounded(ctx, invocation))),
} satisfies ExportedHandler<Env>;
