/** Getting in, and not getting in. */
import { expect } from "vitest";
import { signIn } from "./sign-in.ts";
import { test } from "./story.ts";

test("says precisely what is wrong with a key, and lets the right one in", async ({ page, customer }) => {
  await page.goto("/dashboard");
  await page.getByLabel("API key").fill("not-a-key-at-all");
  await page.getByRole("button", { name: "Sign in" }).click();
  const fault = page.getByRole("alert");
  expect((await fault.textContent())?.trim()).toBe("That key is not valid.");
  expect(await page.getByLabel("API key").getAttribute("aria-invalid")).toBe("true");

  await signIn(page, customer.key);
  await page.getByRole("heading", { name: "Nothing is delivered yet." }).waitFor();
  expect(await page.getByText(customer.tenant).count()).toBe(1);
});

test("lets nobody in with a key that may not read", async ({ page, customer }) => {
  const { key } = await customer.api.post<{ key: string }>("/v1/keys", {
    name: "posts only",
    scopes: ["events:write"],
  });
  await page.goto("/dashboard");
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  expect((await page.getByRole("alert").textContent())?.trim()).toBe("That key lacks the scope read.");
});

test("is over when one signs out: a copy of the cookie opens nothing", async ({ signedIn: page }) => {
  const cookies = await page.context().cookies();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API key").waitFor();
  await page.context().addCookies(cookies);
  await page.goto("/dashboard");
  expect(await page.getByLabel("API key").isVisible()).toBe(true);
});

test("opens for a customer by a link, once", async ({ page, customer, browser }) => {
  const { url } = await customer.api.post<{ url: string }>("/v1/portal-links", { tenant: customer.tenant });
  await page.goto(url);
  await page.getByRole("button").click();
  await page.getByRole("heading", { name: "Nothing is delivered yet." }).waitFor();

  const another = await browser.newContext();
  const late = await another.newPage();
  await late.goto(url);
  await late.getByRole("button").click();
  await late.getByText("This link has been used.").waitFor();
  await another.close();
});
