/**
 * Everything that the delivery path asks of the outside goes over one wire, where each call has a number and
 * one of them can go wrong. What a Worker has begun it may not finish: when it crashes, nothing of that
 * invocation happens any more, and the others know nothing of it.
 *
 * A crash before a call is a crash after the one before it, so crashes after each call are crashes between
 * every two awaits that can be told apart from outside.
 */
import type { Services } from "../../src/services.ts";
import { type Around, interceptedD1, interceptedGates, interceptedQueue } from "./intercept.ts";
import type { World } from "./world.ts";

/** `before`: the call fails and does nothing. `after`: it does its work and fails. `crash`: work and death. */
export type Fault = "before" | "after" | "crash";
export const faults: readonly Fault[] = ["before", "after", "crash"];

export type Wire = Readonly<{
  /** The calls made, in their order, each after the name of the handler that made it. */
  calls: readonly string[];
  /** Of the calls from now on, the first that it is goes wrong. */
  arm: (isIt: (call: string) => boolean, fault: Fault) => void;
  /** The call that has gone wrong since; undefined while none has. */
  struck: () => string | undefined;
  /** From now on, nothing goes wrong. */
  mend: () => void;
  /** Runs the handler so named as one invocation with everything behind its answer; false when it crashed. */
  invoke: (name: string, handler: (services: Services) => Promise<unknown>) => Promise<boolean>;
  /** A call that is made outside of any invocation. */
  through: <T>(name: string, work: () => Promise<T>) => Promise<T>;
}>;

/** The world, with services that may be watched by others. */
type Outside = Pick<World, "services" | "clock" | "receiver">;

export function wireOf(outside: Outside): Wire {
  const calls: string[] = [];
  let armed: Readonly<{ isIt: (call: string) => boolean; fault: Fault }> | undefined;
  let struck: string | undefined;

  async function carry<T>(life: Life, name: string, work: () => Promise<T>): Promise<T> {
    if (life.over) return never();
    calls.push(name);
    const hit = struck === undefined && armed?.isIt(name) ? armed.fault : undefined;
    if (hit) struck = name;
    if (hit === "before") throw failure(name);
    life.open += 1;
    const result = await work().finally(() => {
      life.open -= 1;
    });
    if (hit === "crash") life.over = true;
    if (life.over && !life.outside) return never();
    if (hit) throw failure(name);
    return result;
  }

  async function invoke(name: string, handler: (services: Services) => Promise<unknown>): Promise<boolean> {
    const life: Life = { over: false, open: 0 };
    const behind: Promise<unknown>[] = [];
    const around: Around = (call, work) => carry(life, `${name}: ${call}`, work);
    const services = servicesOver(outside.services, around, behind);
    let ended = false;
    const work = (async () => {
      await handler(services);
      while (behind.length > 0) await Promise.all(behind.splice(0));
    })().finally(() => {
      ended = true;
    });
    await timePasses(outside, life, () => ended);
    if (!life.over) await work;
    return !life.over;
  }

  return {
    calls,
    struck: () => struck,
    arm: (isIt, fault) => {
      armed = { isIt, fault };
      struck = undefined;
    },
    mend: () => {
      armed = undefined;
    },
    invoke,
    through: (name, work) => carry({ over: false, open: 0, outside: true }, name, work),
  };
}

/** Whether it is the call so numbered from 1; of those alone that are so named, where there is a name. */
export function nth(n: number, name?: string): (call: string) => boolean {
  let left = n;
  return (call) => (name === undefined || call === name) && --left === 0;
}

/** One invocation: over when it has crashed, with so many calls under way. Nobody waits inside what is `outside`. */
type Life = { over: boolean; open: number; readonly outside?: true };

function servicesOver(services: Services, carry: Around, behind: Promise<unknown>[]): Services {
  const over =
    (what: string): Around =>
    (name, work) =>
      carry(`${what} ${name.replace(/\s+/g, " ").trim().slice(0, 60)}`, work);
  const gate = over("gate");
  return {
    ...services,
    db: interceptedD1(services.db, over("D1")),
    further: (services.further ?? []).map((db, i) => interceptedD1(db, over(`D1 ${i + 1}`))),
    deliveries: interceptedQueue(services.deliveries, over("deliveries")),
    drains: interceptedQueue(services.drains, over("drains")),
    gates: interceptedGates(services.gates, (method, _, work) => gate(method, work)),
    fetch: ((url: string, init?: RequestInit) =>
      over("fetch")(new URL(url).hostname, () => services.fetch(url, init))) as typeof fetch,
    background: (work) => void behind.push(work),
  };
}

/** Whenever all that goes on is sleep, a receiver's too, the time moves to where the first sleeper wakes. */
async function timePasses({ clock, receiver }: Outside, life: Life, ended: () => boolean): Promise<void> {
  const isOver = () => ended() || (life.over && life.open === 0);
  for (let idle = 0; !isOver(); ) {
    await new Promise((resolve) => setTimeout(resolve));
    idle = life.open > receiver.open() ? 0 : idle + 1;
    if (idle < 3 || isOver()) continue;
    if (!clock.wakeFirst()) throw new Error("The invocation waits for something that will never come");
    idle = 0;
  }
}

function failure(name: string): Error {
  return new Error(`Network connection lost (${name}), as the test wants it`);
}

function never(): Promise<never> {
  return new Promise(() => {});
}
