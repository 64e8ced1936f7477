/**
 * Time that stands still until the test moves it: `Date.now()` too, because the gate's object reads that.
 * It stands in 2050, so that the runtime, which has the real time, never rings an object's alarm by itself.
 */
import { vi } from "vitest";

export const START = Date.parse("2050-06-01T12:00:00.000Z");

type Sleeper = Readonly<{ ms: number; until: number; wake: () => void }>;

export type Clock = Readonly<{
  now: () => number;
  /** Sleeps until `pass` has moved the time so far; the signal ends it, and nobody wakes. */
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** Moves the time, and wakes in order whoever slept no longer than that. */
  pass: (ms: number) => void;
  /** Moves the time to the first moment at which somebody wakes, and wakes that one; false when nobody sleeps. */
  wakeFirst: () => boolean;
  /** Resolves as soon as somebody, or so many, sleep for exactly `ms`. */
  asleep: (ms: number, sleepers?: number) => Promise<void>;
}>;

export function standingClock(): Clock {
  let now = START;
  let sleepers: readonly Sleeper[] = [];
  let watchers: readonly Readonly<{ isSeen: () => boolean; seen: () => void }>[] = [];
  vi.setSystemTime(now);

  function sleep(ms: number, signal?: AbortSignal): Promise<void> {
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
