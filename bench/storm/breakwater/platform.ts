/**
 * The platform in virtual time: D1, gates, queues and invocations beneath the production code. All randomness comes
 * from the engine's seed.
 */
import type { DatabaseSync } from "node:sqlite";
import { parseConfig } from "../../../src/config.ts";
import { consumeDeliveries } from "../../../src/delivery/consumer.ts";
import { consumeDeadLetters } from "../../../src/delivery/dead-letters.ts";
import { ReceiverGroup } from "../../../src/gate/group-object.ts";
import { eventNumber } from "../../../src/ids.ts";
import type { LogLine } from "../../../src/log.ts";
import type { DeliveryMessage, DrainMessage, UpkeepQueueMessage } from "../../../src/queue-messages.ts";
import type { Vault } from "../../../src/secrets/vault.ts";
import type { Services } from "../../../src/services.ts";
import { consumeDrains, consumeUpkeep } from "../../../src/upkeep.ts";
import { type Isolate, type IsolateOptions, isolates } from "../../../test/support/isolates.ts";
import { MASTER_KEYS } from "../../../test/support/vault.ts";
import { strictServices } from "../../../tools/strict/bindings.ts";
import { type Breach, Invocation } from "../../../tools/strict/invocation.ts";
import type { Engine } from "../engine.ts";
import { memoryD1 } from "./d1.ts";
import { type Gates, virtualGates, virtualObjects } from "./gates.ts";
import { type Invocations, type Life, noTroubles, type Troubles, virtualInvocations } from "./invocations.ts";
import { type CallKind, type Latency, latenciesOf } from "./latency.ts";
import { type Ending, type Travel, virtualQueue } from "./queue.ts";

/** The settings of the queues, as in wrangler.toml. */
const shapes = {
  deliveries: {
    name: "breakwater-deliveries",
    batch: 10,
    batchTimeoutMs: 0,
    maxRetries: 100,
    retryDelayS: 30,
  },
  drains: { name: "breakwater-drains", batch: 5, batchTimeoutMs: 0, maxRetries: 3, retryDelayS: 10 },
  upkeep: { name: "breakwater-upkeep", batch: 1, batchTimeoutMs: 0, maxRetries: 3, retryDelayS: 10 },
  dead: { name: "breakwater-dead", batch: 100, batchTimeoutMs: 5_000, maxRetries: 100, retryDelayS: 60 },
};

export type PlatformOptions = Readonly<{
  /** The latency of calls; a number is constant. Default: the usual latencies (latency.ts). */
  latency?: Partial<Record<CallKind, Latency | number>>;
  travel?: Partial<Travel>;
  /** How many concurrent invocations consume each queue. */
  consumers?: Partial<Record<"deliveries" | "drains", number>>;
  /** Read at every call. Default: nothing goes wrong. */
  troubles?: () => Troubles;
  /** Wraps the services of an invocation before production code gets them. */
  wrap?: (services: Services) => Services;
  /** Called when an invocation exceeds one of production's quotas, which makes the invocation fail as in production. */
  onBreach?: (name: string, breach: Breach) => void;
  /** The number of databases. Default: one. */
  databases?: number;
  /** Environment variables. */
  vars?: Readonly<Record<string, string>>;
  /** Each invocation runs in a random one of them. Default: one isolate, whose clock is right. */
  isolates?: IsolateOptions;
  fetch: typeof fetch;
  /** Whether a request ends the invocation that makes it, as one that needs more memory than there is. */
  isDeadly?: (request: Readonly<{ event: number }>) => boolean;
  log: (line: LogLine) => void;
}>;

export type VirtualPlatform = Readonly<{
  /** The first database. */
  db: DatabaseSync;
  /** All of them. */
  databases: readonly DatabaseSync[];
  gates: Gates;
  invocations: Invocations;
  /** Runs the handler as an invocation, with services of its own. */
  invoke: (name: string, handler: (services: Services) => Promise<unknown>) => Promise<Ending>;
  /** Messages that are ready in each queue. */
  ready: () => Readonly<{ deliveries: number; drains: number }>;
}>;

export const calmTravel: Travel = { hopMs: [20, 250], twice: 0, late: 0, lateMs: 0 };

/** WebCrypto works in real time, so signatures are constant here, and ready at once. */
export const openVault: Vault = {
  seal: async (_, secret) => secret,
  sealAgain: async (_, sealed) => sealed,
  unseal: async (_, sealed) => sealed,
  open: async () => ({ sign: async () => "v1,simulated" }),
  openText: async (_destination, _content, sealed) => sealed,
  isCurrent: () => true,
};

