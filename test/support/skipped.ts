import { test } from "vitest";

/** Declares what this machine cannot test: a skipped test, and a line that says why, because skipped tests print nothing. */
export function skipped(what: string, why: string): void {
  process.stderr.write(`Skipped: ${what}: ${why}\n`);
  test.skip(`${what}: ${why}`, () => {});
}
