/** Every page of the scene, and how one gets there: for what must hold on all of them. */
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { eventId } from "../../src/ids.ts";
import { apiClient } from "../../src/local/stack.ts";
import { billing, ledger } from "../scene/cast.ts";
import { HERO_EVENT } from "../scene/plot.ts";
import { signIn } from "./sign-in.ts";

type Who = "admin" | "nobody" | "newcomer";

export type Shown = Readonly<{
  name: string;
  path: string;
  /** Who looks; the admin when absent. A newcomer is a customer without a destination yet. */
  who?: Who;
  /** What is done there, when the page is only seen after it. */
  press?: string;
}>;

const destination = `/dashboard/destinations/${billing.row.id}`;

export const pages: readonly Shown[] = [
  { name: "sign-in", path: "/dashboard", who: "nobody" },
  { name: "first-steps", path: "/dashboard", who: "newcomer" },
  { name: "overview", path: "/dashboard" },
  { name: "destination", path: destination },
  { name: "dead", path: `${destination}?state=dead` },
  { name: "replay", path: `/dashboard/destinations/${ledger.row.id}` },
  { name: "event", path: `/dashboard/events/${eventId(HERO_EVENT)}` },
  { name: "new-destination", path: "/dashboard/destinations/new" },
  { name: "lab", path: `/dashboard/lab?destination=${billing.row.id}` },
  { name: "test-event", path: destination, press: "Send a test event" },
  { name: "limits-saved", path: destination, press: "Save limits" },
  { name: "docs", path: "/docs", who: "nobody" },
  { name: "nothing", path: "/dashboard/nowhere" },
];

export type Scene = Readonly<{
  url: string;
  key: string;
  /** By which name the browser knows it; its URL when absent. */
  as?: string;
}>;

export type Tour = Readonly<{
  show: (shown: Shown) => Promise<Page>;
  leave: () => Promise<void>;
}>;

/** Visitors of the scene, all of whose browsers look the same. */
export async function tour(browser: Browser, scene: Scene, looks: BrowserContextOptions): Promise<Tour> {
  const visitors = new Map<Who, Promise<Page>>();
  const visitor = (who: Who) => {
    const page = visitors.get(who) ?? enter(browser, scene, who, looks);
    visitors.set(who, page);
    return page;
  };
  return {
    show: async ({ path, who = "admin", press }) => {
      const page = await visitor(who);
      await page.goto(path);
      if (press !== undefined) await page.getByRole("button", { name: press }).click();
      return page;
    },
    leave: async () => {
      for (const page of visitors.values()) await (await page).context().close();
    },
  };
}

async function enter(
  browser: Browser,
  { url, key, as = url }: Scene,
  who: Who,
  looks: BrowserContextOptions,
): Promise<Page> {
  const context: BrowserContext = await browser.newContext({ baseURL: as, ...looks });
  const page = await context.newPage();
  if (who === "admin") await signIn(page, key);
  if (who === "newcomer") await enterByLink(page, url, key);
  return page;
}

async function enterByLink(page: Page, url: string, key: string): Promise<void> {
  const link = await apiClient(url, key).post<{ url: string }>("/v1/portal-links", { tenant: "newcomer" });
  const { pathname, search } = new URL(link.url);
  await page.goto(pathname + search);
  await page.getByRole("button").click();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
}
