/**
 * Virtual time for asynchronous code that awaits only this engine's promises: after every moment in which one was
 * resolved, the real event loop turns once, so that everything that follows has happened before time moves on.
 *
 * While code of the simulation runs, `Date.now`, `Math.random` and `AbortSignal.timeout` are the engine's, because the
 * gate's object and the HTTP client read those. Between two moments they are the machine's again, so several engines
 * may take turns in one process.
 */
import { type VirtualTime, virtualTime } from "../../src/simulator/virtual-time.ts";
import { isBusy } from "./runtime-in-node.ts";

export type Engine = VirtualTime &
  Readonly<{
    /** Runs until `done`, until nothing is left to do, or until `horizonAt`. */
    run: (done: () => boolean, horizonAt: number) => Promise<void>;
  }>;

/** Made once: a stack trace for each timeout would be costly, and most come after their attempt has ended. */
const TIMEOUT = new DOMException("The operation was aborted due to timeout", "TimeoutError");

export function createEngine(seed: number): Engine {
  const time = virtualTime(seed);

  function timeout(ms: number): AbortSignal {
    const controller = new AbortController();
    void time.sleep(ms).then(() => controller.abort(TIMEOUT));
    return controller.signal;
  }

  async function run(done: () => boolean, horizonAt: number): Promise<void> {
    while (!done() && (time.nextAt() ?? Number.POSITIVE_INFINITY) <= horizonAt) {
      const leave = enter({ now: time.now, random: time.random, timeout });
      try {
        if (moment(time)) await settled();
      } finally {
        leave();
      }
    }
  }

  return { ...time, run };
}

/** Runs all actions that are due at the same time. Returns whether code that awaits can continue. */
function moment(time: VirtualTime): boolean {
  let hasPromised = false;
  do hasPromised = time.step() || hasPromised;
  while (time.nextAt() === time.now());
  return hasPromised;
}

type Ambient = Readonly<{
  now: () => number;
  random: () => number;
  timeout: (ms: number) => AbortSignal;
}>;

const real: Ambient = { now: Date.now, random: Math.random, timeout: AbortSignal.timeout };

function enter({ now, random, timeout }: Ambient): () => void {
  Date.now = now;
  Math.random = random;
  AbortSignal.timeout = timeout;
  return () => {
    Date.now = real.now;
    Math.random = real.random;
    AbortSignal.timeout = real.timeout;
  };
}

/** Waits until every promise that can continue has done so, and nothing that takes real time is under way. */
async function settled(): Promise<void> {
  let wasBusy: boolean;
  do {
    wasBusy = isBusy();
    await new Promise((resolve) => setImmediate(resolve));
  } while (wasBusy || isBusy());
}
