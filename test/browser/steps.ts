/** The steps that browser tests share: signing in, making destinations and events, watching a live page. */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import type { Customer, Endpoint } from "./browser-test.ts";

export async function signIn(page: Page, key: string): Promise<void> {
  await page.goto("/dashboard");
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
}

const HOOK = "/hook";

export function hookAt({ url }: Endpoint): string {
  return `${url}${HOOK}`;
}

/**
 * Creates a destination at the endpoint, for all of the customer's events.
 * @param settings as the API takes them
 */
export async function newDestination(
  { api }: Customer,
  endpoint: Endpoint,
  settings: Readonly<Record<string, unknown>> = {},
): Promise<Readonly<{ id: string; path: string }>> {
  const { id, secret } = await api.post<{ id: string; secret: string }>("/v1/destinations", {
    url: hookAt(endpoint),
    description: "Billing",
    ...settings,
  });
  expectSecret(endpoint, secret);
  return { id, path: `/dashboard/destinations/${id}` };
}

/** From now on the endpoint verifies signatures with this secret. */
export function expectSecret({ secrets }: Endpoint, secret: string): void {
  secrets.set(HOOK, secret);
}

/** Returns the events' ids. */
export async function postEvents({ api }: Customer, count: number): Promise<readonly string[]> {
  const events = Array.from({ length: count }, (_, n) => ({ type: "order.created", data: { order: n } }));
  const { events: accepted } = await api.post<{ events: { id: string }[] }>("/v1/events/batch", { events });
  return accepted.map(({ id }) => id);
}

type Marked = { notReloaded?: boolean };

/** Marks the page; the function returned asserts that the page has not been reloaded since. */
export async function mark(page: Page): Promise<() => Promise<void>> {
  await page.evaluate(() => {
    (window as Marked).notReloaded = true;
  });
  return async () => expect(await page.evaluate(() => (window as Marked).notReloaded)).toBe(true);
}

/** Resolves when the page's script has fetched the page again. */
export async function refreshed(page: Page): Promise<void> {
  await page.waitForResponse((response) => response.request().headers()["x-part"] === "main");
}

export function statusPanel(page: Page) {
  return page.getByRole("region", { name: "Status", exact: true });
}

/** The destination's state in a word, as screen readers announce it. */
export function status(page: Page, word: string) {
  return statusPanel(page).getByRole("status").filter({ hasText: word });
}

const MAX_STOPS = 60;

/** Presses Tab until the element of that name has the focus, which must be visible at every stop. */
export async function tabTo(page: Page, name: string): Promise<void> {
  // The outline comes from the style sheet, which may load after the page.
  await page.waitForLoadState("load");
  const passed: string[] = [];
  while (passed.length < MAX_STOPS) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => {
      const at = document.activeElement as HTMLElement | null;
      const label = (at as HTMLInputElement | null)?.labels?.[0]?.firstChild;
      const { outlineStyle, outlineWidth } = getComputedStyle(at ?? document.body);
      const isVisible = outlineStyle !== "none" && Number.parseFloat(outlineWidth) >= 2;
      return { name: (label ?? at)?.textContent?.trim() ?? "", isVisible };
    });
    if (!stop.isVisible) throw new Error(`The focus on "${stop.name}" is not visible`);
    if (stop.name === name) return;
    passed.push(stop.name);
  }
  throw new Error(`Tab does not lead to "${name}", only to: ${passed.join(", ")}`);
}