export function virtualPlatform(engine: Engine, options: PlatformOptions): VirtualPlatform {
  const {
    troubles = () => noTroubles,
    onBreach = () => {},
    vars = {},
    wrap = (services) => services,
  } = options;
  const travel = { ...calmTravel, ...options.travel };
  const consumers = { deliveries: 20, drains: 100, ...options.consumers };
  const config = parseConfig({
    ADMIN_KEY: "an admin key that nobody uses",
    MASTER_KEYS,
    ALLOW_PRIVATE_DESTINATIONS: "true",
    ...vars,
  });
  const all = Array.from({ length: options.databases ?? 1 }, memoryD1);
  const invocations = virtualInvocations(engine, latenciesOf(options.latency), troubles);

  const dead = virtualQueue<DeliveryMessage>({
    engine,
    shape: { ...shapes.dead, consumers: 1 },
    travel,
    handle: (batch) => invoke("bury", (services) => consumeDeadLetters(services, batch)),
  });
  const toDead = dead.bindingFor(async (_, work) => work());
  const deliveries = virtualQueue<DeliveryMessage>({
    engine,
    shape: { ...shapes.deliveries, consumers: consumers.deliveries },
    travel,
    handle: (batch) => invoke("consume", (services) => consumeDeliveries(services, batch)),
    dead: (body) => void toDead.send(body),
  });
  const drains = virtualQueue<DrainMessage>({
    engine,
    shape: { ...shapes.drains, consumers: consumers.drains },
    travel,
    handle: (batch) => invoke("drain", (services) => consumeDrains(services, batch)),
  });
  const upkeep = virtualQueue<UpkeepQueueMessage>({
    engine,
    shape: { ...shapes.upkeep, consumers: consumers.drains },
    travel,
    handle: (batch) => invoke("upkeep", (services) => consumeUpkeep(services, batch)),
  });
  const gates = virtualGates(engine, (destination) =>
    drains.bindingFor((method, work) =>
      invocations.call(invocations.outside(destination), "queue", `gate: drains ${method}`, work),
    ),
  );

  const groups = virtualObjects(engine, ReceiverGroup, (group) =>
    drains.bindingFor((method, work) =>
      invocations.call(invocations.outside(group), "queue", `group: drains ${method}`, work),
    ),
  );

  const running = isolates({ count: 1, ...options.isolates });

  function servicesFor(life: Life, isolate: Isolate): Services {
    const { call } = invocations;
    const [db, ...further] = all.map((one) => one.bindingFor((_, work) => call(life, "d1", "d1", work)));
    if (db === undefined) throw new Error("There is no database");
    return isolate.own({
      config,
      vault: openVault,
      db,
      ...(further.length > 0 && { further }),
      deliveries: deliveries.bindingFor((method, work) => call(life, "queue", `deliveries ${method}`, work)),
      drains: drains.bindingFor((method, work) => call(life, "queue", `drains ${method}`, work)),
      upkeep: upkeep.bindingFor((method, work) => call(life, "queue", `upkeep ${method}`, work)),
      gates: gates.bindingFor((method, _, work) => call(life, "gate", `gate ${method}`, work)),
      groups: groups.bindingFor((method, _, work) => call(life, "gate", `group ${method}`, work)),
      fetch: (input, init) =>
        options.isDeadly?.({ event: eventOf(init) }) ? invocations.kill(life) : options.fetch(input, init),
      now: engine.now,
      random: engine.random,
      sleep: async (ms) => {
        await engine.sleep(ms);
        if (life.over) await new Promise(() => {});
      },
      log: options.log,
      background: (work) => void life.background.add(work),
    });
  }

  function eventOf(init: RequestInit | undefined): number {
    return eventNumber(new Headers(init?.headers).get("webhook-id") ?? "") ?? 0;
  }

  function invoke(name: string, handler: (services: Services) => Promise<unknown>): Promise<Ending> {
    // Yields to the engine first, which waits only for work that its own promises set off.
    return invocations.invoke(name, async (life) => {
      await engine.sleep(0);
      const quotas = new Invocation({ now: engine.now, onBreach: (breach) => onBreach(name, breach) });
      try {
        return await handler(wrap(strictServices(servicesFor(life, running.any(engine.now())), quotas)));
      } finally {
        quotas.handlerReturned();
      }
    });
  }

  const databases = all.map(({ direct }) => direct);
  const [first] = databases;
  if (first === undefined) throw new Error("There is no database");
  return {
    db: first,
    databases,
    gates,
    invocations,
    invoke,
    ready: () => ({ deliveries: deliveries.ready(), drains: drains.ready() }),
  };
}
