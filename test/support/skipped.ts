import { test } from "vitest";

/**
 * Declares a test that this machine cannot run: a skipped test, and a line that says why, because skipped tests print
 * nothing.
 */
export function skipped(what: string, why: string): void {
  process.stderr.write(`Skipped: ${what}: ${why}\n`);
  test.skip(`${what}: ${why}`, () => {});
}
