import type { Page } from "playwright-core";

/** The elements that are wider than the screen; none when the page as a whole fits. */
export function tooWide(page: Page): Promise<string[]> {
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
