/**
 * A clock that stands still until the test advances it. So does `Date.now()`, because the gate reads it. The clock
 * starts in 2050, so that the runtime, which has the real time, never runs a Durable Object's alarm by itself.
 */
import { vi } from "vitest";
import { TAIL_EVERY_MS } from "../../src/features/deliveries/tail.ts";
import type { Cancellation } from "../../src/time.ts";

export const START = Date.parse("2050-06-01T12:00:00.000Z");

type Sleeper = Readonly<{ ms: number; until: number; wake: () => void }>;

export type Clock = Readonly<{
  now: () => number;
  /** Sleeps until the clock has been advanced by `ms`; rejects when the signal is aborted. */
  sleep: (ms: number, signal?: Cancellation) => Promise<void>;
  /** Advances the clock, and wakes sleepers in order. */
  pass: (ms: number) => void;
  /** Advances the clock to the first sleeper and wakes it; false when nothing sleeps. */
  wakeFirst: () => boolean;
  /** Resolves as soon as `sleepers` sleepers sleep for exactly `ms`. */
  asleep: (ms: number, sleepers?: number) => Promise<void>;
}>;

/** The same sleep, except that the pauses of a stream of deliveries end at once. */
export function withoutTailPauses(sleep: Clock["sleep"]): Clock["sleep"] {
  return (ms, signal) => (ms === TAIL_EVERY_MS ? Promise.resolve() : sleep(ms, signal));
}

export function standingClock(): Clock {
  let now = START;
  let sleepers: readonly Sleeper[] = [];
  let watchers: readonly Readonly<{ isSeen: () => boolean; seen: () => void }>[] = [];
  vi.setSystemTime(now);

  function sleep(ms: number, signal?: Cancellation): Promise<void> {
    return new Promise((wake, end) => {
      const sleeper = { ms, until: now + ms, wake };
      sleepers = [...sleepers, sleeper];
      signal?.addEventListener("abort", () => {
        sleepers = sleepers.filter((one) => one !== sleeper);
        end(signal.reason);
      });
      for (const { isSeen, seen } of watchers) if (isSeen()) seen();
      watchers = watchers.filter(({ isSeen }) => !isSeen());
    });
  }

  function pass(ms: number): void {
    now += ms;
    vi.setSystemTime(now);
    const due = sleepers.filter(({ until }) => until <= now).sort((a, b) => a.until - b.until);
    sleepers = sleepers.filter(({ until }) => until > now);
    for (const { wake } of due) wake();
  }

  function wakeFirst(): boolean {
    const [first] = sleepers;
    if (!first) return false;
    const next = sleepers.reduce((best, one) => (one.until < best.until ? one : best), first);
    sleepers = sleepers.filter((one) => one !== next);
    now = Math.max(now, next.until);
    vi.setSystemTime(now);
    next.wake();
    return true;
  }

  function asleep(ms: number, count = 1): Promise<void> {
    const isSeen = () => sleepers.filter((sleeper) => sleeper.ms === ms).length >= count;
    if (isSeen()) return Promise.resolve();
    return new Promise((seen) => {
      watchers = [...watchers, { isSeen, seen }];
    });
  }

  return { now: () => now, sleep, pass, wakeFirst, asleep };
}
