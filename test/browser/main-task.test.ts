/** The first steps of every user: creating a destination, and seeing a test event arrive there. */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { test } from "./browser-test.ts";
import { expectSecret, hookAt, tabTo } from "./steps.ts";

test("a destination is created, and a test event arrives, signed with the secret that was shown once", async ({
  signedIn: page,
  endpoint,
}) => {
  await page.getByRole("link", { name: "Use a form instead" }).click();
  await page.getByLabel("URL").fill(hookAt(endpoint));
  await page.getByLabel("Name", { exact: true }).fill("Billing");
  await page.getByRole("button", { name: "Create destination" }).click();
  const secret = await shownSecret(page);
  expectSecret(endpoint, secret);

  await page.getByRole("link", { name: "Go to the destination" }).click();
  expect(await page.content()).not.toContain(secret);
  await page.getByRole("link", { name: "Send a test event" }).click();
  await page.getByRole("button", { name: "Send test event" }).click();
  await page.getByRole("heading", { name: "The receiver accepted it: HTTP 200" }).waitFor();
  expect(endpoint.hits).toMatchObject([{ verified: true }]);
});

test("a rejected test event is shown with the response", async ({ signedIn: page, endpoint }) => {
  endpoint.reply = { status: 503 };
  await page.goto("/dashboard/destinations/new");
  await page.getByLabel("URL").fill(hookAt(endpoint));
  await page.getByRole("button", { name: "Create destination" }).click();
  await page.getByRole("link", { name: "Go to the destination" }).click();
  await page.getByRole("link", { name: "Send a test event" }).click();
  await page.getByRole("button", { name: "Send test event" }).click();
  await page.getByRole("heading", { name: "The receiver rejected it: HTTP 503" }).waitFor();
});

test("an invalid destination is not created: its faults are named, and the input stays", async ({
  signedIn: page,
  customer,
}) => {
  await page.goto("/dashboard/destinations/new");
  await page.getByLabel("URL").fill("ftp://files.example/in");
  await page.getByLabel("Event types").fill("order.*.paid");
  await page.getByRole("button", { name: "Create destination" }).click();
  await page.getByText(/^Event types, entry 1, is "order\.\*\.paid"; expected an event type/).waitFor();
  await page.getByText("URL is not an http(s) URL; expected https://host/path.").waitFor();
  await page.getByRole("alert").getByRole("link", { name: "URL" }).click();
  expect(await page.getByLabel("URL").getAttribute("aria-invalid")).toBe("true");
  expect(await page.getByLabel("Event types").inputValue()).toBe("order.*.paid");
  expect(await customer.api.get("/v1/destinations")).toMatchObject({ data: [] });
});

test("everything works with the keyboard alone, and the focus is always visible", async ({
  page,
  customer,
  endpoint,
}) => {
  await page.goto("/dashboard");
  // The field has the focus already.
  await page.keyboard.type(customer.key);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "No destinations yet" }).waitFor();

  await tabTo(page, "Skip to the content");
  await page.keyboard.press("Enter");
  await tabTo(page, "Use a form instead");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "New destination" }).waitFor();
  await tabTo(page, "URL");
  await page.keyboard.type(hookAt(endpoint));
  await tabTo(page, "Create destination");
  await page.keyboard.press("Space");
  expectSecret(endpoint, await shownSecret(page));
  await tabTo(page, "Go to the destination");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: hookAt(endpoint) }).waitFor();
  await tabTo(page, "Send a test event");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Send test event" }).waitFor();
  await tabTo(page, "Send test event");
  await page.keyboard.press("Space");
  await page.getByRole("heading", { name: "The receiver accepted it: HTTP 200" }).waitFor();
  expect(endpoint.hits).toMatchObject([{ verified: true }]);
});

async function shownSecret(page: Page): Promise<string> {
  const secret = await page.locator("#secret").textContent();
  expect(secret).toMatch(/^whsec_/);
  return secret ?? "";
}
