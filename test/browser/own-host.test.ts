/** Nothing leaves the page's own host. Every other test watches for it as well: here the watch itself is tried. */
import { expect, inject } from "vitest";
import { until } from "../scenario/until.ts";
import { newDestination, postEvents } from "./destinations.ts";
import { signIn } from "./sign-in.ts";
import { test } from "./story.ts";
import { watch } from "./watch.ts";

test("a script, a style and a picture from elsewhere are not even asked for, and would be noticed", async ({
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
  const broken = () => faults.filter((fault) => fault.startsWith("policy broken")).map(directiveOf);
  await until(() => new Set(broken()).size === 3, { withinMs: 10_000, otherwise: () => faults.join(", ") });
  expect([...new Set(broken())].toSorted()).toEqual(["img-src", "script-src-elem", "style-src-elem"]);
  expect(faults.filter((fault) => fault.startsWith("asked for"))).toEqual([]);
  expect(await page.title()).not.toBe("taken over");
  await context.close();
});

test("a request to elsewhere that no policy stopped would be noticed", async ({ browser }) => {
  const context = await browser.newContext({ baseURL: inject("url"), bypassCSP: true });
  const { faults } = await watch(context, inject("url"));
  const page = await context.newPage();
  await page.goto("/dashboard");
  await page.evaluate(() => fetch("https://evil.example/").catch(() => {}));
  expect(faults).toContain("asked for https://evil.example/");
  await context.close();
});

test("a whole visit asks nobody but the Worker, with a name and a type that try to", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  const hostile = '"><img src=https://evil.example/x onerror="fetch(`https://evil.example/`)">';
  const { path } = await newDestination(customer, endpoint, { description: hostile });
  const [event] = await postEvents(customer, 1);
  const asked = new Set<string>();
  page.on("request", (request) => asked.add(new URL(request.url()).origin));
  for (const place of ["/dashboard", path, `/dashboard/events/${event}`, "/dashboard/destinations/new"]) {
    await page.goto(place);
    await page.getByRole("button", { name: "Sign out" }).waitFor();
  }
  expect([...asked]).toEqual([inject("url")]);
});

function directiveOf(fault: string): string {
  return fault.split(" ")[2] ?? "";
}
