/**
 * Everything that the delivery path asks of the outside goes over one wire, where each call has a number,
 * takes its time, and one of them can go wrong. What a Worker has begun it may not finish: when it crashes,
 * nothing of that invocation happens any more, but for what was on its way already, and the others know
 * nothing of it. Invocations may overlap; each has services of its own.
 *
 * Calls sleep on the standing clock before and behind the real call, for seeded random times. Nobody has to
 * move the time for that: while an invocation runs, and nothing real is under way, the first sleeper is woken.
 *
 * A crash before a call is a crash after the one before it, so crashes after each call are crashes between
 * every two awaits that can be told apart from outside.
 */

import { strictServices } from "../../src/local/strict/bindings.ts";
import { type Breach, Invocation } from "../../src/local/strict/invocation.ts";
import type { Services } from "../../src/services.ts";
import { seededRandom } from "../../src/simulator/scenario.ts";
import { type CallKind, type Latencies, usualLatencies } from "../bench/storm/breakwater/latency.ts";
import { type Around, interceptedD1, interceptedGates, interceptedQueue } from "./intercept.ts";
import type { World } from "./world.ts";

/** `before`: the call fails and does nothing. `after`: it does its work and fails. `crash`: work and death. */
export type Fault = "before" | "after" | "crash";
export const faults: readonly Fault[] = ["before", "after", "crash"];

export type Wire = Readonly<{
  /** The calls made, in their order, each after the name of the handler that made it. */
  calls: readonly string[];
  /** Where invocations went beyond a quota of production's, which fails them as there; in sentences. */
  breaches: readonly string[];
  /** Of the calls from now on, the first that it is goes wrong. */
  arm: (isIt: (call: string) => boolean, fault: Fault) => void;
  /** The call that has gone wrong since; undefined while none has. */
  struck: () => string | undefined;
  /** From now on, nothing goes wrong. */
  mend: () => void;
  /** Runs the handler so named as one invocation with everything behind its answer; false when it crashed. */
  invoke: (name: string, handler: (services: Services) => Promise<unknown>) => Promise<boolean>;
  /** A call that is made outside of any invocation, such as the alarm of a gate. */
  through: <T>(name: string, work: () => Promise<T>) => Promise<T>;
  /**
   * A call that such a call makes in its turn. It takes no time: it is made inside of the gate's object, which
   * the runtime does not let wait for a clock outside of it. The virtual world has alarms that take time.
   */
  inside: <T>(name: string, work: () => Promise<T>) => Promise<T>;
  /** Something real that the test itself does while invocations may run: no time passes meanwhile. */
  meanwhile: <T>(work: () => Promise<T>) => Promise<T>;
}>;

/** The world, with services that may be watched by others. */
type Outside = Pick<World, "services" | "clock" | "receiver">;

export type WireOptions = Readonly<{
  /** Of the times that calls take. */
  seed?: number;
  latencies?: Latencies;
}>;

/** How long a receiver takes to answer. */
const ANSWER_MS = [5, 80] as const;
/** Turns of the event loop after which whatever can go on has gone on. */
const TURNS = 4;

