/** The troubleshooting guide is the same in the repository and at /docs, and covers every reason of a delivery. */
import { readFileSync } from "node:fs";
import { jsx } from "hono/jsx";
import { expect, test } from "vitest";
import { attemptErrors, deliveryReasons, waitingReasons } from "../../../src/core/reasons.ts";
import type { DeliveryJson } from "../../../src/features/deliveries/schema.ts";
import { createApp } from "../../../src/http/app.ts";
import { createDocs } from "../../../src/http/docs/app.tsx";
import { remedies, steps } from "../../../src/http/docs/remedies.ts";
import { documentOf } from "../../../src/http/openapi/document.ts";
import { dashboardView } from "../../../src/pages/dashboard/view.tsx";
import { DeliveryPanel } from "../../../src/pages/ui/delivery-panel.tsx";
import { PageProvider } from "../../../src/pages/ui/page.tsx";
import { remedyAnchor } from "../../../src/pages/ui/status-text.ts";

const root = `${import.meta.dirname}/../../..`;
const page = readFileSync(`${root}/docs/troubleshooting.md`, "utf8");
const answer = await createDocs(() => documentOf(createApp())).request("https://breakwater.example/docs");
const html = await answer.text();

test("docs/troubleshooting.md has the steps and the reasons of the reference", () => {
  for (const [i, step] of steps.entries()) expect(page).toContain(`${i + 1}. ${step}\n`);
  const rows = remedies.map(({ reason, meaning, remedy }) => `| \`${reason}\` | ${meaning} | ${remedy} |`);
  expect(page.split("\n").filter((line) => line.startsWith("| `") && !line.includes("what to do"))).toEqual(
    rows,
  );
});

test("the reference has the guide, and its index links to it", () => {
  expect(html).toContain('<h2 id="troubleshooting">');
  expect(html).toContain('<a href="#troubleshooting">');
  for (const { reason } of remedies) expect(html).toContain(`<code>${reason}</code>`);
});

test("the guide covers every reason of a delivery", () => {
  const explained = remedies.flatMap(({ reason }) => reason.split(/, | and /));
  const expected = [...deliveryReasons, ...attemptErrors, "http_429"];
  expect(explained).toEqual(expect.arrayContaining(expected));
});

test("the guide explains each 4xx that commonly ends a delivery, and the dashboard links to it", () => {
  const explained = remedies.flatMap(({ reason }) => reason.match(/http_4\d\d/g) ?? []);
  for (const reason of explained)
    expect([reason, remedyAnchor(reason)]).toEqual([reason, `reason-${reason}`]);
  const rare = ["http_402", "http_407", "http_418", "http_499"];
  expect(rare.map(remedyAnchor)).toEqual(rare.map(() => "reason-http_500"));
  for (const status of [400, 401, 403, 404, 405, 410, 413, 415, 422])
    expect(explained).toContain(`http_${status}`);
});

test("the dashboard finds the place of each of these reasons, and of any status", () => {
  const reasons = [
    ...waitingReasons,
    ...attemptErrors,
    "scheduled",
    "http_403",
    "http_429",
    "http_500",
    "http_503",
    "http_302",
  ] as const;
  for (const reason of reasons) expect(html.split(`id="${remedyAnchor(reason)}"`)).toHaveLength(2);
  expect(html).toContain(`id="${remedyAnchor(undefined)}"`);
});

test("a delivery in the dashboard links to the place of its reason", () => {
  const delivery: DeliveryJson = {
    ...{ id: "dlv_1", event_id: "evt_1", destination_id: "dst_1", state: "retrying", reason: "http_503" },
    ...{ attempts: 1, give_up_at: "2026-11-24T09:00:00.000Z", log: [] },
  };
  const value = dashboardView({ now: 1_000, mayCall: () => false });
  const props = { delivery, name: "One", acceptedAt: 0, areKept: () => false, isErased: false };
  const panel = jsx(PageProvider, { value }, jsx(DeliveryPanel, props));
  expect(String(panel)).toContain('<a href="/docs#reason-http_500">What to do</a>');
});

test("the README links to the guides for operators and receivers", () => {
  const readme = readFileSync(`${root}/README.md`, "utf8");
  for (const name of ["receivers", "troubleshooting"]) expect(readme).toContain(`(docs/${name}.md)`);
});
