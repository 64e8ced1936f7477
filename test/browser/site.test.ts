/** The site that `npm run site` builds: every page in a browser, its links, its search and its two themes. */
import { globSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test as plainTest } from "vitest";
import { accessibilityFaults } from "./accessibility.ts";
import { test } from "./browser-test.ts";
import { type Site, startSite } from "./site.ts";
import { tooWide } from "./too-wide.ts";
import { watch } from "./watch.ts";

let site: Site;

beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site?.stop());

/** Side by side, because there are many pages. */
const PORTIONS = [0, 1];

/** Parts that are the same on every page are checked only on the first one, and of equal parts only the first. */
const ON_EVERY_PAGE = [".VPNav", ".VPSidebar", ".VPLocalNav", ".VPDocAside"];
const ALIKE = [
  ".api section ~ section",
  ".operation ~ .operation",
  ".line:nth-child(n + 40)",
  "tr:nth-child(n + 20)",
];

describe.each(PORTIONS)("of every second page, from page %i on", (portion) => {
  test("none has a fault that a reader would notice", async ({ browser }) => {
    const { page, faults, close } = await visit(browser, { bypassCSP: true, reducedMotion: "reduce" });
    const paths = [...site.pages.keys()].sort().filter((_, index) => index % PORTIONS.length === portion);
    for (const path of paths) {
      await page.setViewportSize({ width: 1280, height: 800 });
      await page.emulateMedia({ colorScheme: "light" });
      await page.goto(`${site.origin}${path}`);
      faults.push(...(await faultsOf(page, path)).map((fault) => `${path}: ${fault}`));
    }
    await close();
    expect(faults).toEqual([]);
  });
});

