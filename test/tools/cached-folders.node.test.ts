/** Folders that are stored between runs: made once from the same files, and again from others. */
import { globSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { copyCached } from "../../tools/cached-folders.ts";
import { projectRoot } from "../../tools/wrangler.ts";

let place: string;
const name = `test-${process.pid}`;
let source: string;

beforeEach(() => {
  place = mkdtempSync(join(tmpdir(), "breakwater-kept-"));
  source = join(place, "source");
});

afterEach(() => {
  rmSync(place, { recursive: true, force: true });
  for (const kept of globSync(`node_modules/.cache/kept/${name}*`, { cwd: projectRoot }))
    rmSync(join(projectRoot, kept), { recursive: true, force: true });
});

function write(text: string): void {
  writeFileSync(source, text);
  utimesSync(source, 1, 1);
}

test("a folder is made again only when one of its files differs", async () => {
  let made = 0;
  const copied = async (to: string) => {
    await copyCached(join(place, to), name, async (directory) => {
      made += 1;
      writeFileSync(join(directory, "result"), readFileSync(source));
      return [source];
    });
    return [readFileSync(join(place, to, "result"), "utf8"), made];
  };
  write("one");
  expect(await copied("a")).toEqual(["one", 1]);
  expect(await copied("b")).toEqual(["one", 1]);
  write("two");
  expect(await copied("c")).toEqual(["two", 2]);
  // Back to the former content: its folder is still there, but not the record of the files that it was made from.
  write("one");
  expect(await copied("d")).toEqual(["one", 3]);
});

test("a folder is not cached when a file was changed while it was made", async () => {
  let made = 0;
  const copied = (to: string) =>
    copyCached(join(place, to), name, async () => {
      made += 1;
      writeFileSync(source, `${made}`);
      return [source];
    });
  await copied("a");
  await copied("b");
  expect(made).toBe(2);
});
