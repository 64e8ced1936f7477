/** Every page of the fixture and how to reach it, for tests of all pages and for the pictures. */
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { deliveryId, eventId } from "../../src/ids.ts";
import { apiClient } from "../../tools/stack.ts";
import { agentActions } from "./fixture/agents.ts";
import { billing, ledger } from "./fixture/destinations.ts";
import { erasure, SHOWN_EVENT } from "./fixture/events.ts";
import { signIn } from "./steps.ts";

type Who = "admin" | "nobody" | "newcomer" | "visitor" | "german" | "reader" | "new visitor";

export type Shown = Readonly<{
  name: string;
  path: string;
  /**
   * The signed-in visitor; by default the admin. A newcomer is a tenant without destinations; visitors are in the
   * portal.
   */
  who?: Who;
  /** The label of an input and the text that is typed in it before. */
  type?: readonly [label: string, text: string];
  /** The button that leads to the page. */
  press?: string;
}>;

const destination = `/dashboard/destinations/${billing.row.id}`;

const endpoint = `/portal/endpoints/${billing.row.id}`;

export const pages: readonly Shown[] = [
  { name: "sign-in", path: "/dashboard", who: "nobody" },
  { name: "first-steps", path: "/dashboard", who: "newcomer" },
  { name: "overview", path: "/dashboard" },
  { name: "destination", path: destination },
  { name: "dead", path: `${destination}?state=dead` },
  { name: "replay", path: `/dashboard/destinations/${ledger.row.id}` },
  { name: "event", path: `/dashboard/events/${eventId(SHOWN_EVENT)}` },
  { name: "new-destination", path: "/dashboard/destinations/new" },
  { name: "edit-destination", path: `${destination}/edit` },
  { name: "edit-refused", path: `${destination}/edit`, type: ["Filter (JSON)", "{"], press: "Save changes" },
  { name: "transform", path: `${destination}/transform?ready=slack`, press: "Try it" },
  { name: "delete-destination", path: `${destination}/delete` },
  { name: "event-types", path: "/dashboard/event-types" },
  { name: "new-event-type", path: "/dashboard/event-types/new" },
  { name: "import-event-types", path: "/dashboard/event-types/import" },
  {
    name: "event-type-versions",
    path: "/dashboard/event-types/order.created/versions",
    press: "Try it on recorded events",
  },
  { name: "group-limits", path: "/dashboard/groups/limits?name=host:hooks.example.com" },
  { name: "keys", path: "/dashboard/keys" },
  { name: "portal-links", path: "/dashboard/portal-links" },
  { name: "approvals", path: "/dashboard/actions" },
  { name: "approval", path: `/dashboard/actions/${agentActions[0]?.id}` },
  { name: "approval-done", path: `/dashboard/actions/${agentActions[4]?.id}` },
  { name: "audit", path: "/dashboard/audit" },
  { name: "tenants", path: "/dashboard/tenants" },
  { name: "settings", path: "/dashboard/settings?tenant=default" },
  { name: "import", path: "/dashboard/settings/import?tenant=default" },
  {
    name: "import-refused",
    path: "/dashboard/settings/import?tenant=default",
    press: "See what it would do",
  },
  { name: "delete-tenant", path: "/dashboard/settings/delete?tenant=default" },
  { name: "all-tenants", path: "/dashboard/settings?tenant=" },
  { name: "erasures", path: "/dashboard/erasures" },
  { name: "erasure", path: `/dashboard/erasures/${erasure.id}` },
  { name: "deliveries", path: "/dashboard/deliveries" },
  { name: "repair", path: "/dashboard/deliveries/repair?action=retry&state=dead" },
  { name: "replays", path: "/dashboard/replays" },
  { name: "search", path: "/dashboard/search?q=order" },
  { name: "search-empty", path: "/dashboard/search" },
  { name: "simulator", path: `/dashboard/simulator?destination=${billing.row.id}` },
  { name: "certification", path: `${destination}/certification` },
  { name: "test-event", path: `${destination}/test`, press: "Send test event" },
  { name: "limits-saved", path: destination, press: "Save limits" },
  { name: "docs", path: "/docs", who: "nobody" },
  { name: "portal", path: "/portal", who: "visitor" },
  { name: "portal-empty", path: "/portal", who: "new visitor" },
  { name: "portal-endpoint", path: endpoint, who: "visitor" },
  { name: "portal-german", path: endpoint, who: "german" },
  { name: "portal-reader", path: endpoint, who: "reader" },
  { name: "portal-change", path: `${endpoint}/change`, who: "visitor" },
  {
    name: "portal-preview",
    path: `${endpoint}/change`,
    who: "visitor",
    press: "Try it on the last events",
  },
  {
    name: "portal-transform",
    path: `${endpoint}/transform?ready=cloudevents-binary`,
    who: "german",
    press: "Ausprobieren",
  },
  { name: "portal-verify", path: `${endpoint}/verify?in=python`, who: "visitor" },
  {
    name: "portal-delivery",
    path: `/portal/deliveries/${deliveryId(SHOWN_EVENT, billing.row.id)}`,
    who: "visitor",
  },
  { name: "portal-event-types", path: "/portal/event-types", who: "visitor" },
  { name: "portal-event-type", path: "/portal/event-types/order.created", who: "visitor" },
  { name: "portal-agent", path: "/portal/agent", who: "visitor", press: "Create a token" },
  { name: "portal-certification", path: `${endpoint}/certification`, who: "visitor" },
  { name: "portal-test", path: `${endpoint}/test`, who: "visitor", press: "Send test event" },
  { name: "portal-not-found", path: "/portal/nowhere", who: "german" },
  { name: "not-found", path: "/dashboard/nowhere" },
];

