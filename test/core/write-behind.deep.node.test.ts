/** More lives of a gate's object than write-behind.test.ts has: some faults show in one of a thousand. */
import { test } from "vitest";
import { runs } from "../support/effort.ts";
import { checkSlots } from "../support/gate-lives.ts";

test("through evictions, crashes and instances that are cut off, the slots in flight are never more than max_concurrency", () => {
  checkSlots(runs(2_000, 30_000));
});
