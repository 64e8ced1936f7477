/** Signing in and out, and what is refused. */
import { expect } from "vitest";
import { test } from "./browser-test.ts";
import { signIn } from "./steps.ts";

test("an invalid key is refused with the reason, and a valid one signs in", async ({ page, customer }) => {
  await page.goto("/dashboard");
  await page.getByLabel("API key").fill("not-a-key-at-all");
  await page.getByRole("button", { name: "Sign in" }).click();
  const fault = page.getByRole("alert");
  expect((await fault.textContent())?.trim()).toBe(
    "This API key is not valid. Check that you copied all of it.",
  );
  expect(await page.getByLabel("API key").getAttribute("aria-invalid")).toBe("true");

  await signIn(page, customer.key);
  await page.getByRole("heading", { name: "No destinations yet" }).waitFor();
  expect(await page.getByText(customer.tenant).count()).toBe(1);
});

test("a key without the scope read is refused", async ({ page, customer }) => {
  const { key } = await customer.api.post<{ key: string }>("/v1/keys", {
    name: "posts only",
    scopes: ["events:write"],
  });
  await page.goto("/dashboard");
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  expect((await page.getByRole("alert").textContent())?.trim()).toBe(
    "This API key lacks the scope read. Use a key that has it.",
  );
});

test("signing out ends the session: a copy of its cookie is worthless", async ({ signedIn: page }) => {
  const cookies = await page.context().cookies();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API key").waitFor();
  await page.context().addCookies(cookies);
  await page.goto("/dashboard");
  expect(await page.getByLabel("API key").isVisible()).toBe(true);
});
