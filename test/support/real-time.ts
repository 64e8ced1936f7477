/** Restores the real time after a file of tests: the next one runs in the same process. */
import { afterAll, vi } from "vitest";

afterAll(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});
