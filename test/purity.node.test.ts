/** That what decides has no clock, no randomness and no I/O is proved by the linter: here, that the linter sees it. */
import { spawnSync } from "node:child_process";
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it, test } from "vitest";

const ROOT = new URL("..", import.meta.url).pathname;

/** Which of the lines the linter refuses in a file of that folder, under the project's own rules. Counted from 0. */
function faultyLines(folder: string, lines: readonly string[]): number[] {
  const place = mkdtempSync(join(tmpdir(), "purity-"));
  try {
    const file = join("src", folder, "snippet.ts");
    for (const own of [".biome.json", ".gitignore", "src/core/pure.grit"])
      cpSync(join(ROOT, own), join(place, own));
    mkdirSync(join(place, dirname(file)), { recursive: true });
    writeFileSync(join(place, file), `${lines.join("\n")}\n`);
    const flags = ["lint", "--reporter=github", "--max-diagnostics=none", file];
    const { stdout } = spawnSync(join(ROOT, "node_modules/.bin/biome"), flags, {
      cwd: place,
      encoding: "utf8",
    });
    const faults = stdout.matchAll(
      /^::error title=(?:plugin|lint\/style\/noRestrictedGlobals),file=[^,]*,line=(\d+)/gm,
    );
    return [...faults].map(([, line]) => Number(line) - 1);
  } finally {
    rmSync(place, { recursive: true });
  }
}

const impure = [
  "Date.now()",
  "new Date()",
  "new Date",
  "Date()",
  "new Date(Date.now())",
  "Date.UTC(Date.now(), 1)",
  'Date["now"]()',
  "Date?.now()",
  "((D) => D.now())(Date)",
  "Math.random()",
  "Math?.random()",
  'Math["random"]()',
  "Math.max(1, Math.random())",
  "[1].map(Math.random)",
  "Object.values(Math)",
  "crypto.randomUUID()",
  "crypto.getRandomValues(new Uint8Array(1))",
  "performance.now()",
  "setTimeout(() => {}, 1)",
  "setInterval(() => {}, 1)",
  "setImmediate(() => {})",
  "queueMicrotask(() => {})",
  "scheduler.wait(1)",
  "AbortSignal.timeout(1)",
  'fetch("https://example.com/")',
  'console.log("x")',
  "globalThis.Date.now()",
  'globalThis["Math"]',
  "self.crypto",
  "process.hrtime()",
  "new Intl.DateTimeFormat().format()",
  'new Function("return 1")',
  'eval("1")',
];

const pure = ["Date.UTC(2026, 0, 1)", 'Date.parse("2026-01-01")', "Math.max(1, Math.floor(1.5))", "Math.PI"];

const constants = (expressions: readonly string[]) =>
  expressions.map((expression, i) => `export const x${i} = ${expression};`);

describe.each([["core"], ["core"], ["simulator"]])("in src/%s", (folder) => {
  it("every access to a clock, randomness or I/O is refused", () => {
    const faulty = faultyLines(folder, constants(impure));
    expect(impure.filter((_, i) => !faulty.includes(i))).toEqual([]);
  });

  it("code that only depends on its arguments is not refused", () => {
    const faulty = faultyLines(folder, constants(pure));
    expect(pure.filter((_, i) => faulty.includes(i))).toEqual([]);
  });

  it("no file suppresses the lint rule", () => {
    const files = globSync(`src/${folder}/**/*.ts`, { cwd: ROOT });
    expect(files.length).toBeGreaterThan(1);
    const lenient = files.filter((file) =>
      /biome-ignore[- ](?!lint\/suspicious\/noControlCharactersInRegex)|@ts-(ignore|expect-error|nocheck)/.test(
        readFileSync(`${ROOT}${file}`, "utf8"),
      ),
    );
    expect(lenient).toEqual([]);
  });
});

test("the clock and randomness are not refused outside of the pure folders", () => {
  expect(faultyLines("delivery", constants(["Date.now()", "Math.random()", "crypto.randomUUID()"]))).toEqual(
    [],
  );
});
