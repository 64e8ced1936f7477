/** What all browser tests share: one Breakwater, one fixture and one browser. Each test has a tenant of its own. */
import { chromium } from "playwright-core";
import type { TestProject } from "vitest/node";
import { startBreakwater } from "../support/breakwater-runtime.ts";
import { findBrowser } from "./find-browser.ts";
import { FIXTURE_KEY, startFixture } from "./fixture/start.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The Worker's URL. */
    url: string;
    adminKey: string;
    /** The fixture, in which every page has something to show. */
    fixtureUrl: string;
    fixtureKey: string;
    /** Where tests connect to the browser. */
    browserEndpoint: string;
  }
}

const ADMIN_KEY = "browser-admin-key-0123456789";

/** Vitest calls it before the first test, and what it returns after the last. */
export async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const [breakwater, fixture, browser] = await Promise.all([
    startBreakwater({ vars: { ADMIN_KEY, ALLOW_PRIVATE_DESTINATIONS: "true" } }),
    startFixture(),
    chromium.launchServer({ executablePath: findBrowser() ?? "" }),
  ]);
  provide("url", breakwater.url);
  provide("adminKey", ADMIN_KEY);
  provide("fixtureUrl", fixture.url);
  provide("fixtureKey", FIXTURE_KEY);
  provide("browserEndpoint", browser.wsEndpoint());
  return async () => {
    await Promise.all([breakwater.stop(), fixture.stop(), browser.close()]);
  };
}
