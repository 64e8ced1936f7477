/** What to do about a delivery that is stuck is said the same in the repository and at /docs, for every reason that there is. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.ts";
import { documentOf } from "../../src/api/openapi/document.ts";
import { reasons as waitReasons } from "../../src/dashboard/status-text.ts";
import { createDocs } from "../../src/docs-site/app.tsx";
import { reasons, steps } from "../../src/docs-site/troubleshooting.tsx";

const root = `${import.meta.dirname}/../..`;
const page = readFileSync(`${root}/docs/stuck-in-retries.md`, "utf8");
const answer = await createDocs(() => documentOf(createApp())).request("https://breakwater.example/docs");
const html = await answer.text();

test("the page in the repository has the steps and the reasons of the reference", () => {
  for (const [i, step] of steps.entries()) expect(page).toContain(`${i + 1}. ${step}\n`);
  const rows = reasons.map(({ reason, means, remedy }) => `| \`${reason}\` | ${means} | ${remedy} |`);
  expect(page.split("\n").filter((line) => line.startsWith("| `") && !line.includes("what to do"))).toEqual(
    rows,
  );
});

test("the reference has a place for it, which its index and the dashboard lead to", () => {
  expect(html).toContain('<h2 id="stuck-in-retries">');
  expect(html).toContain('<a href="#stuck-in-retries">');
  for (const { reason } of reasons) expect(html).toContain(`<code>${reason}</code>`);
});

test("no reason for which a delivery waits or is tried again is left out", () => {
  const explained = reasons.flatMap(({ reason }) => reason.split(/, | and /));
  const causes = ["in_flight", "timeout", "connection_lost", "refused", "dns", "network", "http_429"];
  expect(explained).toEqual(expect.arrayContaining([...Object.keys(waitReasons), ...causes]));
});

test("both pages for operators and receivers are found from the README", () => {
  const readme = readFileSync(`${root}/README.md`, "utf8");
  for (const name of ["receivers", "stuck-in-retries"]) expect(readme).toContain(`(docs/${name}.md)`);
});
