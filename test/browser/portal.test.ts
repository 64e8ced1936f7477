/**
 * The portal as the sender's customer uses it: the whole path, with the keyboard alone, and by links that are not
 * valid.
 */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { until } from "../scenario/until.ts";
import { type Customer, newCustomer, test } from "./browser-test.ts";
import { expectSecret, hookAt, newDestination, postEvents, tabTo } from "./steps.ts";

test("a customer adds an endpoint, tests it, sees a delivery fail, repairs the server and sends it again", async ({
  page,
  customer,
  endpoint,
}) => {
  await visit(page, customer);
  await page.getByRole("heading", { name: "No endpoints yet" }).waitFor();
  await page.getByRole("link", { name: "Add endpoint" }).click();
  await page.getByLabel("Address (URL)").fill("ftp://files.example/in");
  expect(await page.getByLabel("Name").isVisible()).toBe(false);
  await page.getByText("More", { exact: true }).click();
  await page.getByLabel("Name").fill("Shop");
  await page.getByRole("button", { name: "Add endpoint" }).click();
  // The browser accepts any URL; the field shows the fault, and the input stays.
  await page.getByText("Enter a public address that begins with https://").waitFor();
  expect(await page.getByLabel("Address (URL)").getAttribute("aria-invalid")).toBe("true");
  await page.locator("#f-url:focus").waitFor();
  // A field with input keeps its fold open.
  expect(await page.getByLabel("Name").isVisible()).toBe(true);
  expect(await page.getByLabel("Name").inputValue()).toBe("Shop");
  await page.getByLabel("Address (URL)").fill(hookAt(endpoint));
  await page.getByRole("radio", { name: "Only those chosen below" }).check();
  await page.getByLabel("Other types, or prefixes").fill("order.*");
  await page.getByRole("button", { name: "Add endpoint" }).click();
  const secret = (await page.locator("#secret").textContent()) ?? "";
  expect(secret).toMatch(/^whsec_/);
  expectSecret(endpoint, secret);
  await page.getByRole("link", { name: "Go to the endpoint" }).click();
  expect(await page.content()).not.toContain(secret);

  await page.getByRole("link", { name: "Send a test event" }).click();
  await page.getByRole("button", { name: "Send test event" }).click();
  await page.getByRole("heading", { name: "Your server accepted it: HTTP 200" }).waitFor();
  expect(endpoint.hits).toMatchObject([{ verified: true }]);
  await page.getByRole("link", { name: "Back to the endpoint" }).first().click();

  endpoint.reply = { status: 400, body: "<b>unknown order</b>" };
  await postEvents(customer, 1);
  // The page shows it without a reload.
  const row = page.getByRole("row", { name: /order\.created/ });
  await row.getByText("Given up", { exact: true }).waitFor();
  await row.getByRole("link", { name: "order.created" }).click();
  await page.getByText("Your server rejected it permanently").waitFor();
  await page.locator("summary", { hasText: "Answer" }).click();
  await page.getByText("<b>unknown order</b>").waitFor();
  await page.locator("summary", { hasText: "Request" }).click();
  await page.getByText("webhook-attempt: 1").waitFor();

  endpoint.reply = { status: 200 };
  await page.getByRole("button", { name: "Send again" }).click();
  await page.getByText("It is sent again as soon as").waitFor();
  await page
    .getByRole("region", { name: "State", exact: true })
    .getByText("Delivered", { exact: true })
    .waitFor();
  expect(endpoint.hits.at(-1)).toMatchObject({ verified: true });
});

