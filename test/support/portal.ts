/** The portal over the real D1 of the test, as a customer's browser sees it. */
import { createPortal } from "../../src/pages/portal/app.tsx";
import { testApi } from "./api.ts";
import { type BrowserOptions, testBrowser } from "./dashboard.ts";

/** A browser without a cookie yet, before the portal. */
export function testPortal(options: BrowserOptions = {}) {
  return testBrowser((services) => createPortal({ services }), options);
}

type Portal = ReturnType<typeof testPortal>;

/** The token of a new link. */
export async function linkToken(body: object): Promise<string> {
  const { status, json, text } = await testApi().call("POST", "/v1/portal-links", body);
  if (status !== 201) throw new Error(`No link: ${status} ${text}`);
  return new URL(json.url).searchParams.get("token") ?? "";
}

export const enter = (browser: Portal, token: string, fields: Record<string, string> = {}) =>
  browser.post("/portal/enter", { token, ...fields });

/**
 * A browser that has opened a link of the tenant.
 * @param link further fields of the link
 */
export async function visitor(
  tenant: string,
  link: object = {},
  options: BrowserOptions = {},
): Promise<Portal> {
  const browser = testPortal(options);
  const { status } = await enter(browser, await linkToken({ tenant, ...link }));
  if (status !== 303) throw new Error(`The link was refused: ${status}`);
  return browser;
}
