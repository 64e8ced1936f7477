/** On the narrowest of phones no page is wider than the screen. */
import { describe, expect, inject } from "vitest";
import { test } from "./browser-test.ts";
import { pages, tour, unfold } from "./pages.ts";
import { tooWide } from "./too-wide.ts";

const phone = { viewport: { width: 320, height: 640 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
const fixture = { url: inject("fixtureUrl"), key: inject("fixtureKey") };

const smallest = { ...phone, viewport: { width: 320, height: 640 } };

describe.each([
  ["a phone", phone, pages],
  ["the smallest phone", smallest, pages.filter(({ name }) => name.startsWith("portal"))],
] as const)("on %s", (_, device, some) => {
  test("no page scrolls sideways", async ({ browser }) => {
    const { show, close } = await tour(browser, fixture, device);
    const faults: string[] = [];
    for (const shown of some) {
      const page = await show(shown);
      await unfold(page);
      faults.push(...(await tooWide(page)).map((what) => `${shown.name}: ${what}`));
    }
    await close();
    expect(faults).toEqual([]);
  });
});
