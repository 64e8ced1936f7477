/** The parts of the deployment's source that are published with the client. */
import { globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../../tools/wrangler.ts";

function importsOf(file: string): string[] {
  const text = readFileSync(join(projectRoot, file), "utf8");
  const named = [...text.matchAll(/\b(?:from|import)\s+"(\.[^"]+)"/g)].map(([, to = ""]) => to);
  return named.map((to) => relative(projectRoot, join(projectRoot, dirname(file), to)));
}

const outside = (files: string) =>
  globSync(files, { cwd: projectRoot })
    .flatMap(importsOf)
    .filter((to) => !to.startsWith("client/"));

test("the library contains nothing of the deployment", () => {
  expect(outside("client/src/*.ts")).toEqual([]);
});

test("the command contains only the sentences of the dashboard and their number formats", () => {
  const used = new Set(outside("client/cli/**/*.ts"));
  expect([...used].sort()).toEqual(["src/pages/ui/format.ts", "src/pages/ui/status-text.ts"]);
});
