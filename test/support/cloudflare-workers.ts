/** Replaces the runtime's module in simulations in Node: the part of it that the gate's class needs. */
export class DurableObject<Env = unknown> {
  protected readonly ctx: DurableObjectState;
  protected readonly env: Env;

  constructor(ctx: DurableObjectState, env: Env) {
    this.ctx = ctx;
    this.env = env;
  }
}

export const env: Readonly<Record<string, unknown>> = {};
