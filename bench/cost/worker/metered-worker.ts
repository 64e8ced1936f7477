/**
 * The Worker as it is deployed, with a meter at each of its bindings. `GET /units` reads the meters, `GET /bytes` the
 * size of the database, `POST /sql` prepares the database uncounted, and `POST /tick` runs the cron.
 */
import worker, {
  DestinationGate as Gate,
  ReceiverGroup as RealGroup,
  Intake as RealIntake,
} from "../../../src/worker.ts";
import { busy, countLines, meteredBatch, meteredEnv, meteredStorage, units } from "./meters.ts";

countLines();

/** The gate with a meter at its storage. */
export class DestinationGate extends Gate {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, meteredEnv(env));
    const storage = meteredStorage(ctx.storage);
    Object.defineProperty(this, "ctx", { value: { id: ctx.id, storage } });
  }

  override async alarm(): Promise<void> {
    units.gateRequests += 1;
    await busy(`gate ${this.ctx.id.name}`, "gateMs", () => super.alarm());
  }
}

export { TenantFunctions } from "../../../src/worker.ts";

/** The group with a meter at its storage. */
export class ReceiverGroup extends RealGroup {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, meteredEnv(env));
    const storage = meteredStorage(ctx.storage);
    const waitUntil = (work: Promise<unknown>) => ctx.waitUntil(work);
    Object.defineProperty(this, "ctx", { value: { id: ctx.id, storage, waitUntil } });
  }
}

/** Intake with a meter: it is busy from a request until nothing is under way, including work behind its answers. */
export class Intake extends RealIntake {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, meteredEnv(env));
    const waitUntil = (work: Promise<unknown>) =>
      ctx.waitUntil(busy(`intake ${ctx.id.name}`, "intakeMs", () => work));
    Object.defineProperty(this, "ctx", { value: { id: ctx.id, waitUntil } });
  }
}

export default {
  async fetch(request, env, ctx) {
    const { pathname } = new URL(request.url);
    if (pathname === "/units") return Response.json(units);
    if (pathname === "/bytes") return Response.json((await env.DB.prepare("SELECT 1").run()).meta.size_after);
    if (pathname === "/sql") {
      const { sql, values } = await request.json<{ sql: string; values: unknown[] }>();
      const { results } = await env.DB.prepare(sql)
        .bind(...values)
        .all();
      return Response.json(results);
    }
    if (pathname === "/tick") {
      units.invocations += 1;
      await worker.scheduled({} as ScheduledController, meteredEnv(env), ctx);
      return new Response();
    }
    units.invocations += 1;
    return worker.fetch(request, meteredEnv(env), ctx);
  },

  async queue(batch, env, ctx) {
    units.invocations += 1;
    if (batch.queue === "breakwater-deliveries") units.consumerBatches += 1;
    const { metered, deleted } = meteredBatch(batch);
    await worker.queue(metered, meteredEnv(env), ctx);
    units.queueDeleted += deleted();
  },
} satisfies ExportedHandler<Env>;
