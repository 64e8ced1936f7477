/** JSON is on lines of its own, and what is long is folded until it is opened. */
import { expect } from "vitest";
import { test } from "./browser-test.ts";
import { newDestination } from "./steps.ts";

test("the JSON of an event is indented and folds, and is copied whole", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  await newDestination(customer, endpoint);
  const items = Array.from({ length: 200 }, (_, n) => ({ sku: `sku-${n}` }));
  const { id } = await customer.api.post<{ id: string }>("/v1/events", {
    type: "order.created",
    data: { order: 42, items },
  });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.goto(`/dashboard/events/${id}`);
  const body = page.getByRole("region", { name: "The request body", exact: true });
  expect(await body.getByText('"order": 42').isVisible()).toBe(true);
  expect(await body.getByText('"sku-199"').isVisible()).toBe(false);
  await body.getByRole("button", { name: "Copy" }).click();
  await body.getByRole("button").filter({ hasText: "Copied" }).waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  expect(JSON.parse(copied)).toMatchObject({ type: "order.created", data: { order: 42, items } });
  await body.getByText(/more lines$/).click();
  expect(await body.getByText('"sku-199"').isVisible()).toBe(true);
});
