/**
 * Every page, in both themes, by axe: nothing that it counts as serious or critical, and no such thing that
 * it could not judge. The page's own policy would keep axe out, so it is set aside here, and here alone.
 */
import axe from "axe-core";
import type { Page } from "playwright-core";
import { describe, expect, inject } from "vitest";
import { pages, tour } from "./pages.ts";
import { test } from "./story.ts";

const scene = { url: inject("sceneUrl"), key: inject("sceneKey") };
const half = Math.ceil(pages.length / 2);

describe.each([
  ["first", pages.slice(0, half)],
  ["other", pages.slice(half)],
])("of the %s pages", (_, some) => {
  test("none has a serious fault, in either theme", { timeout: 90_000 }, async ({ browser }) => {
    // Without motion: a theme that is changed fades in, and half faded in has no contrast.
    const { show, leave } = await tour(browser, scene, { bypassCSP: true, reducedMotion: "reduce" });
    const faults: string[] = [];
    for (const shown of some) {
      const page = await show(shown);
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        const found = await faultsOf(page);
        faults.push(...found.map((fault) => `${shown.name}, ${colorScheme}: ${fault}`));
      }
    }
    await leave();
    expect(faults).toEqual([]);
  });
});

test("a fault would be found", async ({ browser }) => {
  const { show, leave } = await tour(browser, scene, { bypassCSP: true });
  const page = await show({ name: "sign-in", path: "/dashboard", who: "nobody" });
  await page.evaluate(() => {
    document.querySelector("label")?.replaceWith(document.createElement("input"));
    document.querySelector("h1")?.setAttribute("style", "color: #ccc");
  });
  const faults = (await faultsOf(page)).join("\n");
  expect(faults).toContain("label at input");
  expect(faults).toContain("color-contrast at h1");
  await leave();
});

async function faultsOf(page: Page): Promise<string[]> {
  if (!(await page.evaluate(() => "axe" in window))) await page.addScriptTag({ content: axe.source });
  const { violations, incomplete } = await page.evaluate(() =>
    window.axe.run(document, { resultTypes: ["violations", "incomplete"] }),
  );
  return [...violations, ...incomplete]
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, help, nodes }) =>
      nodes.filter(isJudged).map(({ target }) => `${id} at ${target}: ${help}`),
    );
}

/** What is behind the text of a chart axe cannot tell; its colours are those of the text around. */
function isJudged({ html }: { html: string }): boolean {
  return !html.startsWith("<text ");
}

declare global {
  interface Window {
    axe: typeof axe;
  }
}
