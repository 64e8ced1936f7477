/**
 * The story of the official SDKs in JavaScript and Python. `npm run test:sdks` installs and runs the other ones too; here
 * nothing is downloaded.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { skipped } from "../../../support/skipped.ts";
import { interpreted, type Program, type Sdk, sdks } from "./sdks.ts";
import { type Stack, startStack } from "./stack.ts";
import { steps } from "./steps.ts";
import { type Outcomes, runStory } from "./story.ts";
import { inMarkdown, inText, type Result, words } from "./table.ts";

let stack: Stack;
beforeAll(async () => {
  stack = await startStack();
});
afterAll(() => stack?.stop());

function describeSdk(sdk: Sdk, program: Program): void {
  describe(`the ${sdk.name} SDK of Svix ${sdk.version}`, () => {
    let outcomes: Outcomes;
    beforeAll(async () => {
      outcomes = await runStory(sdk, program, stack);
    });

    test.for(steps)("works for $name", ({ name }) => {
      const { outcome, detail } = outcomes.get(name) ?? {};
      expect([outcome, detail ?? ""]).toEqual(["passed", ""]);
    });

    test("has the results of results.txt: `npm run test:sdks -- --table` prints the table", () => {
      const documented = documentedCells();
      const column = documented.get("step")?.indexOf(`${sdk.name} ${sdk.version}`) ?? -1;
      const cells = steps.map(({ name }) => [name, documented.get(name)?.[column]]);
      expect(cells).toEqual([...outcomes].map(([name, { outcome }]) => [name, words[outcome]]));
    });
  });
}

for (const sdk of interpreted) {
  const program = await sdk.program();
  if (program) describeSdk(sdk, program);
  else {
    const how = `svix ${sdk.version} is not installed: npm run test:sdks -- --only ${sdk.run} does it`;
    skipped(`the ${sdk.name} SDK of Svix`, how);
  }
}

test("a program that ends early has failed at every step that it did not reach", async () => {
  const printed = `console.log('{"step":"health","outcome":"passed"}'); console.error("Oh"); process.exit(3)`;
  const program = { command: process.execPath, args: ["-e", printed] };
  const outcomes = await runStory({ ...(interpreted[0] as Sdk), run: "early" }, program, stack);
  expect(outcomes.get("health")?.outcome).toBe("passed");
  expect(outcomes.get("portal link")?.outcome).toBe("failed");
  expect(outcomes.get("portal link")?.detail).toBe("Not reached: it has ended with 3\nOh");
});

test("the table shows what each SDK did, and in Markdown only those that ran", () => {
  const outcomes = new Map([["health", { outcome: "passed" as const }]]);
  const results: Result[] = [
    { name: "Go", version: "1", kind: "told", outcomes },
    { name: "Rust", version: "2", kind: "skipped", lacks: "cargo" },
  ];
  expect(inText(results)).toMatch(
    /^ +Go 1 +Rust 2\nhealth +passed +skipped\napplication: create +FAILED +skipped/,
  );
  expect(inMarkdown(results)).toContain(
    "| route | step | Go 1 |\n|---|---|---|\n| `GET health` | health | passed |\n",
  );
});

/** The cells of the table in results.txt, by the names of the steps; under "step" the titles of the columns. */
function documentedCells(): ReadonlyMap<string, readonly string[]> {
  const page = readFileSync(new URL("results.txt", import.meta.url).pathname, "utf8");
  const rows = page.split("\n").map((line) => line.split("|").map((cell) => cell.trim()));
  return new Map(rows.map(([, , name = "", ...cells]) => [name, cells]));
}

test("results.txt has the versions that are pinned", () => {
  const titles = documentedCells().get("step");
  for (const { name, version } of sdks) if (version) expect(titles).toContain(`${name} ${version}`);
});
