/**
 * Virtual time for code that awaits, as long as it awaits nothing but this engine's promises: after every
 * moment in which one was resolved, the real event loop turns once, so that all that follows from it has
 * happened before time moves on.
 */
import { type VirtualTime, virtualTime } from "../../../src/lab/virtual-time.ts";

export type Deferred<T> = Readonly<{ promise: Promise<T>; resolve: (value: T) => void }>;

export type Engine = VirtualTime &
  Readonly<{
    sleep: (ms: number) => Promise<void>;
    deferred: <T>() => Deferred<T>;
    /** Runs until `done`, until nothing is left to do, or until `horizonAt`. */
    run: (done: () => boolean, horizonAt: number) => Promise<void>;
  }>;

export function createEngine(seed: number): Engine {
  const time = virtualTime(seed);
  let resolved = false;

  function deferred<T>(): Deferred<T> {
    const { promise, resolve } = Promise.withResolvers<T>();
    const resolveHere = (value: T) => {
      resolved = true;
      resolve(value);
    };
    return { promise, resolve: resolveHere };
  }

  function sleep(ms: number): Promise<void> {
    const { promise, resolve } = deferred<void>();
    time.after(ms, resolve);
    return promise;
  }

  async function run(done: () => boolean, horizonAt: number): Promise<void> {
    while (!done() && (time.nextAt() ?? Number.POSITIVE_INFINITY) <= horizonAt) {
      time.step();
      if (resolved) await settled();
      resolved = false;
    }
  }

  return { ...time, deferred, sleep, run };
}

/** Every promise that could go on has gone on. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
