/** The retry simulator: a policy is simulated, and applied to a destination. */
import { expect } from "vitest";
import { test } from "./browser-test.ts";
import { newDestination } from "./steps.ts";

test("a policy is simulated before it is applied, and an invalid one is refused with what was expected", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  const { id } = await newDestination(customer, endpoint);
  const stored = () => customer.api.get<{ retry: unknown }>(`/v1/destinations/${id}`);
  const before = await stored();
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Simulator" }).click();
  await page.getByLabel("With the limits of").selectOption({ label: "Billing" });
  await page.getByRole("combobox", { name: /^Preset/ }).selectOption("gethook");
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.getByRole("heading", { name: "If every attempt fails" }).waitFor();
  await page.getByText('"preset": "gethook"').waitFor();
  expect((await stored()).retry).toEqual(before.retry);

  await page.getByLabel("Maximum attempts").fill("many");
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.getByText(/Maximum attempts is "many"; expected/).waitFor();
  expect(await page.getByLabel("Maximum attempts").inputValue()).toBe("many");

  await page.getByLabel("Maximum attempts").fill("4");
  await page.getByRole("button", { name: "Apply to Billing" }).click();
  await page.getByText("Retry policy saved. It applies from the next attempt.").waitFor();
  expect((await stored()).retry).toMatchObject({ preset: "gethook", max_attempts: 4 });
});
