/** The Worker at a distance from its database and its objects: each call to them is delayed. */

import worker, {
  DestinationGate as Gate,
  ReceiverGroup as NearGroup,
  Intake as NearIntake,
} from "../../src/worker.ts";
import { type Latency, strictEnv } from "../../tools/strict/bindings.ts";
import { Invocation } from "../../tools/strict/invocation.ts";
import { QUOTAS, type Quotas } from "../../tools/strict/quotas.ts";

export { Events } from "../../src/worker.ts";

type FarEnv = Env & Readonly<{ DISTANCE_MS?: string }>;

/** Delays vary by a fifth, as those between data centres do. */
const SPREAD = 0.2;

const unlimited = new Invocation({
  now: () => Date.now(),
  quotas: Object.fromEntries(Object.keys(QUOTAS).map((name) => [name, Number.POSITIVE_INFINITY])) as Quotas,
});

function latencyOf(ms: number): Latency {
  return async (kind, work) => {
    const isFar = kind === "d1" || kind === "gate";
    if (isFar && ms > 0) await scheduler.wait(ms * (1 - SPREAD + 2 * SPREAD * Math.random()));
    return work();
  };
}

/** Wrapped environments. An environment always gets the same one, because the Worker caches by environment. */
const known = new WeakMap<Env, Env>();

function far(env: FarEnv): Env {
  const one = known.get(env) ?? strictEnv<Env>(env, () => unlimited, latencyOf(Number(env.DISTANCE_MS ?? 0)));
  known.set(env, one);
  known.set(one, one);
  return one;
}

export class DestinationGate extends Gate {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, far(env));
  }
}

export { TenantFunctions } from "../../src/worker.ts";

export class ReceiverGroup extends NearGroup {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, far(env));
  }
}

export class Intake extends NearIntake {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, far(env));
  }
}

export default {
  fetch: (request, env, ctx) => worker.fetch(request, far(env), ctx),
  queue: (batch, env, ctx) => worker.queue(batch, far(env), ctx),
  scheduled: (controller, env, ctx) => worker.scheduled(controller, far(env), ctx),
} satisfies ExportedHandler<Env>;
