/**
 * `npm run pictures`: takes the pictures that README and docs/ show, in both themes, and some of a phone. They are taken
 * of the fixture, whose clock stands still, so that they change only when the pages do.
 */
import { globSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { projectRoot } from "../../tools/wrangler.ts";
import { findBrowser, NO_BROWSER } from "./find-browser.ts";
import { FIXTURE_KEY, startFixture } from "./fixture/start.ts";
import { type FixtureAt, pages, tour } from "./pages.ts";

const folder = `${projectRoot}.github/pictures`;
const themes = ["light", "dark"] as const;
const desktop = { viewport: { width: 1080, height: 800 }, deviceScaleFactor: 1.25 };
const phone = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true };
/** Some pages show their address, and the port differs on every run. */
const HOST = "breakwater.example";
const maxHeight = 1_250;
/** Text compresses less than white space. */
const maxHeightOf: Readonly<Record<string, number>> = { docs: 960 };
const maxBytes = 250_000;
/** The documentation's pictures of pages, by the page's name in pages.ts. */
const documented = globSync(["README.md", "docs/*.md"], { cwd: projectRoot }).flatMap((file) =>
  [...readFileSync(join(projectRoot, file), "utf8").matchAll(/pictures\/([\w-]+)-light\.png/g)].map(
    ([, name]) => name,
  ),
);

const phonePictures = [
  ["overview", "phone"],
  ["portal-german", "portal-phone"],
] as const;

async function takeAll(fixture: FixtureAt): Promise<void> {
  const browser = await chromium.launch({
    executablePath: findBrowser() ?? "",
    args: [`--host-resolver-rules=MAP ${HOST} ${new URL(fixture.url).host}`],
  });
  const options = { reducedMotion: "reduce" as const, locale: "en", timezoneId: "UTC" };
  for (const colorScheme of themes) {
    const { show, close } = await tour(browser, fixture, { ...desktop, ...options, colorScheme });
    for (const shown of pages.filter(({ name }) => documented.includes(name))) {
      await take(await show(shown), `${shown.name}-${colorScheme}`, maxHeightOf[shown.name]);
    }
    await close();
  }
  const { show, close } = await tour(browser, fixture, { ...phone, ...options, colorScheme: "light" });
  for (const [name, picture] of phonePictures)
    for (const shown of pages.filter((one) => one.name === name)) await take(await show(shown), picture);
  await close();
  await browser.close();
}

type Page = Awaited<ReturnType<Awaited<ReturnType<typeof tour>>["show"]>>;

/** As tall as the page, up to a limit. */
async function take(page: Page, name: string, limit = maxHeight): Promise<void> {
  const path = `${folder}/${name}.png`;
  const { width, height } = await page.evaluate(() => ({
    // Without the scroll bar's gutter.
    width: Math.floor(document.documentElement.getBoundingClientRect().width),
    height: document.documentElement.scrollHeight,
  }));
  const clip = { x: 0, y: 0, width, height: Math.min(height, limit) };
  await page.screenshot({ path, clip, fullPage: true, animations: "disabled", caret: "hide" });
  const { size } = statSync(path);
  console.log(`${name}.png  ${Math.round(size / 1000)} kB`);
  if (size > maxBytes) throw new Error(`${name}.png is larger than ${maxBytes / 1000} kB`);
}

if (findBrowser() === undefined) throw new Error(`No pictures: ${NO_BROWSER}`);
mkdirSync(folder, { recursive: true });
const runtime = await startFixture();
try {
  await takeAll({ url: runtime.url, key: FIXTURE_KEY, as: `http://${HOST}` });
} finally {
  await runtime.stop();
}
