/** Deliveries that were given up, and sending them again. */
import { expect } from "vitest";
import { test } from "./browser-test.ts";
import { mark, newDestination, postEvents } from "./steps.ts";

/** More than a replay at this rate moves to the backlog in its first step. */
const DEAD = 24;
const PER_MINUTE = "90";

test("a replay is started, watched, paused and resumed, and ends with everything delivered", async ({
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
  await letters.getByLabel("Initial rate (per minute)").first().fill(PER_MINUTE);
  await letters.getByRole("button", { name: "Replay dead letters" }).click();
  const notReloaded = await mark(page);
  const progress = letters.getByRole("progressbar");
  await progress.and(page.getByLabel(/^[1-9]\d* of 24 deliveries delivered/)).waitFor();
  expect(Number(await progress.getAttribute("value"))).toBeLessThan(DEAD);
  await notReloaded();

  await letters.getByRole("button", { name: "Pause replay" }).click();
  await page.getByText("Replay paused.").waitFor();
  await letters.getByRole("button", { name: "Resume replay" }).click();
  const stillNotReloaded = await mark(page);
  await letters.getByText(`${DEAD} of ${DEAD} deliveries delivered.`).waitFor();
  await letters.getByText("Completed", { exact: true }).waitFor();
  await stillNotReloaded();
  const accepted = endpoint.hits.filter(({ status }) => status === 200);
  expect(new Set(accepted.map(({ id }) => id)).size).toBe(DEAD);
});

test("one dead delivery is retried from its event's page", async ({ signedIn: page, customer, endpoint }) => {
  endpoint.reply = { status: 422 };
  await newDestination(customer, endpoint);
  const [event] = await postEvents(customer, 1);
  await page.goto(`/dashboard/events/${event}`);
  await page.getByText("Given up: the receiver rejected it permanently after 1 attempt.").waitFor();
  endpoint.reply = { status: 200 };
  await page.getByRole("button", { name: "Send again" }).click();
  await page.getByText(/It is sent again/).waitFor();
  await page.getByText("Sent again, and delivered at attempt 2").waitFor();
});
