/**
 * A runtime for tests in which calls to the outside take time and one of them can fail. Handlers run as invocations
 * that may overlap, each with its own services. When an invocation crashes, it makes no further calls; calls that were
 * under way still have their effects, and other invocations do not notice.
 *
 * Calls sleep on the test's clock before and after the real call, for seeded random times. The clock is advanced
 * automatically: while invocations run and no real call is under way, the first sleeper is woken.
 *
 * A crash before a call is the same as a crash after the previous one, so crashing after each call covers every two
 * awaits that can be distinguished from outside.
 */

// Loaded on their first use: this runtime would not see that an invocation waits for them.
import "../../src/core/transform/liquid.ts";
import "../../src/delivery/access-token.ts";
import "../../src/delivery/archiver.ts";
import "../../src/delivery/group-member.ts";
import "../../src/delivery/kinds/poll.ts";
import "../../src/delivery/kinds/queue.ts";
import "../../src/delivery/kinds/service-binding.ts";
import "../../src/delivery/transform.ts";
import "../../src/store/group.ts";

import { type CallKind, type Latencies, usualLatencies } from "../../bench/storm/breakwater/latency.ts";
import { seededRandom } from "../../src/core/seeded-random.ts";
import type { Services } from "../../src/services.ts";
import { strictServices } from "../../tools/strict/bindings.ts";
import { type Breach, Invocation } from "../../tools/strict/invocation.ts";
import { type Around, interceptedD1, interceptedGates, interceptedQueue } from "./intercept.ts";
import { type IsolateOptions, isolates } from "./isolates.ts";
import type { World } from "./world.ts";

/**
 * `before`: the call fails and does nothing. `after`: the call does its work and fails. `crash`: it does its work, and
 * the invocation dies.
 */
export type Fault = "before" | "after" | "crash";
export const faults: readonly Fault[] = ["before", "after", "crash"];

export type FaultyRuntime = Readonly<{
  /** The calls made, in order; each name begins with the handler's. */
  calls: readonly string[];
  /** Quotas of production that invocations exceeded, which fails them as in production; in sentences. */
  breaches: readonly string[];
  /** Lets the next call for which `isIt` is true fail. */
  failNext: (isIt: (call: string) => boolean, fault: Fault) => void;
  /** The call that has failed since; undefined while none has. */
  failedCall: () => string | undefined;
  /** Ends all failures. */
  stopFailing: () => void;
  /** Runs a handler and its background work as one invocation; false when it crashed. */
  invoke: (name: string, handler: (services: Services) => Promise<unknown>) => Promise<boolean>;
  /** Makes a call outside of any invocation, such as the alarm of a gate. */
  through: <T>(name: string, work: () => Promise<T>) => Promise<T>;
  /**
   * Makes a call within such a call. It takes no time, because it is made inside the gate's object, which the runtime
   * does not let wait for a clock outside of it. The virtual world has alarms that take time.
   */
  inside: <T>(name: string, work: () => Promise<T>) => Promise<T>;
  /** Does real work of the test while invocations may run: the clock stands still meanwhile. */
  meanwhile: <T>(work: () => Promise<T>) => Promise<T>;
}>;

/** The world; its services may be wrapped. */
type Outside = Pick<World, "services" | "clock" | "receiver">;

export type RuntimeOptions = Readonly<{
  /** Each invocation runs in a random one of several. Default: five isolates, whose clocks differ by up to two seconds. */
  isolates?: IsolateOptions;
  /** The seed of the latencies. */
  seed?: number;
  latencies?: Latencies;
}>;

/** How long a receiver takes to answer. */
const ANSWER_MS = [5, 80] as const;
/** Turns of the event loop after which nothing can proceed without the clock. */
const TURNS = 4;

