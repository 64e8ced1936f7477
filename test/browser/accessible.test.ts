/**
 * Every page in both themes passes axe: no serious or critical violation, and none that axe could not decide. The
 * pages' Content-Security-Policy would block axe, so these tests bypass it.
 */
import { describe, expect, inject } from "vitest";
import { accessibilityFaults } from "./accessibility.ts";
import { test } from "./browser-test.ts";
import { pages, tour, unfold } from "./pages.ts";

const fixture = { url: inject("fixtureUrl"), key: inject("fixtureKey") };
/** The themes differ in nothing else. */
const OF_COLOURS = ["color-contrast", "link-in-text-block"];
/** Pages of one test; each is checked twice. */
const PORTION = 7;
const portions = Array.from({ length: Math.ceil(pages.length / PORTION) }, (_, i) =>
  pages.slice(i * PORTION, (i + 1) * PORTION),
);

describe.each(
  portions.map((some) => [`${some[0]?.name} to ${some.at(-1)?.name}`, some] as const),
)("the pages %s", (_, some) => {
  test("has no serious fault in either theme", async ({ browser }) => {
    // Without animations: while a theme fades in its colours lack contrast.
    const { show, close } = await tour(browser, fixture, { bypassCSP: true, reducedMotion: "reduce" });
    const faults: string[] = [];
    for (const shown of some) {
      const page = await show(shown);
      await unfold(page);
      for (const [colorScheme, options] of [
        ["light", {}],
        ["dark", { rules: OF_COLOURS }],
      ] as const) {
        await page.emulateMedia({ colorScheme });
        const found = await accessibilityFaults(page, options);
        faults.push(...found.map((fault) => `${shown.name}, ${colorScheme}: ${fault}`));
      }
    }
    await close();
    expect(faults).toEqual([]);
  });
});

test("faults are found", async ({ browser }) => {
  const { show, close } = await tour(browser, fixture, { bypassCSP: true });
  const page = await show({ name: "sign-in", path: "/dashboard", who: "nobody" });
  await page.evaluate(() => {
    document.querySelector("label")?.replaceWith(document.createElement("input"));
    document.querySelector("h1")?.setAttribute("style", "color: #ccc");
  });
  const faults = (await accessibilityFaults(page)).join("\n");
  expect(faults).toContain("label at input");
  expect(faults).toContain("color-contrast at h1");
  await close();
});
