/** No test is left out, and none runs in two lanes. */
import { globSync, readFileSync } from "node:fs";
import { matchesGlob } from "node:path";
import { expect, test } from "vitest";
import { browser, lanes, projects } from "./lanes.ts";

const root = new URL("..", import.meta.url).pathname;
const files = globSync("test/**/*.test.{ts,tsx}", { cwd: root });
const { scripts } = JSON.parse(readFileSync(`${root}package.json`, "utf8")) as {
  scripts: Record<string, string>;
};

const matches = (file: string, globs: readonly string[]) => globs.some((glob) => matchesGlob(file, glob));

function projectsOf(file: string): string[] {
  return Object.entries<{ include: readonly string[]; exclude?: readonly string[] }>(projects)
    .filter(([, { include, exclude = [] }]) => matches(file, include) && !matches(file, exclude))
    .map(([name]) => name);
}

function lanesOf(file: string): string[] {
  const own = projectsOf(file);
  const found = Object.entries<{ projects: readonly string[] }>(lanes)
    .filter(([, lane]) => lane.projects.some((project) => own.includes(project)))
    .map(([name]) => name);
  return matches(file, browser) ? [...found, "browser"] : found;
}

test("every test file belongs to exactly one lane", () => {
  expect(files.length).toBeGreaterThan(100);
  const wrong = files.filter((file) => lanesOf(file).length !== 1);
  expect(wrong.map((file) => `${file}: ${lanesOf(file).join(", ") || "none"}`)).toEqual([]);
});

test("every project belongs to exactly one lane, the deep ones to the deep lane", () => {
  const assigned = Object.values(lanes).flatMap((lane): readonly string[] => lane.projects);
  expect([...assigned].sort()).toEqual(Object.keys(projects).sort());
  for (const project of assigned)
    expect([project, project.startsWith("deep")]).toEqual([project, matchesDeep(project)]);
});

function matchesDeep(project: string): boolean {
  return (lanes.deep.projects as readonly string[]).includes(project);
}

test("the scripts run the projects of their lanes", () => {
  const run = "vitest run --config test/vitest.config.ts";
  expect(scripts[lanes.unit.script]).toBe(`${run} --project pure --maxWorkers 100%`);
  expect(scripts[lanes.test.script]).toBe(`${run} --project '!deep*' --maxWorkers 100%`);
  expect(scripts[lanes.deep.script]).toBe(`${run} --project 'deep*'`);
  expect(scripts["test:all"]).toBe(`${run} --project '!deep scenario*' --maxWorkers 100%`);
  expect(scripts["test:browser"]).toBe("vitest run --config test/browser/vitest.config.ts");
});

test("no test has its own time limit, which a busy machine would exceed", () => {
  const limited = files.filter((file) =>
    /^\s*\},\s+(\d[\d_]{4,}|[A-Z_]*TIMEOUT[A-Z_]*),?\s*\);$/m.test(readFileSync(`${root}${file}`, "utf8")),
  );
  expect(limited).toEqual([]);
});
