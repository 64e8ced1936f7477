/** Tables have one line for each row, so that an overview of many destinations stays short. */
import { expect, inject } from "vitest";
import { type Customer, test } from "./browser-test.ts";
import { pages, tour } from "./pages.ts";
import { signIn } from "./steps.ts";

const fixture = { url: inject("fixtureUrl"), key: inject("fixtureKey") };
const desktop = { viewport: { width: 1280, height: 800 } };
const phone = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };

const withTables = [
  ...["overview", "destination", "dead", "deliveries", "search", "erasures"],
  ...["portal", "portal-endpoint", "portal-german"],
];

const MANY = 40;
const PAUSED = 3;

/** Half of them have no name, and each has an address that is longer than any row. */
async function manyDestinations({ api }: Customer): Promise<void> {
  for (let i = 0; i < MANY; i++) {
    const url = `https://partner-${i}.example.com/v2/webhooks/incoming/${"0123456789abcdef".repeat(6)}?region=north`;
    const body = {
      url,
      ...(i % 2 === 0 && { description: `Partner integration no. ${i}, northern region` }),
    };
    await api.post("/v1/destinations", { ...body, ...(i < PAUSED && { status: "paused" }) });
  }
}

/** Rows that are higher than a line of text with its padding. */
function highRows(most: number): string[] {
  const rows = [...document.querySelectorAll<HTMLElement>("table.lines tbody tr")];
  return rows.filter((row) => row.offsetHeight > most).map((row) => row.textContent ?? "");
}

test("an overview of 40 destinations takes at most two screens of a phone", async ({ browser, customer }) => {
  await manyDestinations(customer);
  const context = await browser.newContext({ baseURL: inject("url"), ...phone });
  const page = await context.newPage();
  await signIn(page, customer.key);
  expect(await page.locator("tbody tr").count()).toBe(MANY);
  expect(await page.evaluate(() => document.documentElement.scrollHeight)).toBeLessThanOrEqual(2 * 844);
  expect(await page.evaluate(highRows, 34)).toEqual([]);
  // The cut-off text is in the row's tooltip.
  await expect.poll(() => page.locator("tbody td[title*='?region=north']").count()).toBe(MANY);

  await page.getByRole("link", { name: `Paused ${PAUSED}` }).click();
  await page.waitForURL(/state=paused/);
  expect(await page.locator("tbody tr").count()).toBe(PAUSED);
  await page.getByRole("link", { name: "Destination", exact: true }).click();
  await page.waitForURL(/state=paused&sort=name/);
  expect(await page.locator("th[aria-sort=ascending]").innerText()).toContain("Destination");
  await context.close();
});

test.for([
  ["a desktop", desktop, 46],
  ["a phone", phone, 34],
] as const)("on %s every row of every list is one line", async ([, device, most], { browser }) => {
  const { show, close } = await tour(browser, fixture, device);
  const faults: string[] = [];
  let tables = 0;
  for (const shown of pages.filter(({ name }) => withTables.includes(name))) {
    const page = await show(shown);
    tables += await page.locator("table.lines").count();
    faults.push(...(await page.evaluate(highRows, most)).map((text) => `${shown.name}: ${text}`));
  }
  await close();
  expect(faults).toEqual([]);
  expect(tables).toBe(withTables.length);
});

/** Headings, figures and times that do not fit their cells. Names and reasons may be cut: they have tooltips. */
function cutCells(): string[] {
  const cells = [...document.querySelectorAll<HTMLElement>("table.lines :is(th, td.num, td.flight)")];
  return cells.filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent ?? "");
}

test.for([
  ["a desktop", desktop],
  ["a narrow desktop", { viewport: { width: 1080, height: 800 } }],
  ["a phone", phone],
] as const)("on %s no heading, figure or time of a list is cut", async ([, device], { browser }) => {
  const { show, close } = await tour(browser, fixture, device);
  const faults: string[] = [];
  for (const shown of pages.filter(({ name }) => withTables.includes(name))) {
    const page = await show(shown);
    faults.push(...(await page.evaluate(cutCells)).map((text) => `${shown.name}: ${text}`));
  }
  await close();
  expect(faults).toEqual([]);
});

test.for([
  ["a desktop", desktop],
  ["a phone", phone],
] as const)("on %s the search field has room for its placeholder", async ([, device], { browser }) => {
  const { show, close } = await tour(browser, fixture, device);
  const page = await show({ name: "overview", path: "/dashboard" });
  const { room, needed } = await page.getByRole("searchbox").evaluate((input: HTMLInputElement) => {
    const style = getComputedStyle(input);
    const context = document.createElement("canvas").getContext("2d") as CanvasRenderingContext2D;
    context.font = style.font;
    return {
      room: input.clientWidth - Number.parseFloat(style.paddingLeft) - Number.parseFloat(style.paddingRight),
      needed: context.measureText(input.placeholder).width,
    };
  });
  await close();
  expect(needed).toBeGreaterThan(0);
  // The browser's button that clears the field takes room too.
  expect(room).toBeGreaterThan(needed + 20);
});
