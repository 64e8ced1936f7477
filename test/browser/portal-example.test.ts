/** The page of examples/portal-frame over http on one machine, as a developer tries it. */
import { expect, inject } from "vitest";
import { PAGE_TIMEOUT_MS, test } from "./browser-test.ts";

test("the example's page shows the portal of its customer in its full height", async ({ browser }) => {
  const context = await browser.newContext();
  context.setDefaultTimeout(PAGE_TIMEOUT_MS);
  const page = await context.newPage();
  await page.goto(inject("exampleUrl"));
  const frame = page.frameLocator("#webhooks");
  await frame.getByRole("link", { name: "Add endpoint" }).click();
  await frame.getByLabel("Address (URL)").fill("https://203.0.113.1/hook");
  await frame.getByRole("button", { name: "Add endpoint" }).click();
  await frame.locator("#secret").waitFor();
  const frameElement = page.locator("#webhooks");
  await expect.poll(async () => (await frameElement.boundingBox())?.height).toBeGreaterThan(200);
  expect(await page.content()).not.toContain(inject("adminKey"));
  await context.close();
});
