/**
 * What a test is given, made when it asks for it and gone when it ends: a customer of its own, with a
 * receiver that does as it is told, and a browser that is watched.
 */
import { randomBytes } from "node:crypto";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { test as base, expect, inject } from "vitest";
import { type Receiver, type Reply, startReceiver } from "../../src/local/receiver.ts";
import { type ApiClient, apiClient } from "../../src/local/stack.ts";
import { signIn } from "./sign-in.ts";
import { watch } from "./watch.ts";

/** How long a page may take until it shows what it must. */
const PATIENCE_MS = 30_000;

export type Customer = Readonly<{
  tenant: string;
  /** May do everything with what is the tenant's. */
  key: string;
  api: ApiClient;
}>;

export type Endpoint = Receiver & {
  /** What every request gets; 200 until a test says otherwise. */
  reply: Reply;
};

type Given = {
  browser: Browser;
  customer: Customer;
  endpoint: Endpoint;
  /** How the browser presents itself: size, theme, … */
  looks: BrowserContextOptions;
  /** Nobody has signed in yet. */
  page: Page;
  /** The customer has signed in, and sees the overview. */
  signedIn: Page;
};

export const test = base.extend<Given>({
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
  looks: {},
  page: async ({ browser, looks }, use) => {
    const baseURL = inject("url");
    const context = await browser.newContext({ baseURL, ...looks });
    context.setDefaultTimeout(PATIENCE_MS);
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