export function faultyRuntime(outside: Outside, options: RuntimeOptions = {}): FaultyRuntime {
  const { seed = 1, latencies = usualLatencies } = options;
  const { clock, receiver } = outside;
  const random = seededRandom(seed);
  const running = isolates({ seed, ...options.isolates });
  const calls: string[] = [];
  const breaches: string[] = [];
  const invocations = new Set<InvocationState>();
  let armed: Readonly<{ isIt: (call: string) => boolean; fault: Fault }> | undefined;
  let failedCall: string | undefined;
  /** Real calls under way, including those that wait for a receiver. */
  let busy = 0;
  /** Resolves when one of these calls has ended, or waits for a receiver. */
  let changed = Promise.withResolvers<void>();
  let driving: Promise<void> | undefined;

  receiver.pausing(() => {
    changed.resolve();
    return clock.sleep(Math.round(ANSWER_MS[0] + random() * (ANSWER_MS[1] - ANSWER_MS[0])));
  });

  async function real<T>(work: () => Promise<T>): Promise<T> {
    busy += 1;
    try {
      return await work();
    } finally {
      busy -= 1;
      changed.resolve();
    }
  }

  async function call<T>(
    invocation: InvocationState,
    kind: CallKind | undefined,
    name: string,
    work: () => Promise<T>,
  ): Promise<T> {
    if (invocation.over) return never();
    calls.push(name);
    const hit = failedCall === undefined && armed?.isIt(name) ? armed.fault : undefined;
    if (hit) failedCall = name;
    const ms = kind ? latencies[kind](random) : 0;
    const [there, back] = [Math.round(ms / 2), Math.round(ms / 2)];
    invocation.open += 1;
    const made = await outcomeOf(async () => {
      if (there > 0) await clock.sleep(there);
      if (hit === "before") throw failure(name);
      const result = await real(work);
      if (hit === "crash") invocation.over = true;
      if (back > 0) await clock.sleep(back);
      if (hit && !invocation.over) throw failure(name);
      return result;
    });
    invocation.open -= 1;
    if (invocation.over && !invocation.outside) return never();
    if ("error" in made) throw made.error;
    if (invocation.outside && hit === "crash") throw failure(name);
    return made.result;
  }

  async function invoke(name: string, handler: (services: Services) => Promise<unknown>): Promise<boolean> {
    const behind: Promise<unknown>[] = [];
    const work = async (invocation: InvocationState) => {
      const isolate = running.any(clock.now()).own(outside.services);
      const services = servicesOver(isolate, behind, (kind, called, then) =>
        call(invocation, kind, `${name}: ${called}`, then),
      );
      // A timer that is no longer awaited ends with its invocation: that is no breach.
      const onBreach = ({ quota, used, where }: Breach) => {
        if (!invocation.ended && !invocation.over)
          breaches.push(`${name} exceeded ${quota} with ${used}: ${where}`);
      };
      const quotas = new Invocation({ now: clock.now, onBreach });
      await handler(strictServices(services, quotas)).finally(() => quotas.handlerReturned());
      while (behind.length > 0) await Promise.all(behind.splice(0));
    };
    return (await finished({ over: false, open: 0, ended: false }, work)).survived;
  }

  async function through<T>(name: string, work: () => Promise<T>): Promise<T> {
    const invocation = { over: false, open: 0, ended: false, outside: true } as const;
    const { result } = await finished({ ...invocation }, (own) => call(own, "gate", name, work));
    return result as T;
  }

  /** Waits until the invocation has ended, or has crashed and its calls under way have ended. */
  async function finished<T>(invocation: InvocationState, work: (invocation: InvocationState) => Promise<T>) {
    const { promise: over, resolve } = Promise.withResolvers<void>();
    invocation.isOver = resolve;
    const working = work(invocation).finally(() => {
      invocation.ended = true;
    });
    // Awaited below.
    working.catch(() => {});
    invocations.add(invocation);
    driving ??= drive();
    await Promise.race([over, driving]);
    const survived = invocation.ended || !invocation.over;
    return { survived, result: survived ? await working : undefined };
  }

  /** Advances the clock to the first sleeper whenever everything sleeps, receivers included. */
  async function drive(): Promise<void> {
    try {
      for (let idle = 0; invocations.size > 0; ) {
        const isBusy = busy > receiver.open();
        // Real calls return by themselves.
        if (isBusy) {
          await changed.promise;
          changed = Promise.withResolvers();
        } else await scheduler.wait(0);
        idle = isBusy || busy > receiver.open() ? 0 : idle + 1;
        for (const invocation of invocations)
          if (invocation.ended || (invocation.over && invocation.open === 0)) leave(invocation);
        if (idle < TURNS || invocations.size === 0) continue;
        if (!clock.wakeFirst()) throw new Error("An invocation waits for something that never happens");
        idle = 0;
      }
    } finally {
      driving = undefined;
    }
  }

  function leave(invocation: InvocationState): void {
    invocations.delete(invocation);
    invocation.isOver?.();
  }

  return {
    calls,
    breaches,
    failedCall: () => failedCall,
    failNext: (isIt, fault) => {
      armed = { isIt, fault };
      failedCall = undefined;
    },
    stopFailing: () => {
      armed = undefined;
    },
    invoke,
    through,
    inside: (name, work) =>
      call({ over: false, open: 0, ended: false, outside: true }, undefined, name, work) as Promise<never>,
    meanwhile: real,
  };
}

/** True for the nth call, counted from 1; of calls with that name only, if there is one. */
export function nth(n: number, name?: string): (call: string) => boolean {
  let left = n;
  return (call) => (name === undefined || call === name) && --left === 0;
}

/** One invocation: `over` when it has crashed, `open` calls under way. One that is `outside` cannot crash. */
type InvocationState = {
  over: boolean;
  open: number;
  ended: boolean;
  readonly outside?: true;
  isOver?: () => void;
};

type Call = <T>(kind: CallKind | undefined, name: string, work: () => Promise<T>) => Promise<T>;

function servicesOver(services: Services, behind: Promise<unknown>[], call: Call): Services {
  const over =
    (what: string, kind?: CallKind): Around =>
    (name, work) =>
      call(kind, `${what} ${shortened(name)}`, work);
  const gate = over("gate", "gate");
  return {
    ...services,
    db: interceptedD1(services.db, over("D1", "d1")),
    // Further databases have the same names of calls: a fault concerns a call, whichever database it goes to.
    further: (services.further ?? []).map((db) => interceptedD1(db, over("D1", "d1"))),
    deliveries: interceptedQueue(services.deliveries, over("deliveries", "queue")),
    drains: interceptedQueue(services.drains, over("drains", "queue")),
    upkeep: interceptedQueue(services.upkeep, over("upkeep", "queue")),
    gates: interceptedGates(services.gates, (method, _, work) => gate(method, work)),
    fetch: ((url: string, init?: RequestInit) =>
      over("fetch")(new URL(url).hostname, () => services.fetch(url, init))) as typeof fetch,
    background: (work) => void behind.push(work),
  };
}

/** Statements that differ only in the length of a list have the same name. */
function shortened(name: string): string {
  return name
    .replace(/\s+/g, " ")
    .replace(/(\(\?\d+\),?)+/g, "(?)")
    .trim()
    .slice(0, 60);
}

async function outcomeOf<T>(work: () => Promise<T>): Promise<{ result: T } | { error: unknown }> {
  try {
    return { result: await work() };
  } catch (error) {
    return { error };
  }
}

function failure(name: string): Error {
  return new Error(`Network connection lost (${name}), injected`);
}

function never(): Promise<never> {
  return new Promise(() => {});
}