describe("the site", () => {
  plainTest("has only links that lead to a page or a file of it, and to a heading of the page", () => {
    const links = [...site.pages].flatMap(([from, html]) => linksOf(html).map((to) => ({ from, to })));
    expect(links.length).toBeGreaterThan(1_000);
    expect(links.filter(({ from, to }) => !leadsSomewhere(from, to))).toEqual([]);
  });

  plainTest(
    "has each page as Markdown beside it, whose links lead to Markdown, and an index of them for agents",
    () => {
      const markdown = site.paths.filter((path) => path.endsWith(".md"));
      const pages = [...site.pages.keys()].filter((path) => !/\/(404|api)$/.test(path));
      for (const page of pages)
        expect(markdown).toContain(page.endsWith("/") ? `${page}index.md` : `${page}.md`);
      const broken = [...markdown, "/breakwater/llms.txt"].flatMap((from) =>
        [
          ...site
            .textOf(from)
            .replaceAll(/^```[\s\S]*?^```/gm, "")
            .matchAll(/\]\(([^):\s#]+\.(?:md|txt))(?:#[^)]*)?\)/g),
        ]
          .map(([, link = ""]) => new URL(link, `http://site${from}`).pathname)
          .filter((to) => !site.has(to))
          .map((to) => ({ from, to })),
      );
      expect(broken).toEqual([]);
      expect(site.textOf("/breakwater/llms.txt")).toContain("](./using.md)");
    },
  );

  plainTest("has every page of docs/ in its sidebar", () => {
    const [, sidebar = ""] =
      site.pages.get("/breakwater/")?.match(/<aside class="VPSidebar([\s\S]*?)<\/aside>/) ?? [];
    const docs = globSync("*.md", { cwd: new URL("../../docs", import.meta.url).pathname });
    const missing = docs.filter((file) => !sidebar.includes(`href="/breakwater/${file.replace(".md", "")}"`));
    expect(missing).toEqual([]);
  });

  test("is searched without a request to elsewhere", async ({ browser }) => {
    const { page, faults, close } = await visit(browser, {});
    await openPage(page, "/breakwater/");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByRole("searchbox").fill("rules for migrations");
    await page.getByRole("option", { name: /Deploying.*Rules for migrations/ }).click();
    await page.waitForURL("**/deploying#rules-for-migrations");
    await page.getByRole("heading", { name: "Rules for migrations" }).waitFor();
    await close();
    expect(faults).toEqual([]);
  });

  test("finds an operation of the API", async ({ browser }) => {
    const { page, faults, close } = await visit(browser, {});
    await openPage(page, "/breakwater/using");
    await page.keyboard.press("Control+k");
    await page.getByRole("searchbox").fill("rotate a destination's secret");
    await page.getByRole("option", { name: "Rotate a destination's secret" }).first().click();
    await page.waitForURL(/\/api#\w+/);
    await close();
    expect(faults).toEqual([]);
  });

  test("shows the dark pictures when its own switch is dark, whatever the system prefers", async ({
    browser,
  }) => {
    const { page, faults, close } = await visit(browser, { colorScheme: "light" });
    await openPage(page, "/breakwater/portal");
    const shown = () =>
      page.locator("img[alt='The page of an endpoint in the portal']:visible").getAttribute("src");
    expect(await shown()).toContain("portal-endpoint-light");
    await page.getByRole("switch").first().click();
    expect(await shown()).toContain("portal-endpoint-dark");
    await close();
    expect(faults).toEqual([]);
  });
});

type Visit = Readonly<{ page: Page; faults: string[]; close: () => Promise<void> }>;

/** A page on which forbidden actions (watch.ts) and missing files are noticed. */
async function visit(browser: Browser, options: Parameters<Browser["newContext"]>[0]): Promise<Visit> {
  const context = await browser.newContext(options);
  const faults: string[] = [];
  const watched = await watch(context, site.origin);
  context.on("response", (response) => {
    if (response.status() >= 400) faults.push(`${response.status()} for ${response.url()}`);
  });
  const close = async () => {
    await context.close();
    faults.push(...watched.faults);
  };
  return { page: await context.newPage(), faults, close };
}

/** Opens a page of the site, and waits until its script listens: a key or a click before that is lost. */
async function openPage(page: Page, path: string): Promise<void> {
  await page.goto(site.origin + path);
  await page.waitForFunction("document.querySelector('#app')?.__vue_app__ !== undefined");
}

/**
 * The faults that axe finds in both themes, and elements wider than the narrowest phone. VitePress lays a fading edge
 * over the outline and its header's background beside the text, of which axe cannot decide the contrast. Pages of
 * source are all alike.
 */
async function faultsOf(page: Page, path: string): Promise<string[]> {
  const found: string[] = [];
  if (!path.includes("/source/") || path.endsWith("schema-ts")) {
    await page.addStyleTag({ content: "* { transition: none !important }" });
    const without = path === "/breakwater/" ? ALIKE : [...ALIKE, ...ON_EVERY_PAGE];
    found.push(...(await accessibilityFaults(page, { undecided: false, without })));
    await page.emulateMedia({ colorScheme: "dark" });
    await page.waitForSelector("html.dark");
    const contrast = { undecided: false, without, rules: ["color-contrast"] };
    found.push(...(await accessibilityFaults(page, contrast)).map((fault) => `dark: ${fault}`));
  }
  await page.setViewportSize({ width: 320, height: 640 });
  return [...found, ...(await tooWide(page))];
}

function linksOf(html: string): string[] {
  const links = html.matchAll(/<(?:a|link|img|script)\s[^>]*?(?:href|src)="([^"]*)"/g);
  return [...links].map(([, to = ""]) => to).filter((to) => !/^(https?|mailto|data):/.test(to));
}

function leadsSomewhere(from: string, to: string): boolean {
  const { pathname, hash } = new URL(to, `http://site${from}`);
  if (!site.has(pathname)) return false;
  const id = decodeURIComponent(hash.slice(1));
  return id === "" || site.pages.get(pathname)?.includes(` id="${id}"`) === true;
}