export type FixtureAt = Readonly<{
  url: string;
  key: string;
  /** The URL that the browser uses; `url` by default. */
  as?: string;
}>;

export type Tour = Readonly<{
  show: (shown: Shown) => Promise<Page>;
  close: () => Promise<void>;
}>;

/** Opens the page's folded parts, so that they are checked too; not on the reference, where they are very long. */
export async function unfold(page: Page): Promise<void> {
  if (new URL(page.url()).pathname.startsWith("/docs")) return;
  await page.evaluate(() => {
    for (const one of document.querySelectorAll<HTMLDetailsElement>("main details")) one.open = true;
  });
}

/** Opens pages of the fixture, each as its visitor, with the same browser options for all. */
export async function tour(
  browser: Browser,
  fixture: FixtureAt,
  options: BrowserContextOptions,
): Promise<Tour> {
  const visitors = new Map<Who, Promise<Page>>();
  const visitor = (who: Who) => {
    const page = visitors.get(who) ?? open(browser, fixture, who, options);
    visitors.set(who, page);
    return page;
  };
  return {
    show: async ({ path, who = "admin", type, press }) => {
      const page = await visitor(who);
      await page.goto(path);
      if (type !== undefined) await page.getByLabel(type[0]).fill(type[1]);
      if (press !== undefined) {
        // A click ends when the next page has begun: it may have no element yet.
        const loaded = page.waitForEvent("load");
        await page.getByRole("button", { name: press }).click();
        await loaded;
      }
      return page;
    },
    close: async () => {
      for (const page of visitors.values()) await (await page).context().close();
    },
  };
}

async function open(
  browser: Browser,
  { url, key, as = url }: FixtureAt,
  who: Who,
  options: BrowserContextOptions,
): Promise<Page> {
  const context: BrowserContext = await browser.newContext({ baseURL: as, ...options });
  const page = await context.newPage();
  if (who === "admin") await signIn(page, key);
  if (who === "newcomer") await signIn(page, await keyOf(url, key, "newcomer"));
  const link = links[who];
  if (link !== undefined) await enterByLink(page, url, key, link);
  return page;
}

/** The contents of visitors' links. */
const links: Partial<Record<Who, object>> = {
  visitor: { tenant: "acme", return_url: "https://app.example.com/settings" },
  german: { tenant: "acme", language: "de" },
  reader: { tenant: "acme", read_only: true },
  "new visitor": { tenant: "newcomer" },
};

async function keyOf(url: string, admin: string, tenant: string): Promise<string> {
  const scopes = ["read", "admin"];
  return (await apiClient(url, admin).post<{ key: string }>("/v1/keys", { tenant, scopes })).key;
}

async function enterByLink(page: Page, url: string, key: string, link: object): Promise<void> {
  const { url: at } = await apiClient(url, key).post<{ url: string }>("/v1/portal-links", link);
  const { pathname, search } = new URL(at);
  await page.goto(pathname + search);
  await page.getByRole("button").click();
  await page.locator("form[action='/portal/leave']").waitFor();
}
