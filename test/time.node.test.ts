/** Waiting for an answer: no longer than is said, and without leaving a timer. */
import { expect, test } from "vitest";
import { within } from "../src/time.ts";

/** A sleep that the test ends, and that says whether its signal has ended it. */
function oneSleep() {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let isAborted = false;
  const sleep = (_ms: number, signal?: AbortSignal) => {
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

test("without an answer in time the caller gets an error, and a later failure bothers nobody", async () => {
  const { sleep, wake } = oneSleep();
  const { promise, reject } = Promise.withResolvers<string>();
  const answer = within({ sleep }, 1_000, promise, "The gate does not answer");
  wake();
  await expect(answer).rejects.toThrow("The gate does not answer");
  reject(new Error("too late"));
  await new Promise((resolve) => setTimeout(resolve));
});
