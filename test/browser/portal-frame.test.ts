/**
 * The portal in a frame on a page of another site, in a browser without third-party cookies: it opens by itself, keeps
 * its visit, reports its height only to that page, and is not shown on any other.
 */
import type { Browser, BrowserContext, Page } from "playwright-core";
import { expect, inject } from "vitest";
import { until } from "../scenario/until.ts";
import { PAGE_TIMEOUT_MS, test } from "./browser-test.ts";

const PORTAL = inject("framedUrl");

/** A page with a frame, which notes the messages that it gets. */
const pageWith = (link: string) => `<!doctype html><title>Sender</title>
  <iframe id="portal" title="Webhooks" allow="clipboard-write" width="600" height="300" src="${link}"></iframe>
  <script>
    window.messages = [];
    addEventListener("message", ({ origin, data }) => window.messages.push({ origin, data }));
  </script>`;

type Noted = {
  messages: { origin: string; data: { type: string; height?: number; payload?: { height: number } } }[];
};

test("opens in the frame, keeps its session across forms and pages, and reports its height to the page around it", async ({
  browser,
}) => {
  const context = await newContext(browser);
  const page = await shownOn(context, "https://app.sender.example", await newLink(context));
  const frame = page.frameLocator("#portal");
  await frame.getByRole("heading", { name: "No endpoints yet" }).waitFor();
  await frame.getByRole("link", { name: "Add endpoint" }).click();
  await frame.getByLabel("Address (URL)").fill("https://203.0.113.1/hook");
  await frame.getByRole("button", { name: "Add endpoint" }).click();
  await frame.locator("#secret").waitFor();
  await frame.getByRole("link", { name: "Go to the endpoint" }).click();
  await frame.getByRole("button", { name: "Pause" }).click();
  await frame.getByText("Paused. New events are kept until you resume the endpoint.").waitFor();
  const messages = () => page.evaluate(() => (window as unknown as Noted).messages);
  await until(async () => new Set((await messages()).map(({ data }) => data.height)).size > 1, {
    otherwise: () => "no new height",
  });
  const seen = await messages();
  for (const { origin, data } of seen) {
    expect(origin).toBe(new URL(PORTAL).origin);
    expect(data.height ?? data.payload?.height).toBeGreaterThan(100);
  }
  const types = new Set(seen.map(({ data }) => data.type));
  expect(types).toEqual(new Set(["breakwater:height", "svix.iframe-resizer-height"]));
  const cookies = await context.cookies(PORTAL);
  expect(cookies).toMatchObject([
    { name: "__Host-breakwater-portal", httpOnly: true, secure: true, sameSite: "None" },
  ]);
  expect(cookies[0]?.partitionKey).toContain("sender.example");

  // The same browser on another page: the visit is not valid there, nor outside a frame.
  const own = await context.newPage();
  await own.goto(`${PORTAL}/portal`);
  await own.getByText("Your visit has ended").waitFor();
  await context.close();
});

test("is not shown on a page of an origin that the deployment does not name", async ({ browser }) => {
  const context = await newContext(browser);
  const violations: string[] = [];
  context.on("console", (message) => violations.push(message.text()));
  const page = await shownOn(context, "https://evil.example", await newLink(context));
  await until(() => violations.some((text) => text.includes("frame-ancestors")), {
    otherwise: () => violations.join("; "),
  });
  expect(await page.frameLocator("#portal").getByRole("button", { name: "Open" }).count()).toBe(0);
  expect(await page.evaluate(() => (window as unknown as Noted).messages)).toEqual([]);
  await context.close();
});

test("the dashboard is shown in no frame", async ({ browser }) => {
  const context = await newContext(browser);
  const violations: string[] = [];
  context.on("console", (message) => violations.push(message.text()));
  await shownOn(context, "https://app.sender.example", `${PORTAL}/dashboard`);
  await until(() => violations.some((text) => /frame-ancestors|X-Frame-Options/.test(text)), {
    otherwise: () => violations.join("; "),
  });
  await context.close();
});

async function newContext(browser: Browser): Promise<BrowserContext> {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  context.setDefaultTimeout(PAGE_TIMEOUT_MS);
  return context;
}

/** A link for a tenant of its own, made over the API. */
async function newLink(context: BrowserContext): Promise<string> {
  const answer = await context.request.post(`${PORTAL}/v1/portal-links`, {
    headers: { authorization: `Bearer ${inject("adminKey")}` },
    data: { tenant: `framed-${crypto.randomUUID().slice(0, 8)}` },
  });
  const { url } = (await answer.json()) as { url: string };
  return url;
}

/** A page of that origin with the address in a frame. */
async function shownOn(context: BrowserContext, origin: string, address: string): Promise<Page> {
  const body = pageWith(address);
  await context.route(`${origin}/**`, (route) => route.fulfill({ contentType: "text/html", body }));
  const page = await context.newPage();
  await page.goto(`${origin}/settings/webhooks`);
  return page;
}
