/** Changing a destination on its live page, which does not overwrite what is being typed. */
import { expect } from "vitest";
import { test } from "./browser-test.ts";
import { expectSecret, mark, newDestination, postEvents, refreshed } from "./steps.ts";

const CONCURRENCY = "Concurrency";
const COOL_DOWN = "Cool-down (seconds)";

test("a limit is edited in place and applies, and unsaved input survives a refresh of the page", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  const { id, path } = await newDestination(customer, endpoint);
  await page.goto(path);
  const notReloaded = await mark(page);
  await page.getByLabel(CONCURRENCY).fill("3");
  await page.getByText("Circuit breaker").click();
  await page.getByLabel(COOL_DOWN, { exact: true }).fill("7");
  await refreshed(page);
  await refreshed(page);
  await notReloaded();
  expect(await page.getByLabel(CONCURRENCY).inputValue()).toBe("3");
  expect(await page.getByLabel(COOL_DOWN, { exact: true }).inputValue()).toBe("7");

  await page.getByRole("button", { name: "Save limits" }).click();
  await page.getByText("Limits saved. They apply from the next batch.").waitFor();
  expect(await page.getByLabel(CONCURRENCY).inputValue()).toBe("3");
  expect(await customer.api.get(`/v1/destinations/${id}`)).toMatchObject({
    max_concurrency: 3,
    breaker: { cooldown_s: 7 },
  });
});

test("an invalid limit is refused with its range, and nothing is changed", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  const { id, path } = await newDestination(customer, endpoint);
  await page.goto(path);
  await page.getByLabel(CONCURRENCY).fill("2.5");
  await page.getByRole("button", { name: "Save limits" }).click();
  await page.getByText("Concurrency is 2.5; expected a whole number from 1 to 1000.").waitFor();
  // The field at fault is in sight, below the fold of the page, and has the focus.
  const field = await page.getByLabel(CONCURRENCY).elementHandle();
  await page.waitForFunction((input) => {
    const { top, bottom } = input?.getBoundingClientRect() ?? { top: 0, bottom: 0 };
    return input === document.activeElement && top > 0 && bottom < innerHeight;
  }, field);
  await page.getByRole("alert").getByRole("link", { name: "Concurrency" }).click();
  expect(await page.getByLabel(CONCURRENCY).inputValue()).toBe("2.5");
  expect(await customer.api.get(`/v1/destinations/${id}`)).toMatchObject({ max_concurrency: 10 });
});

test("a limit is not saved over what somebody else has changed meanwhile, until the form is sent once more", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  const { id, path } = await newDestination(customer, endpoint);
  await page.goto(path);
  await page.getByLabel(CONCURRENCY).fill("3");
  const headers = { authorization: `Bearer ${customer.key}` };
  const data = { max_concurrency: 7, rate_per_second: 5 };
  expect((await page.request.patch(`/v1/destinations/${id}`, { headers, data })).status()).toBe(200);
  await refreshed(page);
  await refreshed(page);
  await page.getByRole("button", { name: "Save limits" }).click();
  await page.getByText("The destination was changed after you opened this form.").waitFor();
  expect(await customer.api.get(`/v1/destinations/${id}`)).toMatchObject({ max_concurrency: 7 });
  await page.getByRole("button", { name: "Save limits" }).click();
  await page.getByText("Limits saved. They apply from the next batch.").waitFor();
  expect(await customer.api.get(`/v1/destinations/${id}`)).toMatchObject({
    max_concurrency: 3,
    rate_per_second: 5,
  });
});

test("a pause keeps new events in the backlog, and resuming sends them", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  const { path } = await newDestination(customer, endpoint);
  await page.goto(path);
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByText("Paused manually.").waitFor();
  await postEvents(customer, 2);
  await page
    .getByText(/Waiting because the destination is paused/)
    .nth(1)
    .waitFor();
  expect(endpoint.hits).toEqual([]);
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("cell", { name: "Delivered" }).nth(1).waitFor();
});

test("a new secret signs from then on, and is shown once", async ({ signedIn: page, customer, endpoint }) => {
  const { path } = await newDestination(customer, endpoint);
  await page.goto(path);
  await page.getByText("Rotate secret").click();
  await page.getByRole("button", { name: "Create new secret" }).click();
  const secret = (await page.locator("#secret").textContent()) ?? "";
  expect(secret).toMatch(/^whsec_/);
  expectSecret(endpoint, secret);
  await page.getByRole("link", { name: "Go to the destination" }).click();
  await page.getByText(/Two secrets are in use/).waitFor();
  expect(await page.content()).not.toContain(secret);
  await page.getByRole("link", { name: "Send a test event" }).click();
  await page.getByRole("button", { name: "Send test event" }).click();
  await page.getByRole("heading", { name: "The receiver accepted it: HTTP 200" }).waitFor();
  expect(endpoint.hits).toMatchObject([{ verified: true }]);
});
