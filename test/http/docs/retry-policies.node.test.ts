/** The page about retry policies, the simulator and the reference describe the presets as they are. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { alignedTable } from "../../../bench/storm/table.ts";
import { classify } from "../../../src/core/retry/classify.ts";
import { commonRules, policyTable, policyTableHead } from "../../../src/core/retry/policy-table.ts";
import { type PresetName, presets } from "../../../src/core/retry/presets.ts";
import { createApp } from "../../../src/http/app.ts";
import { createDocs } from "../../../src/http/docs/app.tsx";
import { documentOf } from "../../../src/http/openapi/document.ts";

const root = `${import.meta.dirname}/../../..`;
const page = readFileSync(`${root}/docs/retry-policies.md`, "utf8");

const rows = policyTable().map(([name = "", ...cells]) => [name as PresetName, cells] as const);

/** The statuses of a list, or all the others of the 4xx. */
function statusesIn(cell: string): number[] {
  const listed = (cell.match(/\d{3}/g) ?? []).map(Number);
  const all = Array.from({ length: 100 }, (_, i) => 400 + i);
  return cell.startsWith("every one but") ? all.filter((status) => !listed.includes(status)) : listed;
}

describe("the table of presets", () => {
  test("is in docs/retry-policies.md in accordance with the presets, with the rules for all of them", () => {
    expect(page).toContain(alignedTable(policyTableHead, policyTable()));
    expect(commonRules).not.toEqual([]);
    for (const rule of commonRules) expect(page).toContain(`- ${rule}\n`);
  });

  test("is in the reference", async () => {
    const html = await (
      await createDocs(() => documentOf(createApp())).request("https://a.example/docs")
    ).text();
    for (const cell of policyTable().flat()) expect(html).toContain(`>${cell}</t`);
  });

  test("is linked from the README", () => {
    expect(readFileSync(`${root}/README.md`, "utf8")).toContain("(docs/retry-policies.md)");
  });

  test.each(rows)("names exactly the 4xx that end a delivery under %s", (name, cells) => {
    const ends = (status: number) =>
      classify({ kind: "response", status }, presets[name].rules) === "permanent";
    const judged = Array.from({ length: 100 }, (_, i) => 400 + i).filter(ends);
    expect(statusesIn(cells[3] ?? "")).toEqual(judged);
  });
});
