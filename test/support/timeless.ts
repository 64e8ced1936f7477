import type { Sleep } from "../../src/time.ts";

/**
 * A sleep for a world whose clock stands still: no timeout ever passes, however slow the machine is, and a pause ends
 * at once.
 */
export const timeless: Sleep = (_ms, signal) =>
  signal === undefined
    ? Promise.resolve()
    : new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
