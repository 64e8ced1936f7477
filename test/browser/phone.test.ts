/** On the narrowest of phones no page is wider than the screen. */
import type { Page } from "playwright-core";
import { expect, inject } from "vitest";
import { test } from "./browser-test.ts";
import { pages, tour } from "./pages.ts";

const phone = { viewport: { width: 320, height: 640 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
const fixture = { url: inject("fixtureUrl"), key: inject("fixtureKey") };

test("no page scrolls sideways", { timeout: 90_000 }, async ({ browser }) => {
  const { show, close } = await tour(browser, fixture, phone);
  const faults: string[] = [];
  for (const shown of pages) {
    const page = await show(shown);
    faults.push(...(await tooWide(page)).map((what) => `${shown.name}: ${what}`));
  }
  await close();
  expect(faults).toEqual([]);
});

/** The elements that are wider than the screen; none when the page as a whole fits. */
function tooWide(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const elements = [...document.querySelectorAll("body *")];
    const wide = elements.filter((element) => element.getBoundingClientRect().right > width + 0.5);
    return wide.map(
      (element) =>
        `${element.tagName.toLowerCase()}.${element.className} ends at ${Math.round(element.getBoundingClientRect().right)}`,
    );
  });
}
