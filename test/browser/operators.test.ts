/** An operator's actions besides watching: changing a destination, creating keys, and selecting one tenant. */
import { text } from "node:stream/consumers";
import { expect, inject } from "vitest";
import { apiClient } from "../../tools/stack.ts";
import { test } from "./browser-test.ts";
import { newDestination, postEvents, signIn } from "./steps.ts";

test("a destination is changed by its form after a dry run on past events, and deleted after a confirmation", async ({
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

test("the form of a new destination has only the fields that its kind needs", async ({ signedIn: page }) => {
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

test("a tenant's portal is set, its configuration exported, tried and imported, and it is deleted by typing its name", async ({
  page,
  customer,
  endpoint,
}) => {
  const { id } = await newDestination(customer, endpoint);
  const admin = apiClient(inject("url"), inject("adminKey"));
  await signIn(page, inject("adminKey"));
  await page.goto(`/dashboard/settings?tenant=${customer.tenant}`);
  await page.getByLabel("Rotate signing secrets").uncheck();
  await page.getByLabel("Endpoints at most").fill("2");
  await page.getByLabel("Accent colour").fill("red");
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByText('Accent colour is "red"; expected a colour as #rrggbb').waitFor();
  await page.getByRole("alert").getByRole("link", { name: "Accent colour" }).click();
  expect(await page.getByLabel("Rotate signing secrets").isChecked()).toBe(false);
  await page.getByLabel("Accent colour").fill("#aa3366");
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByText("Settings saved.").waitFor();
  expect(await admin.get(`/v1/tenants/${customer.tenant}`)).toMatchObject({
    portal: { may_rotate: false, max_endpoints: 2 },
    branding: { accent: "#aa3366" },
  });

  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export" }).click(),
  ]);
  expect(file.suggestedFilename()).toBe(`breakwater-${customer.tenant}.json`);
  await page.getByRole("link", { name: "Import" }).click();
  const document = JSON.parse(await text(await file.createReadStream()));
  document.destinations[0].description = "Renamed";
  const buffer = Buffer.from(JSON.stringify(document));
  const input = page.getByLabel("Or a file, which takes precedence");
  await input.setInputFiles({ name: "edited.json", mimeType: "application/json", buffer });
  await page.getByRole("button", { name: "See what it would do" }).click();
  await page.getByText("It would do this: create 0 destinations, change 1, leave 0 as they are.").waitFor();
  await page.getByRole("button", { name: "Import", exact: true }).click();
  await page.getByRole("heading", { name: "Configuration imported" }).waitFor();
  expect(await customer.api.get(`/v1/destinations/${id}`)).toMatchObject({ description: "Renamed" });

  await page.getByRole("link", { name: `Settings of ${customer.tenant}` }).click();
  await page.getByRole("link", { name: "Delete the tenant" }).click();
  await page.getByLabel("Name of the tenant").fill("another");
  await page.getByRole("button", { name: "Delete the tenant" }).click();
  await page.getByText("Name of the tenant is not that of the tenant to delete").waitFor();
  await page.getByLabel("Name of the tenant").fill(customer.tenant);
  await page.getByRole("button", { name: "Delete the tenant" }).click();
  await page.getByRole("heading", { name: `Erasure of ${customer.tenant}` }).waitFor();
});

test("a portal link with its own rules is created with the keyboard alone and without JavaScript", async ({
  browser,
  customer,
}) => {
  const context = await browser.newContext({ baseURL: inject("url"), javaScriptEnabled: false });
  const page = await context.newPage();
  await signIn(page, customer.key);
  await page.goto("/dashboard/portal-links");
  await page.getByLabel("Send test events").focus();
  await page.keyboard.press("Space");
  await page.getByLabel("Language").focus();
  await page.keyboard.type("German");
  await page.getByLabel("Page to return to").focus();
  await page.keyboard.type("https://app.example.com/");
  await page.keyboard.press("Enter");
  const link = new URL((await page.locator("#link").textContent()) ?? "");
  await page.goto(link.pathname + link.search);
  await page.getByRole("button", { name: "Öffnen" }).click();
  await page.getByRole("heading", { name: "Noch keine Endpunkte" }).waitFor();
  await context.close();
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
  // Another page: the one that is open may load itself again at this moment, because its session is over.
  const later = await other.newPage();
  await later.goto("/dashboard");
  await later.getByLabel("API key").waitFor();
  await other.close();
});

test("a tenant is chosen, shown on all pages and left again, on the narrowest screen", async ({
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
