/** Finding things: the search field of every page, the log of all deliveries, and its live tail. */
import { expect, vi } from "vitest";
import { PAGE_TIMEOUT_MS, test } from "./browser-test.ts";
import { mark, newDestination, postEvents, tabTo } from "./steps.ts";

test("an id leads straight to its page, and words lead to the events that contain them", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  const { id, path } = await newDestination(customer, endpoint);
  const [event] = await postEvents(customer, 1);
  const field = page.getByRole("searchbox", { name: "Search" });
  await field.fill(` ${event} `);
  await field.press("Enter");
  await page.waitForURL(`**/dashboard/events/${event}`);
  await field.fill(id);
  await field.press("Enter");
  await page.waitForURL(`**${path}`);

  await customer.api.post("/v1/events", { type: "invoice.paid", data: { invoice: "inv_4711" } });
  await field.fill("INV_4711");
  await field.press("Enter");
  const results = page.getByRole("region", { name: "Results" });
  await results.getByText('{"invoice":"inv_4711"}').waitFor();
  expect(await field.inputValue()).toBe("INV_4711");
  await results.getByRole("link", { name: "invoice.paid" }).click();
  await page.getByRole("heading", { name: "invoice.paid" }).waitFor();

  await field.fill("nothing like it");
  await field.press("Enter");
  await page.getByText("Nothing more was found.").waitFor();
  await page.getByRole("heading", { name: "What can be searched" }).waitFor();
  await field.fill("status:soon");
  await field.press("Enter");
  await page.getByRole("alert").getByText("The search has a status that").waitFor();
});

test("the log of all deliveries is filtered, and follows new ones and their changes", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  await newDestination(customer, endpoint);
  const [first] = await postEvents(customer, 1);
  await page.getByRole("link", { name: "Deliveries", exact: true }).click();
  const log = page.getByRole("region", { name: "Log" });
  await log.getByText(first ?? "").waitFor();

  await page.getByLabel("Event type").fill("user.*");
  await page.getByRole("button", { name: "Filter" }).click();
  await log.getByText("No deliveries match.").waitFor();
  await page.getByRole("link", { name: "Clear" }).click();

  await log.getByRole("link", { name: "Follow live" }).click();
  await log.getByText("Following: new deliveries appear at the top.").waitFor();
  const notReloaded = await mark(page);
  endpoint.reply = { status: 422 };
  const [second] = await postEvents(customer, 1);
  const row = log.getByRole("row").filter({ hasText: second ?? "" });
  await row.getByText("Dead", { exact: true }).waitFor();
  expect(await log.getByRole("row").nth(1).textContent()).toContain(second);
  await notReloaded();
  await log.getByRole("link", { name: "Stop following" }).click();
  await log.getByRole("link", { name: "Follow live" }).waitFor();
});

test("selected deliveries, or all that the filters find, are sent again with the keyboard alone", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  endpoint.reply = { status: 422 };
  await newDestination(customer, endpoint);
  await postEvents(customer, 3);
  await page.getByRole("link", { name: "Deliveries", exact: true }).click();
  const log = page.getByRole("region", { name: "Log" });
  const dead = async () => {
    await page.reload();
    return log.getByText("Dead", { exact: true }).count();
  };
  await vi.waitFor(async () => expect(await dead()).toBe(3), PAGE_TIMEOUT_MS);
  endpoint.reply = { status: 200 };
  await log.getByRole("checkbox", { name: "Select order.created" }).first().check();
  await tabTo(page, "Send selected again");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "1 sent again" }).waitFor();
  await page.getByRole("link", { name: "Back to the log" }).click();
  await log.getByText("Delivered").waitFor();

  await page.getByLabel("State").selectOption("dead");
  await page.getByRole("button", { name: "Filter" }).click();
  await log.getByRole("link", { name: "Send all again" }).click();
  await page.getByText("The log finds 2 deliveries.").waitFor();
  await tabTo(page, "Send them again");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "2 sent again" }).waitFor();
  await vi.waitFor(() => expect(endpoint.hits.length).toBe(6), PAGE_TIMEOUT_MS);

  await page.goto("/dashboard/deliveries?state=delivered");
  await log.getByLabel("Select all").check();
  expect(await log.getByRole("checkbox", { name: "Select order.created", checked: true }).count()).toBe(3);
  await log.getByRole("button", { name: "Cancel selected" }).click();
  await page.getByText("3: The delivery has ended: it is delivered.").waitFor();
});
