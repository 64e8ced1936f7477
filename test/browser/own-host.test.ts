/** Pages send requests to their own host alone. All browser tests watch for that; these test the watch itself. */
import { expect, inject } from "vitest";
import { until } from "../scenario/until.ts";
import { test } from "./browser-test.ts";
import { newDestination, postEvents, signIn } from "./steps.ts";
import { watch } from "./watch.ts";

test("a script, a style and an image of another host are blocked by the policy, and the test notices them", async ({
  browser,
  customer,
  endpoint,
}) => {
  const { path } = await newDestination(customer, endpoint);
  const context = await browser.newContext({ baseURL: inject("url") });
  const { faults } = await watch(context, inject("url"));
  const page = await context.newPage();
  await signIn(page, customer.key);
  await page.goto(path);
  await page.evaluate(() => {
    const put = (tag: string, where: object) =>
      document.body.append(Object.assign(document.createElement(tag), where));
    put("script", { src: "https://evil.example/a.js" });
    put("script", { textContent: "document.title = 'taken over'" });
    put("link", { rel: "stylesheet", href: "https://evil.example/a.css" });
    put("img", { src: "https://evil.example/a.png" });
  });
  const violations = () => faults.filter((fault) => fault.startsWith("policy violated")).map(directiveOf);
  await until(() => new Set(violations()).size === 3, {
    otherwise: () => faults.join(", "),
  });
  expect([...new Set(violations())].toSorted()).toEqual(["img-src", "script-src-elem", "style-src-elem"]);
  expect(faults.filter((fault) => fault.startsWith("requested"))).toEqual([]);
  expect(await page.title()).not.toBe("taken over");
  await context.close();
});

test("a request to another host that no policy blocks is noticed", async ({ browser }) => {
  const context = await browser.newContext({ baseURL: inject("url"), bypassCSP: true });
  const { faults } = await watch(context, inject("url"));
  const page = await context.newPage();
  await page.goto("/dashboard");
  await page.evaluate(() => fetch("https://evil.example/").catch(() => {}));
  expect(faults).toContain("requested https://evil.example/");
  await context.close();
});

test("a visit sends requests to the Worker only, even if a stored name tries to add others", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  const hostile = '"><img src=https://evil.example/x onerror="fetch(`https://evil.example/`)">';
  const { path } = await newDestination(customer, endpoint, { description: hostile });
  const [event] = await postEvents(customer, 1);
  const origins = new Set<string>();
  page.on("request", (request) => origins.add(new URL(request.url()).origin));
  for (const place of ["/dashboard", path, `/dashboard/events/${event}`, "/dashboard/destinations/new"]) {
    await page.goto(place);
    await page.getByRole("button", { name: "Sign out" }).waitFor();
  }
  expect([...origins]).toEqual([inject("url")]);
});

function directiveOf(fault: string): string {
  return fault.split(" ")[2] ?? "";
}
