/**
 * Invocations in virtual time. Each has a life of its own: whatever it asks of the platform is a call that
 * takes its time, may fail, lose its answer, or be the last thing that the invocation lives to see.
 */
import type { Random } from "../../../src/core/seeded-random.ts";
import type { Engine } from "../engine.ts";
import type { CallKind, Latencies } from "./latency.ts";
import type { Ending } from "./queue.ts";

/** Shares of all calls, 0 to 1. */
export type Troubles = Readonly<{
  /** The call fails and does nothing. */
  failing: number;
  /** It does its work, and fails. */
  unanswered: number;
  /** It does its work, and the invocation dies. */
  crashing: number;
}>;

export const noTroubles: Troubles = { failing: 0, unanswered: 0, crashing: 0 };

/** Counts by names such as `d1`, `gate admit` and `deliveries sendBatch`. */
export type Counts = ReadonlyMap<string, number>;

const WANTED = "as the simulation wants it";

/** Whether an error is one of the troubles, told on by production code perhaps. */
export function isWanted(error: unknown): boolean {
  const { message, cause } = error instanceof Error ? error : { message: String(error), cause: undefined };
  return message.includes(WANTED) || (cause !== undefined && isWanted(cause));
}

/** What lives behind a handler that has returned lives so long. */
const BEHIND_MS = 30_000;

export type Life = {
  over: boolean;
  readonly name: string;
  readonly behind: Set<Promise<unknown>>;
  readonly died: Promise<void>;
  readonly end: () => void;
};

export type Invocations = Readonly<{
  /** Makes a call of that life by calling `work`, at most once. */
  call: <T>(life: Life, kind: CallKind, name: string, work: () => T | Promise<T>) => Promise<T>;
  /** Runs the handler as one invocation; resolves when it has ended, whatever goes on behind it. */
  invoke: (name: string, handler: (life: Life) => Promise<unknown>) => Promise<Ending>;
  /** Ends the life in the middle of what it does, which never goes on. */
  kill: (life: Life) => Promise<never>;
  /** A life that does not end: of a gate. */
  outside: (name: string) => Life;
  counts: Counts;
  /** What handlers have thrown, and what was rejected behind them; each with the invocation's name. */
  thrown: readonly Readonly<{ name: string; error: unknown }>[];
  running: () => number;
  mostRunning: () => number;
  crashes: () => number;
  /** Invocations that still had work behind them when their time was over. */
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
    if (fate === "failing") throw new Error(`Network connection lost (${name}), ${WANTED}`);
    const result = await work();
    await engine.sleep(ms / 2);
    if (fate === "crashing") die(life);
    if (life.over) return never();
    if (fate === "unanswered") throw new Error(`The answer was lost (${name}), ${WANTED}`);
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
    else void awaitBehind(life);
    return ending;
  }

  /** What is still there when the time is over is cut off without a word. */
  async function awaitBehind(life: Life): Promise<void> {
    let over = life.behind.size === 0;
    if (!over)
      engine.after(BEHIND_MS, () => {
        if (over) return;
        cutOff += 1;
        life.end();
      });
    const emptied = async () => {
      while (life.behind.size > 0) {
        const some = [...life.behind];
        for (const { status, ...rest } of await Promise.allSettled(some))
          if (status === "rejected" && "reason" in rest)
            thrown.push({ name: `behind ${life.name}`, error: rest.reason });
        for (const one of some) life.behind.delete(one);
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
    behind: new Set(),
    died: promise,
    end: () => {
      life.over = true;
      resolve();
    },
  };
  return life;
}

type Fate = keyof Troubles | undefined;

/** One draw decides. None is made where nothing can go wrong. */
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
