/** References in the documentation exist: links to files and headings, invariants to tests, glossary words to code. */
import { existsSync, globSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { anchorOf } from "../site/pages.ts";

const ROOT = new URL("..", import.meta.url).pathname;
const pages = ["README.md", "CHANGELOG.md", ...globSync(["docs/**/*.md", ".github/*.md"], { cwd: ROOT })];

const textOf = (file: string) => readFileSync(join(ROOT, file), "utf8");
const withoutCode = (text: string) => text.replaceAll(/^```[\s\S]*?^```/gm, "");

describe.each(pages)("%s", (page) => {
  test("has only relative links that lead to a file, and to a heading of it", () => {
    const text = withoutCode(textOf(page));
    const links = [...text.matchAll(/\]\(([^)\s]+)\)/g), ...text.matchAll(/(?:src|srcset)="([^"]+)"/g)];
    const relative = links.map(([, to = ""]) => to).filter((to) => !/^(https?|mailto):/.test(to));
    expect(relative.filter((to) => !leadsSomewhere(page, to))).toEqual([]);
  });
});

test("every picture is shown by a page", () => {
  const shown = [...pages, ...globSync("bench/**/*.md", { cwd: ROOT })]
    .flatMap((page) => [...textOf(page).matchAll(/\.github\/pictures\/([\w.-]+)/g)])
    .map(([, name]) => name);
  const pictures = globSync("*", { cwd: join(ROOT, ".github/pictures") });
  expect(pictures.filter((picture) => !shown.includes(picture))).toEqual([]);
});

test("the README has at most 200 lines", () => {
  expect(textOf("README.md").split("\n").length).toBeLessThanOrEqual(200);
});

test("every invariant and rule has tests, whose titles exist", () => {
  const named: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = JSON.parse(
    textOf("test/invariants.json"),
  );
  const headings = [...textOf("docs/invariants.md").matchAll(/^### (\d.*)$/gm)].map(([, title]) => title);
  expect(headings).toEqual(Object.keys(named));
  const all = Object.values(named).flatMap((files) => Object.entries(files));
  expect(all.length).toBeGreaterThan(60);
  const missing = all.flatMap(([file, titles]) =>
    titles.filter((title) => !existsSync(join(ROOT, file)) || !titlesIn(file).includes(title)),
  );
  expect(missing).toEqual([]);
});

test.each(pages)("every file that %s names exists", (page) => {
  const named = textOf(page).matchAll(/`((?:src|test|docs|monitoring|migrations)\/[\w./-]+)`/g);
  const missing = [...named].map(([, file = ""]) => file).filter((file) => !existsSync(join(ROOT, file)));
  expect(missing).toEqual([]);
});

function leadsSomewhere(page: string, to: string): boolean {
  const [path = "", heading] = to.split("#");
  const file = path === "" ? page : join(dirname(page), path);
  // A folder is not a page of the site.
  if (!statSync(join(ROOT, file), { throwIfNoEntry: false })?.isFile()) return false;
  return heading === undefined || !file.endsWith(".md") || headingsOf(file).includes(heading);
}

function headingsOf(file: string): string[] {
  const headings = withoutCode(textOf(file)).matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, heading = ""]) => anchorOf(heading));
}

/** The titles of tests and of their groups, as they are written. */
function titlesIn(file: string): string[] {
  return [...textOf(file).matchAll(/"((?:[^"\\\n]|\\.)*)"/g)].map(([, title = ""]) => title);
}
