/** What a live page shows, awaited: nothing here reloads it, and a mark tells that nothing else has. */
import type { Page } from "playwright-core";
import { expect } from "vitest";

type Marked = { unreloaded?: boolean };

/** Makes the page tell afterwards whether it has been loaded anew. */
export async function mark(page: Page): Promise<() => Promise<void>> {
  await page.evaluate(() => {
    (window as Marked).unreloaded = true;
  });
  return async () => expect(await page.evaluate(() => (window as Marked).unreloaded)).toBe(true);
}

/** Resolves when the page has fetched itself anew. */
export async function refreshed(page: Page): Promise<void> {
  await page.waitForResponse((response) => response.request().headers()["x-part"] === "main");
}

export function doorPanel(page: Page) {
  return page.getByRole("region", { name: "The door", exact: true });
}

/** The door's state in a word, as screen readers are told of it. */
export function door(page: Page, word: string) {
  return doorPanel(page).getByRole("status").filter({ hasText: word });
}
