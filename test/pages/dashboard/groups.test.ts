/** Groups on the dashboard: who sees them, and who sets their limits. */
import { beforeEach, expect, it } from "vitest";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { customer, signedIn } from "../../support/dashboard.ts";

const GROUPS = "/dashboard/groups";
const LIMITS = `${GROUPS}/limits`;
const { call } = testApi();
const name = "host:hooks.example.com";

beforeEach(emptyDatabase);

const pageOf = (group: string) => `${LIMITS}?${new URLSearchParams({ name: group })}`;
const limitsOf = async () => (await call("GET", "/v1/groups?limit=10")).json as { data: unknown[] };

it("the page of a group sets its limits by a form, which shows them again, and removes them", async () => {
  const browser = await signedIn();
  const typed = { name, max_concurrency: "13", rate_per_second: "46", failure_ratio: "0.3" };
  expect((await browser.save(LIMITS, typed)).status).toBe(303);
  expect((await limitsOf()).data).toMatchObject([
    { name, max_concurrency: 13, rate_per_second: 46, breaker: { failure_ratio: 0.3, min_attempts: 5 } },
  ]);
  const { html } = await browser.get(pageOf(name));
  expect(html).toMatch(/name="max_concurrency" value="13"/);
  expect((await browser.get(GROUPS)).html).toContain(`href="${LIMITS}?name=host%3Ahooks.example.com"`);
  expect((await browser.post(LIMITS, { name, action: "remove" })).status).toBe(303);
  expect((await limitsOf()).data).toEqual([]);
});

it("the page of a group leaves defaults empty, so that its burst follows the rate that is saved next", async () => {
  const browser = await signedIn();
  await browser.save(LIMITS, { name, rate_per_second: "50" });
  const { html } = await browser.get(pageOf(name));
  const inputs = [...html.matchAll(/<input [^>]*?name="(\w+)" value="([^"]*)"/g)];
  const typed = Object.fromEntries(inputs.map(([, input = "", value = ""]) => [input, value]));
  expect(typed).toMatchObject({ name, rate_per_second: "50", rate_burst: "", max_concurrency: "" });
  await browser.post(LIMITS, { ...typed, rate_per_second: "500" });
  expect((await limitsOf()).data).toMatchObject([{ rate_per_second: 500, rate_burst: 50 }]);
});

it("the page of a group shows a refused form again, with each fault at its field", async () => {
  const browser = await signedIn();
  const { status, html } = await browser.post(LIMITS, { name: "no name!", max_concurrency: "0" });
  expect(status).toBe(422);
  expect(html).toContain('id="f-max_concurrency-fault"');
  const named = await browser.post(LIMITS, { name: "no name!", max_concurrency: "7" });
  expect(named.status).toBe(422);
  expect(named.html).toContain('id="f-name-fault"');
  expect(named.html).toMatch(/name="max_concurrency" value="7"/);
});

it("the page of a group keeps what somebody else has saved meanwhile, until its form is sent once more", async () => {
  const browser = await signedIn();
  const readAtIn = (html: string) => /name="read_at" value="([^"]+)"/.exec(html)?.[1] ?? "";
  const first = { name, rate_per_second: "50" };
  const blank = readAtIn((await browser.get(LIMITS)).html);
  expect((await browser.post(LIMITS, { ...first, read_at: blank })).status).toBe(303);
  const opened = readAtIn((await browser.get(pageOf(name))).html);
  await call("PUT", `/v1/groups/${encodeURIComponent(name)}`, { max_concurrency: 3 });
  const theirs = (await limitsOf()).data;
  const mine = { ...first, max_concurrency: "7" };
  // Also a form that was opened without a group replaces nothing, and one without a time.
  for (const read_at of [opened, blank, ""]) {
    const { status, html } = await browser.post(LIMITS, { ...mine, read_at });
    expect([status, html.includes("was changed after you opened this form")]).toEqual([422, true]);
    expect(html).toMatch(/name="max_concurrency" value="7"/);
    expect(html).toContain("Remove limits");
    expect((await limitsOf()).data).toEqual(theirs);
  }
  expect((await browser.save(LIMITS, mine, pageOf(name))).status).toBe(303);
  expect((await limitsOf()).data).toMatchObject([{ max_concurrency: 7, rate_per_second: 50 }]);
});

it("the page of a group keeps the button that removes its limits when its form is refused", async () => {
  const browser = await signedIn();
  await browser.save(LIMITS, { name, rate_per_second: "50" });
  const { status, html } = await browser.save(LIMITS, { name, max_concurrency: "0" }, pageOf(name));
  expect([status, html.includes("Remove limits")]).toEqual([422, true]);
  expect((await browser.get(LIMITS)).html).not.toContain("Remove limits");
});

it.each([
  false,
  true,
])("the page of a group gives a customer neither the form nor its effect (read-only: %j)", async (reads) => {
  const browser = await customer("acme", reads);
  expect((await browser.get(LIMITS)).status).toBe(403);
  expect((await browser.post(LIMITS, { name, max_concurrency: "1" })).status).toBe(403);
  expect((await limitsOf()).data).toEqual([]);
});
