/** What was given up, and how it is sent again. */
import { expect } from "vitest";
import { newDestination, postEvents } from "./destinations.ts";
import { mark } from "./live.ts";
import { test } from "./story.ts";

/** More than a replay at this pace sets to wait in its first step. */
const DEAD = 24;
const PER_MINUTE = "90";

test("a replay is begun, watched, paused, resumed, and ends with everything delivered", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  endpoint.reply = { status: 422 };
  const { path } = await newDestination(customer, endpoint);
  await postEvents(customer, DEAD);
  await page.goto(path);
  const letters = page.getByRole("region", { name: "Dead letters" });
  await letters.getByText(`${DEAD} deliveries were given up.`).waitFor();

  endpoint.reply = { status: 200 };
  await letters.getByLabel("A minute, to begin with").fill(PER_MINUTE);
  await letters.getByRole("button", { name: "Replay them" }).click();
  const unreloaded = await mark(page);
  const progress = letters.getByRole("progressbar");
  await progress.and(page.getByLabel(/^[1-9]\d* of 24 have ended/)).waitFor();
  expect(Number(await progress.getAttribute("value"))).toBeLessThan(DEAD);
  await unreloaded();

  await letters.getByRole("button", { name: "Pause replay" }).click();
  await page.getByText("The replay is paused.").waitFor();
  await letters.getByRole("button", { name: "Resume replay" }).click();
  const stillUnreloaded = await mark(page);
  await letters.getByText(`${DEAD} of ${DEAD} deliveries delivered.`).waitFor();
  await letters.getByText("Replayed", { exact: true }).waitFor();
  await stillUnreloaded();
  const taken = endpoint.hits.filter(({ status }) => status === 200);
  expect(new Set(taken.map(({ id }) => id)).size).toBe(DEAD);
});

test("one dead delivery is tried again from its event's page", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  endpoint.reply = { status: 422 };
  await newDestination(customer, endpoint);
  const [event] = await postEvents(customer, 1);
  await page.goto(`/dashboard/events/${event}`);
  await page.getByText("Given up: the receiver refused it for good after 1 attempt.").waitFor();
  endpoint.reply = { status: 200 };
  await page.getByRole("button", { name: "Try it again" }).click();
  await page.getByText(/It waits for its destination's door/).waitFor();
  await page.getByText(/Delivered at the first attempt/).waitFor();
});
