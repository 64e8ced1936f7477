/**
 * Every call that the delivery path makes, failing in every way: before it did anything, after it did all
 * of it, and with the Worker dying right behind it. The calls are not listed anywhere: each story is told
 * once to learn them, and then once for each fault. After the fault everything works again, every message
 * that was ever sent comes three times more, and the same must be true of every telling.
 */
import { beforeAll, describe, expect, test } from "vitest";
import type { Story } from "./stories/story.ts";
import { type Strike, strikesAgainst } from "./strikes.ts";
import { type Told, telling } from "./telling.ts";
import { faults } from "./wire.ts";

/** Declares the tests. Those of one file take turns at how a call fails that several of them make. */
export function failEveryCall(stories: readonly Story[]): void {
  let told: Told[] = [];
  let strikes: Strike[] = [];
  beforeAll(async () => {
    told = [];
    for (const story of stories) told.push(await telling(story));
    strikes = strikesAgainst(told.map(({ calls }) => calls));
  });

  describe.each(stories.map((story, i) => ({ ...story, i })))("$name", ({ i, ...story }) => {
    test("ends well when nothing fails", () => {
      expect(told[i]?.wrong).toEqual([]);
      expect(told[i]?.calls.length).toBeGreaterThan(3);
    });

    test.each(faults)("loses and miscounts nothing with any one call failing (%s)", async (fault) => {
      const faulty: string[] = [];
      const mine = strikes.filter((strike) => strike.story === i && strike.fault === fault);
      for (const strike of mine) {
        const { struck, wrong } = await telling(story, strike);
        const what = `${strike.call} (${strike.nth})`;
        if (struck === undefined) faulty.push(`${what} was never made`);
        faulty.push(...wrong.map((line) => `${what}: ${line}`));
      }
      console.log(`${mine.length} calls failing (${fault})`);
      expect(faulty).toEqual([]);
      expect(mine).not.toEqual([]);
    }, 120_000);
  });
}