export function wireOf(outside: Outside, options: WireOptions = {}): Wire {
  const { seed = 1, latencies = usualLatencies } = options;
  const { clock, receiver } = outside;
  const random = seededRandom(seed);
  const calls: string[] = [];
  const breaches: string[] = [];
  const lives = new Set<Life>();
  let armed: Readonly<{ isIt: (call: string) => boolean; fault: Fault }> | undefined;
  let struck: string | undefined;
  /** Real calls under way, those that wait for a receiver included. */
  let busy = 0;
  let driving: Promise<void> | undefined;

  receiver.pausing(() => clock.sleep(Math.round(ANSWER_MS[0] + random() * (ANSWER_MS[1] - ANSWER_MS[0]))));

  async function real<T>(work: () => Promise<T>): Promise<T> {
    busy += 1;
    try {
      return await work();
    } finally {
      busy -= 1;
    }
  }

  async function carry<T>(
    life: Life,
    kind: CallKind | undefined,
    name: string,
    work: () => Promise<T>,
  ): Promise<T> {
    if (life.over) return never();
    calls.push(name);
    const hit = struck === undefined && armed?.isIt(name) ? armed.fault : undefined;
    if (hit) struck = name;
    const ms = kind ? latencies[kind](random) : 0;
    const [there, back] = [Math.round(ms / 2), Math.round(ms / 2)];
    life.open += 1;
    const made = await outcomeOf(async () => {
      if (there > 0) await clock.sleep(there);
      if (hit === "before") throw failure(name);
      const result = await real(work);
      if (hit === "crash") life.over = true;
      if (back > 0) await clock.sleep(back);
      if (hit && !life.over) throw failure(name);
      return result;
    });
    life.open -= 1;
    if (life.over && !life.outside) return never();
    if ("error" in made) throw made.error;
    if (life.outside && hit === "crash") throw failure(name);
    return made.result;
  }

  async function invoke(name: string, handler: (services: Services) => Promise<unknown>): Promise<boolean> {
    const behind: Promise<unknown>[] = [];
    const work = async (life: Life) => {
      const services = servicesOver(outside.services, behind, (kind, call, then) =>
        carry(life, kind, `${name}: ${call}`, then),
      );
      // A timer that nobody waits for any more ends with its invocation: that is no breach.
      const onBreach = ({ quota, used, where }: Breach) => {
        if (!life.ended && !life.over) breaches.push(`${name} went beyond ${quota} with ${used}: ${where}`);
      };
      const quotas = new Invocation({ now: clock.now, onBreach });
      await handler(strictServices(services, quotas)).finally(() => quotas.handlerReturned());
      while (behind.length > 0) await Promise.all(behind.splice(0));
    };
    return (await lived({ over: false, open: 0, ended: false }, work)).survived;
  }

  async function through<T>(name: string, work: () => Promise<T>): Promise<T> {
    const life = { over: false, open: 0, ended: false, outside: true } as const;
    const { result } = await lived({ ...life }, (own) => carry(own, "gate", name, work));
    return result as T;
  }

  /** Until the life has ended, or has crashed and all that was on its way has come to an end. */
  async function lived<T>(life: Life, work: (life: Life) => Promise<T>) {
    const { promise: over, resolve } = Promise.withResolvers<void>();
    life.isOver = resolve;
    const working = work(life).finally(() => {
      life.ended = true;
    });
    // Its rejection is for whoever awaits it below.
    working.catch(() => {});
    lives.add(life);
    driving ??= drive();
    await Promise.race([over, driving]);
    const survived = life.ended || !life.over;
    return { survived, result: survived ? await working : undefined };
  }

  /** Whenever all that goes on is sleep, a receiver's too, the time moves to where the first sleeper wakes. */
  async function drive(): Promise<void> {
    try {
      for (let idle = 0; lives.size > 0; ) {
        const isBusy = busy > receiver.open();
        // Real calls come back by themselves; a turn that waits a little leaves the machine to them.
        await (isBusy ? new Promise((resolve) => setTimeout(resolve)) : scheduler.wait(0));
        idle = busy > receiver.open() ? 0 : idle + 1;
        for (const life of lives) if (life.ended || (life.over && life.open === 0)) leave(life);
        if (idle < TURNS || lives.size === 0) continue;
        if (!clock.wakeFirst()) throw new Error("An invocation waits for something that will never come");
        idle = 0;
      }
    } finally {
      driving = undefined;
    }
  }

  function leave(life: Life): void {
    lives.delete(life);
    life.isOver?.();
  }

  return {
    calls,
    breaches,
    struck: () => struck,
    arm: (isIt, fault) => {
      armed = { isIt, fault };
      struck = undefined;
    },
    mend: () => {
      armed = undefined;
    },
    invoke,
    through,
    inside: (name, work) =>
      carry({ over: false, open: 0, ended: false, outside: true }, undefined, name, work) as Promise<never>,
    meanwhile: real,
  };
}

/** Whether it is the call so numbered from 1; of those alone that are so named, where there is a name. */
export function nth(n: number, name?: string): (call: string) => boolean {
  let left = n;
  return (call) => (name === undefined || call === name) && --left === 0;
}

/** One invocation: over when it has crashed, with so many calls under way. What is `outside` cannot crash. */
type Life = {
  over: boolean;
  open: number;
  ended: boolean;
  readonly outside?: true;
  isOver?: () => void;
};

type Carry = <T>(kind: CallKind | undefined, name: string, work: () => Promise<T>) => Promise<T>;

function servicesOver(services: Services, behind: Promise<unknown>[], carry: Carry): Services {
  const over =
    (what: string, kind?: CallKind): Around =>
    (name, work) =>
      carry(kind, `${what} ${shortened(name)}`, work);
  const gate = over("gate", "gate");
  return {
    ...services,
    db: interceptedD1(services.db, over("D1", "d1")),
    further: (services.further ?? []).map((db, i) => interceptedD1(db, over(`D1 ${i + 1}`, "d1"))),
    deliveries: interceptedQueue(services.deliveries, over("deliveries", "queue")),
    drains: interceptedQueue(services.drains, over("drains", "queue")),
    gates: interceptedGates(services.gates, (method, _, work) => gate(method, work)),
    fetch: ((url: string, init?: RequestInit) =>
      over("fetch")(new URL(url).hostname, () => services.fetch(url, init))) as typeof fetch,
    background: (work) => void behind.push(work),
  };
}

/** Statements that differ in the length of a list alone have one name. */
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
  return new Error(`Network connection lost (${name}), as the test wants it`);
}

function never(): Promise<never> {
  return new Promise(() => {});
}
