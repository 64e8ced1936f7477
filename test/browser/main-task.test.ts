/** The first things that anybody does here: name an address, and see something arrive there. */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { expectSecret, hookAt } from "./destinations.ts";
import { test } from "./story.ts";

test("a destination is created, and a test event arrives, signed with the secret that was shown once", async ({
  signedIn: page,
  endpoint,
}) => {
  await page.getByRole("link", { name: "Or fill in a form" }).click();
  await page.getByLabel("URL").fill(hookAt(endpoint));
  await page.getByLabel("Name", { exact: true }).fill("Billing");
  await page.getByRole("button", { name: "Create destination" }).click();
  const secret = await shownSecret(page);
  expectSecret(endpoint, secret);

  await page.getByRole("link", { name: "Go to the destination" }).click();
  expect(await page.content()).not.toContain(secret);
  await page.getByRole("button", { name: "Send a test event" }).click();
  await page.getByRole("heading", { name: "The receiver took it: HTTP 200." }).waitFor();
  expect(endpoint.hits).toMatchObject([{ verified: true }]);
});

test("a test event that is refused is told of with the answer", async ({ signedIn: page, endpoint }) => {
  endpoint.reply = { status: 503 };
  await page.goto("/dashboard/destinations/new");
  await page.getByLabel("URL").fill(hookAt(endpoint));
  await page.getByRole("button", { name: "Create destination" }).click();
  await page.getByRole("link", { name: "Go to the destination" }).click();
  await page.getByRole("button", { name: "Send a test event" }).click();
  await page.getByRole("heading", { name: "The receiver refused it: HTTP 503." }).waitFor();
});

test("a destination with faults is not created: they are named, and what was typed is still there", async ({
  signedIn: page,
  customer,
}) => {
  await page.goto("/dashboard/destinations/new");
  await page.getByLabel("URL").fill("ftp://files.example/in");
  await page.getByLabel("Event types").fill("order.*.paid");
  await page.getByRole("button", { name: "Create destination" }).click();
  const faults = await page.getByRole("alert").getByRole("listitem").allTextContents();
  expect(faults.toSorted()).toEqual([
    expect.stringMatching(/^event_types\[0\] is "order\.\*\.paid"; expected an event type/),
    "url is not an http(s) URL; expected https://host/path.",
  ]);
  expect(await page.getByLabel("Event types").inputValue()).toBe("order.*.paid");
  expect(await customer.api.get("/v1/destinations")).toMatchObject({ data: [] });
});

test("all of it is done with the keyboard alone, and one always sees where one is", async ({
  page,
  customer,
  endpoint,
}) => {
  await page.goto("/dashboard");
  // The field is where one starts: it has the focus already.
  await page.keyboard.type(customer.key);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Nothing is delivered yet." }).waitFor();

  await tabTo(page, "Skip to the content");
  await page.keyboard.press("Enter");
  await tabTo(page, "Or fill in a form");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "New destination" }).waitFor();
  await tabTo(page, "URL");
  await page.keyboard.type(hookAt(endpoint));
  await tabTo(page, "Create destination");
  await page.keyboard.press("Space");
  expectSecret(endpoint, await shownSecret(page));
  await tabTo(page, "Go to the destination");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: hookAt(endpoint) }).waitFor();
  await tabTo(page, "Send a test event");
  await page.keyboard.press("Space");
  await page.getByRole("heading", { name: "The receiver took it: HTTP 200." }).waitFor();
  expect(endpoint.hits).toMatchObject([{ verified: true }]);
});

async function shownSecret(page: Page): Promise<string> {
  const secret = await page.locator("#secret").textContent();
  expect(secret).toMatch(/^whsec_/);
  return secret ?? "";
}

const MOST_STOPS = 60;

/** Goes on with Tab until what is so called has the focus; every stop on the way must be seen as such. */
async function tabTo(page: Page, name: string): Promise<void> {
  // What is seen is the style sheet's doing, which may come after what it is for.
  await page.waitForLoadState("load");
  const passed: string[] = [];
  while (passed.length < MOST_STOPS) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => {
      const at = document.activeElement as HTMLElement | null;
      const label = (at as HTMLInputElement | null)?.labels?.[0]?.firstChild;
      const { outlineStyle, outlineWidth } = getComputedStyle(at ?? document.body);
      const isSeen = outlineStyle !== "none" && Number.parseFloat(outlineWidth) >= 2;
      return { name: (label ?? at)?.textContent?.trim() ?? "", isSeen };
    });
    if (!stop.isSeen) throw new Error(`The focus on "${stop.name}" is not to be seen`);
    if (stop.name === name) return;
    passed.push(stop.name);
  }
  throw new Error(`Tab does not lead to "${name}", only to: ${passed.join(", ")}`);
}
