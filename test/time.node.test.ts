/** Waiting for an answer: no longer than is said, and without leaving a timer. */
import { afterEach, expect, test, vi } from "vitest";
import { type Cancellation, mapAtOnce, sleepByTimer, within } from "../src/time.ts";

/** A sleep that the test ends, and that says whether its signal has ended it. */
function oneSleep() {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let isAborted = false;
  const sleep = (_ms: number, signal?: Cancellation) => {
    signal?.addEventListener("abort", () => {
      isAborted = true;
      reject(signal.reason);
    });
    return promise;
  };
  return { sleep, wake: resolve, isAborted: () => isAborted };
}

test("an answer in time is passed on, and the timer ends", async () => {
  const { sleep, isAborted } = oneSleep();
  expect(await within({ sleep }, 1_000, Promise.resolve("yes"))).toBe("yes");
  expect(isAborted()).toBe(true);
});

test("a failure in time is passed on, and the timer ends", async () => {
  const { sleep, isAborted } = oneSleep();
  await expect(within({ sleep }, 1_000, Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(isAborted()).toBe(true);
});

test("without an answer in time the caller gets an error, and a later failure is ignored", async () => {
  const { sleep, wake } = oneSleep();
  const { promise, reject } = Promise.withResolvers<string>();
  const answer = within({ sleep }, 1_000, promise, "The gate does not answer");
  wake();
  await expect(answer).rejects.toThrow("The gate does not answer");
  reject(new Error("too late"));
  await new Promise((resolve) => setTimeout(resolve));
});

afterEach(() => {
  vi.useRealTimers();
});

test("a sleep by a timer ends after its time", async () => {
  vi.useFakeTimers();
  const sleeping = sleepByTimer(1_000);
  vi.advanceTimersByTime(1_000);
  await expect(sleeping).resolves.toBeUndefined();
});

test("a sleep that is aborted, before it begins or later, rejects with the reason and leaves no timer", async () => {
  vi.useFakeTimers();
  const abort = new AbortController();
  const sleeping = sleepByTimer(1_000, abort.signal);
  abort.abort("over");
  await expect(sleeping).rejects.toBe("over");
  await expect(sleepByTimer(1_000, abort.signal)).rejects.toBe("over");
  expect(vi.getTimerCount()).toBe(0);
});

test("an answer in time leaves no timer", async () => {
  vi.useFakeTimers();
  expect(await within({ sleep: sleepByTimer }, 1_000, Promise.resolve("yes"))).toBe("yes");
  expect(vi.getTimerCount()).toBe(0);
});

test("parallel work begins nothing after a failure, and ends with the work under way", async () => {
  const begun: number[] = [];
  const slow = Promise.withResolvers<number>();
  let isOver = false;
  const all = mapAtOnce([0, 1, 2, 3], 2, async (item) => {
    begun.push(item);
    if (item === 0) return slow.promise;
    throw new Error(`no ${item}`);
  }).finally(() => {
    isOver = true;
  });
  const failed = expect(all).rejects.toThrow("no 1");
  await new Promise((resolve) => setTimeout(resolve));
  expect(isOver).toBe(false);
  slow.resolve(0);
  await failed;
  expect(begun).toEqual([0, 1]);
});
