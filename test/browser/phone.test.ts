/** On a phone: nothing sticks out of any page, and what is pressed is large enough to be met. */
import type { Page } from "playwright-core";
import { expect, inject } from "vitest";
import { pages, tour } from "./pages.ts";
import { test } from "./story.ts";

const phone = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
const scene = { url: inject("sceneUrl"), key: inject("sceneKey") };

test("no page scrolls sideways", { timeout: 90_000 }, async ({ browser }) => {
  const { show, leave } = await tour(browser, scene, phone);
  const faults: string[] = [];
  for (const shown of pages) {
    const page = await show(shown);
    faults.push(...(await sticksOut(page)).map((what) => `${shown.name}: ${what}`));
  }
  await leave();
  expect(faults).toEqual([]);
});

/** What is wider than the screen; nothing when the page as a whole is not. */
function sticksOut(page: Page): Promise<string[]> {
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
