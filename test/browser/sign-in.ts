/** Signing in, as everybody does it. */
import type { Page } from "playwright-core";

export async function signIn(page: Page, key: string): Promise<void> {
  await page.goto("/dashboard");
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
}
