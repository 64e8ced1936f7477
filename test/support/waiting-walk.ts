/** The walk over destinations with waiting deliveries, as the sweep makes it. */

import { expect } from "vitest";
import { allOf, type Databases } from "../../src/store/databases.ts";
import { waitingDestinations } from "../../src/store/waiting.ts";

/** The ids that a walk in pages of `limit` finds. Checks that no page is longer, and that only the last may be empty. */
export async function walkedDestinations(databases: Databases, limit: number): Promise<string[]> {
  const seen: string[] = [];
  for (let isLast = false; !isLast && seen.length < 20; ) {
    const page = await waitingDestinations(allOf(databases), seen.at(-1) ?? "", limit);
    expect(page.ids.length).toBeLessThanOrEqual(limit);
    seen.push(...page.ids);
    expect(page.isLast || page.ids.length > 0).toBe(true);
    isLast = page.isLast;
  }
  return seen;
}
