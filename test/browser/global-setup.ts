/**
 * The set-up that all browser tests share: one Breakwater, one fixture and one browser. Each test has a tenant of its
 * own.
 */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { chromium } from "playwright-core";
import type { TestProject } from "vitest/node";
import { pageServer } from "../../examples/portal-frame/server.ts";
import { startBreakwater } from "../support/breakwater-runtime.ts";
import { findBrowser } from "./find-browser.ts";
import { FIXTURE_KEY, startFixture } from "./fixture/start.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The Worker's URL. */
    url: string;
    adminKey: string;
    /** A Worker of its own over https, whose portal pages of `FRAMING_ORIGIN` may show in a frame. */
    framedUrl: string;
    /** The page of examples/portal-frame, with the portal of `url` in a frame. */
    exampleUrl: string;
    /** The fixture, in which every page has something to show. */
    fixtureUrl: string;
    fixtureKey: string;
    /** Where tests connect to the browser. */
    browserEndpoint: string;
  }
}

/** The sender's page around the frame. */
const FRAMING_ORIGIN = "https://app.sender.example";

const BROWSER_ARGS = [
  // As some browsers are: no cookies of third parties.
  "--test-third-party-cookie-phaseout",
  // In frames too, although the certificate is not trusted and the address is local.
  "--ignore-certificate-errors",
  "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",
];

const ADMIN_KEY = "browser-admin-key-0123456789";

/** Vitest calls it before the first test, and what it returns after the last. */
export async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const vars = { ADMIN_KEY, ALLOW_PRIVATE_DESTINATIONS: "true" };
  const example = await startExample();
  const [breakwater, framed, fixture, browser] = await Promise.all([
    startBreakwater({ vars: { ...vars, PORTAL_ORIGINS: example.url } }),
    startBreakwater({ vars: { ...vars, PORTAL_ORIGINS: FRAMING_ORIGIN }, https: true }),
    startFixture(),
    chromium.launchServer({ executablePath: findBrowser() ?? "", args: BROWSER_ARGS }),
  ]);
  example.frames(breakwater.url);
  provide("exampleUrl", example.url);
  provide("url", breakwater.url);
  provide("framedUrl", framed.url);
  provide("adminKey", ADMIN_KEY);
  provide("fixtureUrl", fixture.url);
  provide("fixtureKey", FIXTURE_KEY);
  provide("browserEndpoint", browser.wsEndpoint());
  return async () => {
    example.close();
    await Promise.all([breakwater.stop(), framed.stop(), fixture.stop(), browser.close()]);
  };
}

/** The example's server. Breakwater must know its origin before it starts, so it learns Breakwater's afterwards. */
async function startExample() {
  const options = { breakwater: "", key: ADMIN_KEY, tenant: "example" };
  const server = pageServer(options).listen(0, "localhost");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://localhost:${port}`,
    frames: (breakwater: string) => {
      options.breakwater = breakwater;
    },
    close: () => server.close(),
  };
}
