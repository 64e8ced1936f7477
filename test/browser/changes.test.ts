/** What an owner changes at a destination, and what a live page leaves alone meanwhile. */
import { expect } from "vitest";
import { expectSecret, newDestination, postEvents } from "./destinations.ts";
import { mark, refreshed } from "./live.ts";
import { test } from "./story.ts";

const AT_ONCE = "At once, at most (attempts)";

test("a limit is edited in place and holds; what is being typed outlives the page's refreshing", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  const { id, path } = await newDestination(customer, endpoint);
  await page.goto(path);
  const unreloaded = await mark(page);
  await page.getByLabel(AT_ONCE).fill("3");
  await page.getByText("Circuit breaker").click();
  await page.getByLabel("Stays open for (seconds)").fill("7");
  await refreshed(page);
  await refreshed(page);
  await unreloaded();
  expect(await page.getByLabel(AT_ONCE).inputValue()).toBe("3");
  expect(await page.getByLabel("Stays open for (seconds)").inputValue()).toBe("7");

  await page.getByRole("button", { name: "Save limits" }).click();
  await page.getByText("Saved. It holds from the next batch.").waitFor();
  expect(await page.getByLabel(AT_ONCE).inputValue()).toBe("3");
  expect(await customer.api.get(`/v1/destinations/${id}`)).toMatchObject({
    max_concurrency: 3,
    breaker: { cooldown_s: 7 },
  });
});

test("a limit that cannot be is refused with its range, and nothing is changed", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  const { id, path } = await newDestination(customer, endpoint);
  await page.goto(path);
  await page.getByLabel(AT_ONCE).fill("2.5");
  await page.getByRole("button", { name: "Save limits" }).click();
  expect(await page.getByRole("alert").textContent()).toContain(
    "max_concurrency is 2.5; expected a whole number from 1 to 1000.",
  );
  expect(await page.getByLabel(AT_ONCE).inputValue()).toBe("2.5");
  expect(await customer.api.get(`/v1/destinations/${id}`)).toMatchObject({ max_concurrency: 10 });
});

test("a pause holds what is posted, and resuming lets it go", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  const { path } = await newDestination(customer, endpoint);
  await page.goto(path);
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByText("Paused by hand.").waitFor();
  await postEvents(customer, 2);
  await page
    .getByText(/Waits because its destination is paused/)
    .nth(1)
    .waitFor();
  expect(endpoint.hits).toEqual([]);
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("cell", { name: "Delivered" }).nth(1).waitFor();
});

test("a new secret signs from then on, and is shown once", async ({ signedIn: page, customer, endpoint }) => {
  const { path } = await newDestination(customer, endpoint);
  await page.goto(path);
  await page.getByText("Rotate it").click();
  await page.getByRole("button", { name: "Make a new secret" }).click();
  const secret = (await page.locator("#secret").textContent()) ?? "";
  expect(secret).toMatch(/^whsec_/);
  expectSecret(endpoint, secret);
  await page.getByRole("link", { name: "Go to the destination" }).click();
  await page.getByText(/Two secrets sign at the moment/).waitFor();
  expect(await page.content()).not.toContain(secret);
  await page.getByRole("button", { name: "Send a test event" }).click();
  await page.getByRole("heading", { name: "The receiver took it: HTTP 200." }).waitFor();
  expect(endpoint.hits).toMatchObject([{ verified: true }]);
});
