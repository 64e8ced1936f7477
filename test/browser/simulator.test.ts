/** A retry policy is looked at, tried on an outage, and given to a destination. */
import { expect } from "vitest";
import { newDestination } from "./destinations.ts";
import { test } from "./story.ts";

test("a policy is tried before it is applied, and what is invalid is refused with what was expected", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  const { id } = await newDestination(customer, endpoint);
  const stored = () => customer.api.get<{ retry: unknown }>(`/v1/destinations/${id}`);
  const before = await stored();
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Policy lab" }).click();
  await page.getByLabel("With the limits of").selectOption({ label: "Billing" });
  await page.getByRole("combobox", { name: /^Preset/ }).selectOption("gethook");
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.getByRole("heading", { name: "If every attempt fails" }).waitFor();
  await page.getByText('"preset": "gethook"').waitFor();
  expect((await stored()).retry).toEqual(before.retry);

  await page.getByLabel("Attempts, at most").fill("many");
  await page.getByRole("button", { name: "Simulate" }).click();
  await page
    .getByRole("alert")
    .getByText(/max_attempts is "many"; expected/)
    .waitFor();
  expect(await page.getByLabel("Attempts, at most").inputValue()).toBe("many");

  await page.getByLabel("Attempts, at most").fill("4");
  await page.getByRole("button", { name: "Apply to Billing" }).click();
  await page.getByText("Saved. It holds from the next attempt.").waitFor();
  expect((await stored()).retry).toMatchObject({ preset: "gethook", max_attempts: 4 });
});
