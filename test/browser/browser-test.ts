/**
 * Vitest's `test` with what a browser test needs, made on demand and removed afterwards: a separate customer, a
 * receiver that answers as the test decides, and a page in which every fault is noticed.
 */
import { randomBytes } from "node:crypto";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { test as base, expect, inject } from "vitest";
import { type ReceiverServer, type Reply, startReceiver } from "../../tools/receiver.ts";
import { type ApiClient, apiClient } from "../../tools/stack.ts";
import { signIn } from "./steps.ts";
import { watch } from "./watch.ts";

/** How long a page may take until it shows what a test waits for: longer than it does on any machine. */
export const PAGE_TIMEOUT_MS = 300_000;

export type Customer = Readonly<{
  tenant: string;
  /** Has every scope, for this tenant alone. */
  key: string;
  api: ApiClient;
}>;

export type Endpoint = ReceiverServer & {
  /** The answer to every request; 200 by default. */
  reply: Reply;
};

type Fixtures = {
  browser: Browser;
  customer: Customer;
  endpoint: Endpoint;
  /** Options of the browser: screen size, theme, … */
  contextOptions: BrowserContextOptions;
  /** Not signed in yet. */
  page: Page;
  /** Signed in as the customer, at the overview. */
  signedIn: Page;
};

export const test = base.extend<Fixtures>({
  browser: [
    // biome-ignore lint/correctness/noEmptyPattern: vitest wants the pattern.
    async ({}, use) => {
      const browser = await chromium.connect(inject("browserEndpoint"));
      await use(browser);
      await browser.close();
    },
    { scope: "file" },
  ],
  // biome-ignore lint/correctness/noEmptyPattern: vitest wants the pattern.
  customer: async ({}, use) => {
    await use(await newCustomer());
  },
  // biome-ignore lint/correctness/noEmptyPattern: vitest wants the pattern.
  endpoint: async ({}, use) => {
    const endpoint: Endpoint = Object.assign(await startReceiver(() => endpoint.reply), {
      reply: { status: 200 },
    });
    await use(endpoint);
    endpoint.close();
  },
  contextOptions: {},
  page: async ({ browser, contextOptions }, use) => {
    const baseURL = inject("url");
    const context = await browser.newContext({ baseURL, ...contextOptions });
    context.setDefaultTimeout(PAGE_TIMEOUT_MS);
    const { faults } = await watch(context, baseURL);
    await use(await context.newPage());
    await context.close();
    expect(faults).toEqual([]);
  },
  signedIn: async ({ page, customer }, use) => {
    await signIn(page, customer.key);
    await use(page);
  },
});

export async function newCustomer(): Promise<Customer> {
  const admin = apiClient(inject("url"), inject("adminKey"));
  const tenant = `tenant-${randomBytes(4).toString("hex")}`;
  const scopes = ["read", "events:write", "admin"];
  const { key } = await admin.post<{ key: string }>("/v1/keys", { name: tenant, tenant, scopes });
  return { tenant, key, api: apiClient(inject("url"), key) };
}
