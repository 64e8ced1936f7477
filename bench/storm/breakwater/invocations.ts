/**
 * Invocations in virtual time. Each call to the platform takes its time, and may fail, lose its answer, or end its
 * invocation.
 */
import type { Random } from "../../../src/core/seeded-random.ts";
import type { Engine } from "../engine.ts";
import type { CallKind, Latencies } from "./latency.ts";
import type { Ending } from "./queue.ts";

/** Shares of all calls, 0 to 1. */
export type Troubles = Readonly<{
  /** The call fails and does nothing. */
  failing: number;
  /** The call does its work, but its answer is lost. */
  unanswered: number;
  /** The call does its work, and the invocation dies. */
  crashing: number;
}>;

export const noTroubles: Troubles = { failing: 0, unanswered: 0, crashing: 0 };

/** Counts by names such as `d1`, `gate admit` and `deliveries sendBatch`. */
export type Counts = ReadonlyMap<string, number>;

const INJECTED = "injected by the simulation";

/** Whether an error was injected by the simulation, perhaps wrapped by production code. */
export function isInjected(error: unknown): boolean {
  const { message, cause } = error instanceof Error ? error : { message: String(error), cause: undefined };
  return message.includes(INJECTED) || (cause !== undefined && isInjected(cause));
}

/** How long background work may run after its handler has returned. */
const BACKGROUND_MS = 30_000;

export type Life = {
  over: boolean;
  readonly name: string;
  readonly background: Set<Promise<unknown>>;
  readonly died: Promise<void>;
  readonly end: () => void;
};

export type Invocations = Readonly<{
  /** Makes a call of this life by calling `work`, at most once. */
  call: <T>(life: Life, kind: CallKind, name: string, work: () => T | Promise<T>) => Promise<T>;
  /** Runs the handler as one invocation; resolves when the handler has ended, even if background work continues. */
  invoke: (name: string, handler: (life: Life) => Promise<unknown>) => Promise<Ending>;
  /** Ends the life at once; the promise never settles. */
  kill: (life: Life) => Promise<never>;
  /** A life without an end: that of a gate. */
  outside: (name: string) => Life;
  counts: Counts;
  /** Errors that handlers threw or background work rejected with, and the names of their invocations. */
  thrown: readonly Readonly<{ name: string; error: unknown }>[];
  running: () => number;
  mostRunning: () => number;
  crashes: () => number;
  /** The number of invocations whose background work was cut off. */
  cutOff: () => number;
}>;

export function virtualInvocations(
  engine: Engine,
  latencies: Latencies,
  troubles: () => Troubles,
): Invocations {
  const counts = new Map<string, number>();
  const thrown: { name: string; error: unknown }[] = [];
  let running = 0;
  let mostRunning = 0;
  let crashes = 0;
  let cutOff = 0;

  async function call<T>(life: Life, kind: CallKind, name: string, work: () => T | Promise<T>): Promise<T> {
    if (life.over) return never();
    counts.set(name, (counts.get(name) ?? 0) + 1);
    const ms = latencies[kind](engine.random);
    const fate = drawn(troubles(), engine.random);
    await engine.sleep(ms / 2);
    if (fate === "failing") throw new Error(`Network connection lost (${name}), ${INJECTED}`);
    const result = await work();
    await engine.sleep(ms / 2);
    if (fate === "crashing") die(life);
    if (life.over) return never();
    if (fate === "unanswered") throw new Error(`The answer was lost (${name}), ${INJECTED}`);
    return result;
  }

  function die(life: Life): void {
    if (life.over) return;
    crashes += 1;
    life.end();
  }

  async function invoke(name: string, handler: (life: Life) => Promise<unknown>): Promise<Ending> {
    const life = newLife(name);
    running += 1;
    mostRunning = Math.max(mostRunning, running);
    const handled = handler(life).then(
      () => "done" as const,
      (error: unknown) => {
        thrown.push({ name, error });
        return "threw" as const;
      },
    );
    const ending = await Promise.race([handled, life.died.then(() => "crashed" as const)]);
    if (ending === "crashed") running -= 1;
    else void awaitBackground(life);
    return ending;
  }

  /** Waits for background work. Work that has not ended in time is cut off silently. */
  async function awaitBackground(life: Life): Promise<void> {
    let over = life.background.size === 0;
    if (!over)
      engine.after(BACKGROUND_MS, () => {
        if (over) return;
        cutOff += 1;
        life.end();
      });
    const emptied = async () => {
      while (life.background.size > 0) {
        const some = [...life.background];
        for (const { status, ...rest } of await Promise.allSettled(some))
          if (status === "rejected" && "reason" in rest)
            thrown.push({ name: `background work of ${life.name}`, error: rest.reason });
        for (const one of some) life.background.delete(one);
      }
    };
    await Promise.race([emptied(), life.died]);
    over = true;
    running -= 1;
  }

  function kill(life: Life): Promise<never> {
    die(life);
    return never();
  }

  return {
    call,
    invoke,
    kill,
    outside: newLife,
    counts,
    thrown,
    running: () => running,
    mostRunning: () => mostRunning,
    crashes: () => crashes,
    cutOff: () => cutOff,
  };
}

function newLife(name: string): Life {
  const { promise, resolve } = Promise.withResolvers<void>();
  const life: Life = {
    name,
    over: false,
    background: new Set(),
    died: promise,
    end: () => {
      life.over = true;
      resolve();
    },
  };
  return life;
}

type Fate = keyof Troubles | undefined;

/** Decides by one random number, and draws none where nothing can go wrong. */
function drawn({ failing, unanswered, crashing }: Troubles, random: Random): Fate {
  if (failing + unanswered + crashing === 0) return undefined;
  const draw = random();
  if (draw < failing) return "failing";
  if (draw < failing + unanswered) return "unanswered";
  return draw < failing + unanswered + crashing ? "crashing" : undefined;
}

function never(): Promise<never> {
  return new Promise(() => {});
}
