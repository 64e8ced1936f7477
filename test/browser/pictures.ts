/**
 * `npm run pictures`: the pages as the README shows them, in both themes, and one as a phone does. They are
 * taken from the scene, in which time stands still: they change when the pages do, and only then.
 */
import { mkdirSync, statSync } from "node:fs";
import { chromium } from "playwright-core";
import { projectRoot } from "../../src/local/wrangler.ts";
import { SCENE_KEY, startScene } from "../scene/stage.ts";
import { findBrowser, NO_BROWSER } from "./executable.ts";
import { pages, type Scene, tour } from "./pages.ts";

const folder = `${projectRoot}.github/pictures`;
const themes = ["light", "dark"] as const;
const desk = { viewport: { width: 1080, height: 800 }, deviceScaleFactor: 1.25 };
const phone = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true };
/** Some pages say where they are: not at another port each time. */
const NAME = "breakwater.example";
const tallest = 1_250;
/** Text does not compress as a page with white on it does. */
const tallestOf: Readonly<Record<string, number>> = { docs: 1_000 };
const largest = 250_000;
/** States of pages that are shown already, and what shows an id that is another each time. */
const left = ["dead", "limits-saved", "nothing", "test-event"];

async function takeAll(scene: Scene): Promise<void> {
  const browser = await chromium.launch({
    executablePath: findBrowser() ?? "",
    args: [`--host-resolver-rules=MAP ${NAME} ${new URL(scene.url).host}`],
  });
  const looks = { reducedMotion: "reduce" as const, locale: "en", timezoneId: "UTC" };
  for (const colorScheme of themes) {
    const { show, leave } = await tour(browser, scene, { ...desk, ...looks, colorScheme });
    for (const shown of pages.filter(({ name }) => !left.includes(name))) {
      await take(await show(shown), `${shown.name}-${colorScheme}`, tallestOf[shown.name]);
    }
    await leave();
  }
  const { show, leave } = await tour(browser, scene, { ...phone, ...looks, colorScheme: "light" });
  for (const shown of pages.filter(({ name }) => name === "overview")) await take(await show(shown), "phone");
  await leave();
  await browser.close();
}

type Page = Awaited<ReturnType<Awaited<ReturnType<typeof tour>>["show"]>>;

/** As tall as the page is, within reason. */
async function take(page: Page, name: string, most = tallest): Promise<void> {
  const path = `${folder}/${name}.png`;
  const { width, height } = await page.evaluate(() => ({
    // Without the gutter that is kept free for a scroll bar.
    width: Math.floor(document.documentElement.getBoundingClientRect().width),
    height: document.documentElement.scrollHeight,
  }));
  const clip = { x: 0, y: 0, width, height: Math.min(height, most) };
  await page.screenshot({ path, clip, fullPage: true, animations: "disabled", caret: "hide" });
  const { size } = statSync(path);
  console.log(`${name}.png  ${Math.round(size / 1000)} kB`);
  if (size > largest) throw new Error(`${name}.png is larger than ${largest / 1000} kB`);
}

if (findBrowser() === undefined) throw new Error(`No pictures: ${NO_BROWSER}`);
mkdirSync(folder, { recursive: true });
const runtime = await startScene();
try {
  await takeAll({ url: runtime.url, key: SCENE_KEY, as: `http://${NAME}` });
} finally {
  await runtime.stop();
}
