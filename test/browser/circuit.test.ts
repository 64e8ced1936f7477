/** A receiver's bad minute, as its owner sees it: without touching anything, without loading anything anew. */
import { expect } from "vitest";
import { newDestination, postEvents } from "./destinations.ts";
import { door, doorPanel, mark } from "./live.ts";
import { test } from "./story.ts";

const EVENTS = 8;

const soon = {
  retry: { schedule: [1, 1, 2], jitter: "none", max_attempts: 50 },
  breaker: { min_attempts: 3, cooldown_s: 6, max_cooldown_s: 6 },
};

test("a failing destination opens its circuit and recovers before one's eyes", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  endpoint.reply = { status: 500 };
  const { path } = await newDestination(customer, endpoint, soon);
  await page.goto(path);
  const unreloaded = await mark(page);
  const [event] = await postEvents(customer, EVENTS);

  await door(page, "Circuit open").waitFor();
  expect(await doorPanel(page).textContent()).toMatch(/Open for probing in \d+ s: .*failed/);
  const history = page.getByRole("region", { name: "What happened to the door" });
  await history.getByText("Circuit opened").first().waitFor();

  // The question that this dashboard is there for, at the event itself.
  const asking = await page.context().newPage();
  await asking.goto(`/dashboard/events/${event}`);
  await asking.getByText(/Waits .* circuit is open|Waits while one attempt is testing/).waitFor();
  const askingUnreloaded = await mark(asking);

  endpoint.reply = { status: 200 };
  await history.getByText("Circuit closed").first().waitFor();
  await page
    .getByRole("cell", { name: "Delivered" })
    .nth(EVENTS - 1)
    .waitFor();
  await asking.getByText(/Delivered at attempt \d+/).waitFor();
  await unreloaded();
  await askingUnreloaded();
  expect(new Set(endpoint.hits.filter(({ status }) => status === 200).map(({ id }) => id)).size).toBe(EVENTS);
});

test("the overview says which destination needs attention, and why", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  await newDestination(customer, endpoint, {
    ...soon,
    breaker: { ...soon.breaker, cooldown_s: 60, max_cooldown_s: 60 },
  });
  await page.goto("/dashboard");
  await page.getByRole("heading", { name: "The door is open." }).waitFor();
  const unreloaded = await mark(page);
  endpoint.reply = { status: 500 };
  await postEvents(customer, EVENTS);
  await page.getByRole("heading", { name: "1 of 1 destination needs attention." }).waitFor();
  await page.getByRole("row", { name: /Billing.*Circuit open/ }).waitFor();
  await unreloaded();
});
