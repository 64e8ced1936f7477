/** What an operator does besides watching: changing a destination, making keys, and looking at one tenant alone. */
import { expect, inject } from "vitest";
import { test } from "./browser-test.ts";
import { newDestination, postEvents, signIn } from "./steps.ts";

test("a destination is changed by its form, tried on past events first, and deleted after a question", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  const { id, path } = await newDestination(customer, endpoint, { headers: { "X-Key": "kept-value" } });
  await postEvents(customer, 3);
  await page.goto(path);
  await page.getByRole("link", { name: "Edit", exact: true }).click();
  await page.getByLabel("Filter (JSON)").fill('{"order": {"gte": 2}');
  await page.getByRole("button", { name: "Try it on the last events" }).click();
  await page.getByText(/Filter \(JSON\) is not JSON/).waitFor();
  await page.getByLabel("Filter (JSON)").fill('{"order": {"gte": 2}}');
  await page.getByRole("button", { name: "Try it on the last events" }).click();
  await page.getByText("Takes 1 of the last 3 events.").waitFor();

  await page.getByText("Body, headers and authentication").click();
  await page.getByLabel("User name").waitFor({ state: "hidden" });
  await page.getByLabel("Authentication", { exact: true }).selectOption("basic");
  await page.getByLabel("User name").fill("breakwater");
  await page.getByLabel("Password").fill("correct-horse");
  await page.getByRole("button", { name: "Save changes" }).click();
  await page.getByText("Changes saved.").waitFor();
  await page.getByText("order is at least 2").waitFor();
  expect(await customer.api.get(`/v1/destinations/${id}`)).toMatchObject({
    filter: { order: { gte: 2 } },
    auth: { kind: "basic", username: "breakwater" },
    headers: { "X-Key": "***" },
  });

  await page.getByRole("link", { name: "Edit", exact: true }).click();
  await page.getByRole("link", { name: "Delete the destination" }).click();
  await page.getByText("Deletion is final.").waitFor();
  await page.getByRole("button", { name: "Delete the destination" }).click();
  await page.getByText("Destination deleted.").waitFor();
});

test("a new destination asks only for what its kind needs", async ({ signedIn: page }) => {
  await page.goto("/dashboard/destinations/new");
  await page.getByLabel("URL").waitFor();
  await page.getByLabel("Binding").waitFor({ state: "hidden" });
  await page.getByLabel("Kind").selectOption("service");
  await page.getByLabel("Binding").fill("NOWHERE");
  await page.getByLabel("URL").waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Create destination" }).click();
  await page.getByText(/Binding is "NOWHERE", which is not known/).waitFor();
  expect(await page.getByLabel("Binding").inputValue()).toBe("NOWHERE");
});

test("a key is made, shown once, signs in, and is revoked", async ({ signedIn: page, browser }) => {
  await page.getByRole("link", { name: "Keys", exact: true }).click();
  await page.getByLabel("Name", { exact: true }).fill("For a test");
  await page.getByRole("button", { name: "Create key" }).click();
  const key = (await page.locator("#key").textContent()) ?? "";
  expect(key).toMatch(/^bw_/);
  const other = await browser.newContext({ baseURL: inject("url") });
  const visitor = await other.newPage();
  await signIn(visitor, key);
  await page.getByRole("link", { name: "Back to the keys" }).click();
  await page.getByRole("link", { name: "Revoke For a test" }).click();
  await page.getByRole("button", { name: "Revoke the key" }).click();
  await page.getByText("Key revoked.").waitFor();
  expect(await page.content()).not.toContain(key);
  await visitor.reload();
  await visitor.getByLabel("API key").waitFor();
  await other.close();
});

test("one tenant is chosen, seen on all pages and left again, on the narrowest of screens", async ({
  page,
  customer,
  endpoint,
}) => {
  await newDestination(customer, endpoint, { description: "The only one" });
  await page.setViewportSize({ width: 320, height: 640 });
  await signIn(page, inject("adminKey"));
  const overview = page.getByRole("link", { name: "Overview", exact: true });
  await overview.waitFor({ state: "hidden" });
  await page.getByRole("link", { name: "All tenants" }).click();
  await page.getByLabel("Tenant", { exact: true }).fill(customer.tenant);
  await page.getByRole("button", { name: "Show this tenant" }).click();
  await page.getByRole("link", { name: "The only one" }).waitFor();
  expect(new URL(page.url()).searchParams.get("tenant")).toBe(customer.tenant);

  await page.getByText("Menu").click();
  await page.getByRole("link", { name: "Audit" }).click();
  await page.getByText(`in the tenant ${customer.tenant}`).waitFor();
  await page.getByText("Destination: created").waitFor();
  await page.getByRole("link", { name: customer.tenant }).click();
  await page.getByRole("link", { name: "Show all tenants" }).click();
  await page.getByRole("link", { name: "All tenants" }).waitFor();
});
