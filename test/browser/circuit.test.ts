/** A short outage as the owner of a destination sees it, on live pages that are not reloaded. */
import { expect } from "vitest";
import { test } from "./browser-test.ts";
import { mark, newDestination, postEvents, status, statusPanel } from "./steps.ts";

const EVENTS = 8;

const fastRecovery = {
  retry: { schedule: [1, 1, 2], jitter: "none", max_attempts: 50 },
  breaker: { min_attempts: 3, cooldown_s: 6, max_cooldown_s: 6 },
};

test("a failing destination opens its circuit and recovers while its page is open", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  endpoint.reply = { status: 500 };
  const { path } = await newDestination(customer, endpoint, fastRecovery);
  await page.goto(path);
  const notReloaded = await mark(page);
  const [event] = await postEvents(customer, EVENTS);

  await status(page, "Circuit open").waitFor();
  expect(await statusPanel(page).textContent()).toMatch(/Circuit open, next probe in \d+ s: .*failed/);
  const history = page.getByRole("region", { name: "Status history" });
  await history.getByText("Circuit opened").first().waitFor();

  // The event's own page answers why it is waiting.
  const eventPage = await page.context().newPage();
  await eventPage.goto(`/dashboard/events/${event}`);
  await eventPage.getByText(/Waiting .* circuit is open|Waiting while one attempt probes/).waitFor();
  const eventNotReloaded = await mark(eventPage);

  endpoint.reply = { status: 200 };
  await history.getByText("Circuit closed").first().waitFor();
  await page
    .getByRole("cell", { name: "Delivered" })
    .nth(EVENTS - 1)
    .waitFor();
  await eventPage.getByText(/Delivered at attempt \d+/).waitFor();
  await notReloaded();
  await eventNotReloaded();
  expect(new Set(endpoint.hits.filter(({ status }) => status === 200).map(({ id }) => id)).size).toBe(EVENTS);
});

test("the overview shows which destination needs attention, and why", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  await newDestination(customer, endpoint, {
    ...fastRecovery,
    breaker: { ...fastRecovery.breaker, cooldown_s: 60, max_cooldown_s: 60 },
  });
  await page.goto("/dashboard");
  await page.getByRole("heading", { name: "No destination needs attention" }).waitFor();
  const notReloaded = await mark(page);
  endpoint.reply = { status: 500 };
  await postEvents(customer, EVENTS);
  await page.getByRole("heading", { name: "1 of 1 destination needs attention" }).waitFor();
  await page.getByRole("row", { name: /Billing.*Circuit open/ }).waitFor();
  await notReloaded();
});