test("a customer sets the address for notices, sees why an address is invalid, and turns notices off", async ({
  page,
  customer,
  endpoint,
}) => {
  const { id } = await newDestination(customer, endpoint);
  await visit(page, customer);
  await page.goto(`/portal/endpoints/${id}`);
  await page.getByRole("link", { name: "Notices" }).click();
  await page.getByLabel("Send notices by").selectOption({ label: "Slack" });
  const address = page.getByLabel("Address");
  await address.fill("our channel");
  await page.getByLabel("the endpoint takes events again").uncheck();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Enter a public URL that begins with https://").waitFor();
  expect(await address.getAttribute("aria-invalid")).toBe("true");
  expect(await page.getByLabel("the endpoint takes events again").isChecked()).toBe(false);
  await address.fill("https://chat.example.com/hooks/a-secret-path");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved. It applies to the next requests.").waitFor();
  await page.getByRole("link", { name: "Notices" }).click();
  await page.getByText("Currently https://chat.example.com/…").waitFor();
  expect(await page.content()).not.toContain("a-secret-path");
  expect(await page.getByLabel("the endpoint takes events again").isChecked()).toBe(false);
  await page.getByRole("button", { name: "Stop notices" }).click();
  await page.getByText("Saved. It applies to the next requests.").waitFor();
  await page.getByRole("link", { name: "Notices" }).click();
  await page.getByText("A URL is not shown again.").waitFor();
  expect(await page.getByRole("button", { name: "Stop notices" }).count()).toBe(0);
});

test("a customer starts from a ready template, corrects it, previews it on an event and saves it, and its request arrives", async ({
  page,
  customer,
  endpoint,
}) => {
  const { id } = await newDestination(customer, endpoint);
  await postEvents(customer, 1);
  await visit(page, customer);
  await page.goto(`/portal/endpoints/${id}`);
  await page.getByRole("link", { name: "Transformation" }).click();
  await page.getByLabel("Start from").selectOption({ label: "Plain text" });
  await page.getByRole("button", { name: "Fill in" }).click();
  const body = page.getByLabel("Body");
  expect(await body.inputValue()).toContain("{{ type }} {{ timestamp }}");
  await body.fill("Order\n{{ data.order | nosuch }}");
  await page.getByRole("button", { name: "Try it" }).click();
  await page.getByText("undefined filter: nosuch").waitFor();
  await page.locator("#f-body:focus").waitFor();
  await body.fill("Order\n{{ data.order | plus: 7 }}");
  await page.getByRole("button", { name: "Try it" }).click();
  await page.getByRole("region", { name: "with it" }).getByText("Order\n7").waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved. It applies to events that are accepted from now on").waitFor();
  await postEvents(customer, 1);
  await until(() => endpoint.hits.at(-1)?.body === "Order\n7", {
    otherwise: () => `the endpoint got ${endpoint.hits.at(-1)?.body}`,
  });
});

test("several deliveries are selected and sent again, and one click selects all", async ({
  page,
  customer,
  endpoint,
}) => {
  endpoint.reply = { status: 400 };
  const { id, secret } = await customer.api.post<{ id: string; secret: string }>("/v1/destinations", {
    url: hookAt(endpoint),
  });
  expectSecret(endpoint, secret);
  await postEvents(customer, 3);
  await visit(page, customer);
  await page.goto(`/portal/endpoints/${id}?state=dead`);
  await until(async () => (await page.getByRole("checkbox", { name: /^Select order/ }).count()) === 3, {
    otherwise: () => "not all are given up",
  });
  endpoint.reply = { status: 200 };
  await page.getByLabel("Select all on this page").check();
  expect(await page.getByRole("checkbox", { name: /^Select order/, checked: true }).count()).toBe(3);
  await page.getByRole("button", { name: "Send selected again" }).click();
  await page.getByText("Sending 3 of 3 again.").waitFor();
});

test("a filter is tried on past events without JavaScript, and the form of the signature is chosen", async ({
  browser,
  customer,
  endpoint,
}) => {
  const { id } = await newDestination(customer, endpoint);
  await postEvents(customer, 3);
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.setViewportSize({ width: 320, height: 640 });
  const link = new URL(await linkOf(customer));
  await page.goto(link.href);
  await page.getByRole("button", { name: "Open" }).click();
  await page.goto(`${link.origin}/portal/endpoints/${id}/change`);
  await page.getByLabel("Filter (JSON)").fill('{"order": {"gte": 2}}');
  await page.getByRole("button", { name: "Try it on the last events" }).click();
  await page.getByText("Takes 1 of the last 3 events.").waitFor();
  expect(await page.getByText("not taken: the filter does not match").count()).toBe(2);
  await page.getByText("Body and signature").click();
  await page.getByLabel("Stripe").check();
  await page.getByLabel("What is sent").selectOption("data");
  // The first button in the form: Enter saves, and does not preview.
  await page.getByLabel("Address (URL)").press("Enter");
  await page.getByText("Saved. It applies to the next requests.").waitFor();
  expect(await customer.api.get(`/v1/destinations/${id}`)).toMatchObject({
    filter: { order: { gte: 2 } },
    body: "data",
    signature_forms: [{ form: "standard" }, { form: "stripe" }],
  });
  await context.close();
});

