/**
 * Support tasks, done with the mouse, and counted: each click, each choice, each field that is filled, and each row of
 * a table or list that is shown along the way. The table in docs/dashboard.md has these counts.
 */
import { readFile } from "node:fs/promises";
import type { Locator, Page } from "playwright-core";
import { expect, vi } from "vitest";
import { PAGE_TIMEOUT_MS, test } from "./browser-test.ts";
import { newDestination, postEvents } from "./steps.ts";

const TASKS = [
  "why has this event not arrived",
  "find the deliveries of a destination with the reason http_500",
  "retry them",
  "cancel what waits",
  "replay yesterday",
  "find an event by a value in its payload",
  "send a test event",
] as const;

type Task = (typeof TASKS)[number];

/** A support person, who starts at the overview. */
function operator(page: Page) {
  let [actions, rows] = [0, 0];
  const acted = async (action: Promise<unknown>) => {
    actions += 1;
    await action;
  };
  return {
    click: (what: Locator) => acted(what.click()),
    choose: (what: Locator, value: string) => acted(what.selectOption(value)),
    search: (words: string) => {
      const field = page.getByRole("searchbox", { name: "Search" });
      return acted(field.fill(words).then(() => field.press("Enter")));
    },
    /** Waits for the page whose rows are counted. */
    read: async (shown: Locator) => {
      await shown.waitFor();
      rows += await page.locator("main tbody tr, main article.delivery").count();
    },
    counts: () => [actions, rows] as const,
  };
}

test("each task at the dashboard takes as many actions, and shows as many rows, as the documentation says", async ({
  signedIn: page,
  customer,
  endpoint,
}) => {
  const counted = new Map<Task, readonly [number, number]>();
  const task = async (name: Task, work: (desk: ReturnType<typeof operator>) => Promise<void>) => {
    const desk = operator(page);
    await work(desk);
    counted.set(name, desk.counts());
  };
  const button = (name: string) => page.getByRole("button", { name, exact: true });
  const link = (name: string) => page.getByRole("link", { name, exact: true });
  const heading = (name: string | RegExp) => page.getByRole("heading", { name });

  endpoint.reply = { status: 500 };
  const { id, path } = await newDestination(customer, endpoint);
  await newDestination(customer, endpoint, { description: "Ledger", event_types: ["nothing.comes"] });
  const events = await postEvents(customer, 3);
  const retrying = async () => {
    const query = `/v1/deliveries?destination_id=${id}&reason=http_500`;
    expect(await customer.api.get(query)).toMatchObject({ data: [{}, {}, {}] });
  };
  await vi.waitFor(retrying, { timeout: PAGE_TIMEOUT_MS, interval: 500 });
  await page.goto("/dashboard");

  await task("why has this event not arrived", async (desk) => {
    await desk.search(events[0] ?? "");
    await desk.read(page.getByText("HTTP 500").first());
  });
  await task("find the deliveries of a destination with the reason http_500", async (desk) => {
    await desk.click(link("Deliveries"));
    await desk.choose(page.locator("select[name=destination_id]"), id);
    await desk.choose(page.locator("select[name=reason]"), "http_500");
    await desk.click(button("Filter"));
    await desk.read(page.getByRole("region", { name: "Log" }).getByText("to Billing").nth(2));
  });
  endpoint.reply = { status: 200 };
  await task("retry them", async (desk) => {
    await desk.click(link("Send all again"));
    await desk.click(button("Send them again"));
    await desk.read(heading("3 sent again"));
  });
  await vi.waitFor(() => expect(endpoint.hits.length).toBe(6), { timeout: PAGE_TIMEOUT_MS });

  await customer.api.post(`/v1/destinations/${id}/pause`, {});
  await postEvents(customer, 2);
  const waits = async () =>
    expect(await customer.api.get("/v1/deliveries?state=waiting")).toMatchObject({ data: [{}, {}] });
  await vi.waitFor(waits, { timeout: PAGE_TIMEOUT_MS, interval: 500 });
  await task("cancel what waits", async (desk) => {
    await desk.click(link("Deliveries"));
    await desk.choose(page.locator("select[name=state]"), "waiting");
    await desk.click(button("Filter"));
    await desk.click(link("Cancel all"));
    await desk.click(button("Cancel them"));
    await desk.read(heading("2 cancelled"));
  });
  await customer.api.post(`/v1/destinations/${id}/resume`, {});

  await task("replay yesterday", async (desk) => {
    await desk.click(link("Replays"));
    await desk.click(page.getByRole("checkbox", { name: "Billing" }));
    // The range begins yesterday at midnight already.
    await desk.choose(page.locator("select[name=include]"), "delivered");
    await desk.click(button("Estimate"));
    await page.getByText("At most 5 deliveries").waitFor();
    await desk.click(button("Start replay"));
    await desk.read(page.getByText("1 of 1 replay started."));
  });

  await customer.api.post("/v1/events", { type: "invoice.paid", data: { invoice: "inv_4711" } });
  await task("find an event by a value in its payload", async (desk) => {
    await desk.search("inv_4711");
    await desk.read(link("invoice.paid"));
  });

  await page.goto("/dashboard");
  await task("send a test event", async (desk) => {
    await desk.click(page.locator(`main a[href="${path}"]`).first());
    await desk.click(link("Send a test event"));
    await desk.click(button("Send test event"));
    await desk.read(heading("The receiver accepted it: HTTP 200"));
  });

  const document = await readFile(new URL("../../docs/dashboard.md", import.meta.url), "utf8");
  const written = TASKS.map((name) => {
    const [, actions, rows] = new RegExp(`^\\| ${name} \\| (\\d+) \\| (\\d+) \\|$`, "m").exec(document) ?? [];
    return [name, Number(actions), Number(rows)];
  });
  expect(TASKS.map((name) => [name, ...(counted.get(name) ?? [])])).toEqual(written);
});
