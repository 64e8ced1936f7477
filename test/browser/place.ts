/** Where all browser tests play: one Breakwater and one browser, for all files. Each test is a tenant of its own. */
import { chromium } from "playwright-core";
import type { TestProject } from "vitest/node";
import { SCENE_KEY, startScene } from "../scene/stage.ts";
import { startBreakwater } from "../support/breakwater-runtime.ts";
import { findBrowser } from "./executable.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Of the Worker. */
    url: string;
    adminKey: string;
    /** Of the scene, where every page has something to show. */
    sceneUrl: string;
    sceneKey: string;
    /** The browser's, for whoever wants to drive it. */
    browserEndpoint: string;
  }
}

const ADMIN_KEY = "browser-admin-key-0123456789";

/** Called by vitest before the first test; what it returns is called after the last. */
export async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const [breakwater, scene, browser] = await Promise.all([
    startBreakwater({ vars: { ADMIN_KEY, ALLOW_PRIVATE_DESTINATIONS: "true" } }),
    startScene(),
    chromium.launchServer({ executablePath: findBrowser() ?? "" }),
  ]);
  provide("url", breakwater.url);
  provide("adminKey", ADMIN_KEY);
  provide("sceneUrl", scene.url);
  provide("sceneKey", SCENE_KEY);
  provide("browserEndpoint", browser.wsEndpoint());
  return async () => {
    await Promise.all([breakwater.stop(), scene.stop(), browser.close()]);
  };
}