test("after a change of language on the page, everything is in the new language", async ({
  page,
  customer,
}) => {
  await visit(page, customer);
  await page.getByLabel("Language").selectOption("de");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByRole("heading", { name: "Noch keine Endpunkte" }).waitFor();
  expect(await page.getAttribute("html", "lang")).toBe("de");
  await page.getByRole("link", { name: "Ereignistypen" }).first().click();
  await page.getByRole("link", { name: "Endpunkte" }).click();
  await page.getByRole("heading", { name: "Noch keine Endpunkte" }).waitFor();
});

test("everything works with the keyboard alone, and the focus is always visible", async ({
  page,
  customer,
  endpoint,
}) => {
  await page.goto(await linkOf(customer));
  await tabTo(page, "Open");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "No endpoints yet" }).waitFor();
  await tabTo(page, "Skip to the content");
  await page.keyboard.press("Enter");
  await tabTo(page, "Add endpoint");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Add endpoint" }).waitFor();
  await tabTo(page, "Address (URL)");
  await page.keyboard.type(hookAt(endpoint));
  await tabTo(page, "Add endpoint");
  await page.keyboard.press("Space");
  expectSecret(endpoint, (await page.locator("#secret").textContent()) ?? "");
  await tabTo(page, "Go to the endpoint");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "Send a test event" }).waitFor();
  await tabTo(page, "Send a test event");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Send test event" }).waitFor();
  await tabTo(page, "Send test event");
  await page.keyboard.press("Space");
  await page.getByRole("heading", { name: "Your server accepted it: HTTP 200" }).waitFor();
  expect(endpoint.hits).toMatchObject([{ verified: true }]);
});

test("a link opens one visit of its own tenant", async ({ page, customer, browser, endpoint }) => {
  const rival = await newCustomer();
  const { id } = await rival.api.post<{ id: string }>("/v1/destinations", { url: hookAt(endpoint) });
  const link = await linkOf(customer);
  await page.goto(link);
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByRole("heading", { name: "No endpoints yet" }).waitFor();
  await page.goto(`/portal/endpoints/${id}`);
  await page.getByRole("heading", { name: "Page not found" }).waitFor();
  await page.goto("/dashboard");
  await page.getByLabel("API key").waitFor();

  const another = await browser.newContext();
  const late = await another.newPage();
  await late.goto(link);
  await late.getByRole("button", { name: "Open" }).click();
  await late.getByText("This link has already been used").waitFor();
  await late.goto(`${link.slice(0, -4)}AAAA`);
  await late.getByText("This link is not valid or has expired").waitFor();
  await another.close();
});

test("a read-only visitor sees no buttons, and texts that fit", async ({ page, customer }) => {
  await visit(page, customer, { read_only: true });
  await page.getByText("You can view endpoints, but not add any").waitFor();
  expect(await page.getByRole("link", { name: "Add endpoint" }).count()).toBe(0);
  await page.goto("/portal/endpoints/new");
  await page.getByText("You may not add endpoints here.").waitFor();
});

async function linkOf({ api, tenant }: Customer, more: object = {}): Promise<string> {
  return (await api.post<{ url: string }>("/v1/portal-links", { tenant, ...more })).url;
}

async function visit(page: Page, customer: Customer, more: object = {}): Promise<void> {
  await page.goto(await linkOf(customer, more));
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByRole("button", { name: "Close" }).waitFor();
}
